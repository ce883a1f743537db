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

// Identity configures authentication. At least one method must be set.
type Identity struct {
	APIKeysFile string    `yaml:"api_keys_file" reload:"live" doc:"file of API keys, written by kvasir key; watched"`
	JWT         []JWT     `yaml:"jwt" reload:"live" doc:"issuers whose tokens are accepted"`
	Anonymous   Anonymous `yaml:"anonymous" reload:"live" doc:"tenant of requests without credentials; absent = they are refused"`

	MTLS           []Certificate  `yaml:"mtls" reload:"live" doc:"principals of client certificates; requires listen.tls.client_ca_file"`
	TrustedProxies []TrustedProxy `yaml:"trusted_proxies" reload:"live" doc:"proxies whose X-Forwarded-For and identity headers are accepted; those headers of other peers are dropped"`
}

// Certificate is the principal of a client certificate.
type Certificate struct {
	SAN    string            `yaml:"san" reload:"live" doc:"subject alternative name: spiffe://…, a DNS name or an e-mail address; no wildcards"`
	Tenant string            `yaml:"tenant" reload:"live" doc:"tenant of its requests"`
	User   string            `yaml:"user" reload:"live" doc:"user within the tenant"`
	Groups []string          `yaml:"groups" reload:"live" doc:"for policy"`
	Scopes []string          `yaml:"scopes" reload:"live" doc:"for policy; the admin listener accepts no certificates"`
	Labels map[string]string `yaml:"labels" reload:"live" doc:"for policy"`
}

// TrustedProxy is a proxy in front of the router.
type TrustedProxy struct {
	Networks     []string `yaml:"networks" reload:"live" doc:"networks that it connects from, such as 10.0.0.0/24"`
	SANs         []string `yaml:"sans" reload:"live" doc:"accepted names of its certificate; required if listen.tls.client_ca_file is set, and for tenant_header"`
	TenantHeader string   `yaml:"tenant_header" reload:"live" doc:"header with the tenant, such as x-tenant-id or x-forwarded-tenant; the proxy must replace what clients send in it"`
	UserHeader   string   `yaml:"user_header" reload:"live" doc:"header with the user, such as x-forwarded-user"`
	GroupsHeader string   `yaml:"groups_header" reload:"live" doc:"header with the groups, separated by commas, such as x-forwarded-groups"`
}

// Anonymous is the tenant of requests without credentials.
type Anonymous struct {
	Tenant string `yaml:"tenant" reload:"live" doc:"name of the tenant"`
}

// JWT is an issuer of tokens. A claim is named by its name or, if it is nested, by a
// JSON pointer.
type JWT struct {
	Issuer     string   `yaml:"issuer" reload:"live" doc:"exact value of iss"`
	Audience   string   `yaml:"audience" reload:"live" doc:"required in aud; otherwise tokens for other services would be accepted"`
	JWKSURL    string   `yaml:"jwks_url" reload:"live" doc:"https URL of the issuer's keys; or jwks_file"`
	JWKSFile   string   `yaml:"jwks_file" reload:"live" doc:"file with the issuer's keys; watched"`
	Algorithms []string `yaml:"algorithms" reload:"live" doc:"accepted algorithms: RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA; never none or HMAC"`

	TenantClaim string            `yaml:"tenant_claim" reload:"live" doc:"claim that names the tenant, such as org or /realm/tenant; or tenant"`
	Tenants     []string          `yaml:"tenants" reload:"live" doc:"tenants that tenant_claim may name; default any: use that only for your own issuer"`
	Tenant      string            `yaml:"tenant" reload:"live" doc:"tenant of all tokens of this issuer"`
	UserClaim   string            `yaml:"user_claim" reload:"live" doc:"default sub"`
	GroupsClaim string            `yaml:"groups_claim" reload:"live" doc:"default groups"`
	ScopesClaim string            `yaml:"scopes_claim" reload:"live" doc:"default scope"`
	LabelClaims map[string]string `yaml:"label_claims" reload:"live" doc:"map of label, for policy, to claim"`
	Admin       bool              `yaml:"admin" reload:"live" doc:"true: tokens are accepted on the admin listener, with the admin scopes that they name; default false"`

	Leeway   Duration `yaml:"leeway" reload:"live" doc:"tolerated clock difference; default 30s: more than with NTP; at most 5m"`
	Refresh  Duration `yaml:"refresh" reload:"live" doc:"how often keys are fetched; default 5m: a withdrawn key is accepted that much longer; a token with an unknown key also triggers a fetch, at most every 10s"`
	MaxStale Duration `yaml:"max_stale" reload:"live" doc:"how long fetched keys are used while fetches fail; default 24h: bridges an outage of a night"`
}

// Config returns j for package jwt.
func (j *JWT) Config() jwt.Config {
	return jwt.Config{
		Issuer: j.Issuer, Audience: j.Audience, JWKSURL: j.JWKSURL, JWKSFile: j.JWKSFile, Algorithms: j.Algorithms,
		Tenant: j.Tenant, TenantClaim: j.TenantClaim, Tenants: j.Tenants, UserClaim: j.UserClaim, GroupsClaim: j.GroupsClaim,
		ScopesClaim: j.ScopesClaim, LabelClaims: j.LabelClaims, Admin: j.Admin,
		Leeway: time.Duration(j.Leeway), Refresh: time.Duration(j.Refresh), MaxStale: time.Duration(j.MaxStale),
	}
}

// Only reports whether the anonymous tenant is the only one.
func (c *Identity) Only() bool {
	says := func(p TrustedProxy) bool { return p.TenantHeader != "" }
	return c.APIKeysFile == "" && len(c.JWT) == 0 && len(c.MTLS) == 0 && !slices.ContainsFunc(c.TrustedProxies, says)
}

// Certificates returns mtls for package identity. The error names the entry.
func (c *Identity) Certificates() (identity.Certificates, error) {
	out := identity.Certificates{}
	for i, m := range c.MTLS {
		san, err := identity.ParseSAN(m.SAN)
		if err != nil {
			return nil, fmt.Errorf("mtls[%d].san: %w", i, err)
		}
		if _, twice := out[san]; twice {
			return nil, fmt.Errorf("mtls[%d].san: duplicate name %q", i, san)
		}
		g := identity.Grant{Tenant: m.Tenant, User: m.User, Groups: m.Groups, Scopes: m.Scopes, Labels: m.Labels}
		if _, err := g.Principal(identity.MethodMTLS, san); err != nil {
			return nil, fmt.Errorf("mtls[%d]: %w", i, err)
		}
		out[san] = g
	}
	return out, nil
}

// Proxies returns trusted_proxies for package identity. The error names the entry.
func (c *Identity) Proxies() (out identity.Proxies, err error) {
	for i, p := range c.TrustedProxies {
		t := identity.TrustedProxy{
			Tenant: strings.ToLower(p.TenantHeader), User: strings.ToLower(p.UserHeader),
			Groups: strings.ToLower(p.GroupsHeader),
		}
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
		k.add("identity",
			"no method of authentication: set api_keys_file (see kvasir key issue) or anonymous: {tenant: local}")
	}
	k.file("identity.api_keys_file", c.APIKeysFile)
	if _, err := c.Certificates(); err != nil {
		k.add("identity", "%v", err)
	}
	if _, err := c.Proxies(); err != nil {
		k.add("identity", "%v", err)
	}
	if clientCA == "" && len(c.MTLS) > 0 {
		k.add("identity.mtls", "requires listen.tls.client_ca_file, by which certificates are verified")
	}
	for i, p := range c.TrustedProxies {
		if clientCA == "" && len(p.SANs) > 0 {
			k.add(fmt.Sprintf("identity.trusted_proxies[%d].sans", i),
				"requires listen.tls.client_ca_file, by which certificates are verified")
		}
		if clientCA != "" && len(p.SANs) == 0 {
			k.add(fmt.Sprintf("identity.trusted_proxies[%d].sans", i),
				"missing: clients present certificates on this listener, so name that of the proxy")
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
			k.add(path+".issuer", "duplicate issuer %q", j.Issuer)
		}
		seen[j.Issuer] = true
	}
}
