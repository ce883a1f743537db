package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
)

// Identity says who may ask. At least one way must be set.
type Identity struct {
	APIKeysFile string    `yaml:"api_keys_file" reload:"live" doc:"written by kvasir key"`
	JWT         []JWT     `yaml:"jwt" reload:"live" doc:"issuers whose tokens are believed"`
	Anonymous   Anonymous `yaml:"anonymous" reload:"live" doc:"the tenant of requests without credentials; absent = they are refused"`

	MTLS           []Certificate  `yaml:"mtls" reload:"live" doc:"principals of client certificates; needs listen.tls.client_ca_file"`
	TrustedProxies []TrustedProxy `yaml:"trusted_proxies" reload:"live" doc:"proxies that are believed what they say of their clients: X-Forwarded-For, and who asks; headers of others are stripped unread"`
}

// Certificate is the principal of a client certificate.
type Certificate struct {
	SAN    string            `yaml:"san" reload:"live" doc:"a subject alternative name: spiffe://…, a DNS name or an address; wildcards are none"`
	Tenant string            `yaml:"tenant" reload:"live" doc:"whom it stands for"`
	User   string            `yaml:"user" reload:"live" doc:"user within the tenant"`
	Groups []string          `yaml:"groups" reload:"live" doc:"for policy"`
	Scopes []string          `yaml:"scopes" reload:"live" doc:"for policy; the admin listener takes no certificates"`
	Labels map[string]string `yaml:"labels" reload:"live" doc:"for policy"`
}

// TrustedProxy is a proxy before the router.
type TrustedProxy struct {
	Networks     []string `yaml:"networks" reload:"live" doc:"where it connects from, such as 10.0.0.0/24"`
	SANs         []string `yaml:"sans" reload:"live" doc:"names its certificate may have; needed where listen.tls.client_ca_file is set, and for tenant_header"`
	TenantHeader string   `yaml:"tenant_header" reload:"live" doc:"header in which it names the tenant, such as x-tenant-id or x-forwarded-tenant; the proxy must replace what clients send in it"`
	UserHeader   string   `yaml:"user_header" reload:"live" doc:"header with the user, such as x-forwarded-user"`
	GroupsHeader string   `yaml:"groups_header" reload:"live" doc:"header with the groups, separated by commas, such as x-forwarded-groups"`
}

// Anonymous is the tenant of requests without credentials.
type Anonymous struct {
	Tenant string `yaml:"tenant" reload:"live" doc:"its name"`
}

// JWT is an issuer of tokens. A claim is named by its name or, where it stands
// deeper, by a JSON pointer.
type JWT struct {
	Issuer     string   `yaml:"issuer" reload:"live" doc:"value of iss, exactly"`
	Audience   string   `yaml:"audience" reload:"live" doc:"must stand in aud; without it tokens made for other services would do"`
	JWKSURL    string   `yaml:"jwks_url" reload:"live" doc:"https address of the issuer's keys; or jwks_file"`
	JWKSFile   string   `yaml:"jwks_file" reload:"live" doc:"file with the issuer's keys; watched"`
	Algorithms []string `yaml:"algorithms" reload:"live" doc:"those of the issuer's keys: RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA; others are refused, none and HMAC always"`

	TenantClaim string            `yaml:"tenant_claim" reload:"live" doc:"claim that names the tenant, such as org or /realm/tenant; or tenant"`
	Tenants     []string          `yaml:"tenants" reload:"live" doc:"that tenant_claim may name; default any: only for an issuer that is yours"`
	Tenant      string            `yaml:"tenant" reload:"live" doc:"tenant of all this issuer's tokens"`
	UserClaim   string            `yaml:"user_claim" reload:"live" doc:"default sub"`
	GroupsClaim string            `yaml:"groups_claim" reload:"live" doc:"default groups"`
	ScopesClaim string            `yaml:"scopes_claim" reload:"live" doc:"default scope"`
	LabelClaims map[string]string `yaml:"label_claims" reload:"live" doc:"label for policy: claim"`
	Admin       bool              `yaml:"admin" reload:"live" doc:"tokens count on the admin listener, with the admin scopes they name; default false"`

	Leeway   Duration `yaml:"leeway" reload:"live" doc:"of clocks; default 30s: more than any with NTP; at most 5m"`
	Refresh  Duration `yaml:"refresh" reload:"live" doc:"how often the keys are fetched; default 5m: a withdrawn key is accepted that much longer; a token with a key that is not known fetches them too, every 10s at most"`
	MaxStale Duration `yaml:"max_stale" reload:"live" doc:"how long keys are used that cannot be fetched; default 24h: an issuer's bad night, not a week"`
}

// Config is j as package jwt takes it.
func (j *JWT) Config() jwt.Config {
	return jwt.Config{
		Issuer: j.Issuer, Audience: j.Audience, JWKSURL: j.JWKSURL, JWKSFile: j.JWKSFile, Algorithms: j.Algorithms,
		Tenant: j.Tenant, TenantClaim: j.TenantClaim, Tenants: j.Tenants, UserClaim: j.UserClaim, GroupsClaim: j.GroupsClaim,
		ScopesClaim: j.ScopesClaim, LabelClaims: j.LabelClaims, Admin: j.Admin,
		Leeway: time.Duration(j.Leeway), Refresh: time.Duration(j.Refresh), MaxStale: time.Duration(j.MaxStale),
	}
}

// Only reports whether nobody but the anonymous tenant can ask.
func (c *Identity) Only() bool {
	says := func(p TrustedProxy) bool { return p.TenantHeader != "" }
	return c.APIKeysFile == "" && len(c.JWT) == 0 && len(c.MTLS) == 0 && !slices.ContainsFunc(c.TrustedProxies, says)
}

// Certificates is mtls as package identity takes it. The error names the entry.
func (c *Identity) Certificates() (identity.Certificates, error) {
	out := identity.Certificates{}
	for i, m := range c.MTLS {
		san, err := identity.ParseSAN(m.SAN)
		if err != nil {
			return nil, fmt.Errorf("mtls[%d].san: %w", i, err)
		}
		if _, twice := out[san]; twice {
			return nil, fmt.Errorf("mtls[%d].san: %s stands twice", i, san)
		}
		g := identity.Grant{Tenant: m.Tenant, User: m.User, Groups: m.Groups, Scopes: m.Scopes, Labels: m.Labels}
		if _, err := g.Principal(identity.MethodMTLS, san); err != nil {
			return nil, fmt.Errorf("mtls[%d]: %w", i, err)
		}
		out[san] = g
	}
	return out, nil
}

// Proxies is trusted_proxies as package identity takes it. The error names the
// entry.
func (c *Identity) Proxies() (out identity.Proxies, err error) {
	for i, p := range c.TrustedProxies {
		t := identity.TrustedProxy{Tenant: strings.ToLower(p.TenantHeader), User: strings.ToLower(p.UserHeader), Groups: strings.ToLower(p.GroupsHeader)}
		for _, n := range p.Networks {
			net, err := netip.ParsePrefix(n)
			if err != nil {
				return nil, fmt.Errorf("trusted_proxies[%d].networks: %q: want a network such as 10.0.0.0/24", i, n)
			}
			t.Networks = append(t.Networks, net.Masked())
		}
		for _, name := range p.SANs {
			san, err := identity.ParseSAN(name)
			if err != nil {
				return nil, fmt.Errorf("trusted_proxies[%d].sans: %w", i, err)
			}
			t.SANs = append(t.SANs, san)
		}
		if err := t.Validate(); err != nil {
			return nil, fmt.Errorf("trusted_proxies[%d]: %w", i, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func (k *checker) identity(c *Identity, clientCA string) {
	if c.Only() && c.Anonymous.Tenant == "" {
		k.add("identity", "nobody could ask: set api_keys_file (see kvasir key issue) or anonymous: {tenant: local}")
	}
	k.file("identity.api_keys_file", c.APIKeysFile)
	if _, err := c.Certificates(); err != nil {
		k.add("identity", "%v", err)
	}
	if _, err := c.Proxies(); err != nil {
		k.add("identity", "%v", err)
	}
	if clientCA == "" && len(c.MTLS) > 0 {
		k.add("identity.mtls", "needs listen.tls.client_ca_file: nobody checks certificates without it")
	}
	for i, p := range c.TrustedProxies {
		if clientCA == "" && len(p.SANs) > 0 {
			k.add(fmt.Sprintf("identity.trusted_proxies[%d].sans", i), "needs listen.tls.client_ca_file: nobody checks certificates without it")
		}
		if clientCA != "" && len(p.SANs) == 0 {
			k.add(fmt.Sprintf("identity.trusted_proxies[%d].sans", i), "missing: clients show certificates here, so name the proxy's")
		}
	}
	seen := map[string]bool{}
	for i := range c.JWT {
		j, path := &c.JWT[i], fmt.Sprintf("identity.jwt[%d]", i)
		k.file(path+".jwks_file", j.JWKSFile)
		jc := j.Config()
		if err := jc.Validate(); err != nil {
			for _, line := range strings.Split(err.Error(), "\n") {
				k.add(path, "%s", line)
			}
		}
		if seen[j.Issuer] {
			k.add(path+".issuer", "issuer %q stands twice", j.Issuer)
		}
		seen[j.Issuer] = true
	}
}
