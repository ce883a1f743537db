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
	// file of API keys, written by kvasir key; watched
	APIKeysFile string `yaml:"api_keys_file" reload:"live"`
	// issuers whose tokens are accepted
	JWT []JWT `yaml:"jwt" reload:"live"`
	// tenant of requests without credentials; absent = they are refused
	Anonymous Anonymous `yaml:"anonymous" reload:"live"`

	// principals of client certificates; requires listen.tls.client_ca_file
	MTLS []Certificate `yaml:"mtls" reload:"live"`
	// proxies whose X-Forwarded-For and identity headers are accepted; those headers of
	// other peers are dropped
	TrustedProxies []TrustedProxy `yaml:"trusted_proxies" reload:"live"`
}

// Certificate is the principal of a client certificate.
type Certificate struct {
	// subject alternative name: spiffe://…, a DNS name or an e-mail address; no
	// wildcards
	SAN string `yaml:"san" reload:"live"`
	// tenant of its requests
	Tenant string `yaml:"tenant" reload:"live"`
	// user within the tenant
	User string `yaml:"user" reload:"live"`
	// for policy
	Groups []string `yaml:"groups" reload:"live"`
	// for policy; the admin listener accepts no certificates
	Scopes []string `yaml:"scopes" reload:"live"`
	// for policy
	Labels map[string]string `yaml:"labels" reload:"live"`
}

// TrustedProxy is a proxy in front of the router.
type TrustedProxy struct {
	// networks that it connects from, such as 10.0.0.0/24
	Networks []string `yaml:"networks" reload:"live"`
	// accepted names of its certificate; required if listen.tls.client_ca_file is set,
	// and for tenant_header
	SANs []string `yaml:"sans" reload:"live"`
	// header with the tenant, such as x-tenant-id or x-forwarded-tenant; the proxy must
	// replace what clients send in it
	TenantHeader string `yaml:"tenant_header" reload:"live"`
	// header with the user, such as x-forwarded-user
	UserHeader string `yaml:"user_header" reload:"live"`
	// header with the groups, separated by commas, such as x-forwarded-groups
	GroupsHeader string `yaml:"groups_header" reload:"live"`
}

// Anonymous is the tenant of requests without credentials.
type Anonymous struct {
	// name of the tenant
	Tenant string `yaml:"tenant" reload:"live"`
}

// JWT is an issuer of tokens. A claim is named by its name or, if it is nested, by a
// JSON pointer.
type JWT struct {
	// exact value of iss
	Issuer string `yaml:"issuer" reload:"live"`
	// required in aud; otherwise tokens for other services would be accepted
	Audience string `yaml:"audience" reload:"live"`
	// https URL of the issuer's keys; or jwks_file
	JWKSURL string `yaml:"jwks_url" reload:"live"`
	// file with the issuer's keys; watched
	JWKSFile string `yaml:"jwks_file" reload:"live"`
	// accepted algorithms: RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA;
	// never none or HMAC
	Algorithms []string `yaml:"algorithms" reload:"live"`

	// claim that names the tenant, such as org or /realm/tenant; or tenant
	TenantClaim string `yaml:"tenant_claim" reload:"live"`
	// tenants that tenant_claim may name; default any: use that only for your own issuer
	Tenants []string `yaml:"tenants" reload:"live"`
	// tenant of all tokens of this issuer
	Tenant string `yaml:"tenant" reload:"live"`
	// default sub
	UserClaim string `yaml:"user_claim" reload:"live"`
	// default groups
	GroupsClaim string `yaml:"groups_claim" reload:"live"`
	// default scope
	ScopesClaim string `yaml:"scopes_claim" reload:"live"`
	// map of label, for policy, to claim
	LabelClaims map[string]string `yaml:"label_claims" reload:"live"`
	// true: tokens are accepted on the admin listener, with the admin scopes that they
	// name; default false
	Admin bool `yaml:"admin" reload:"live"`

	// tolerated clock difference; default 30s: more than with NTP; at most 5m
	Leeway Duration `yaml:"leeway" reload:"live"`
	// how often keys are fetched; default 5m: a withdrawn key is accepted that much
	// longer; a token with an unknown key also triggers a fetch, at most every 10s
	Refresh Duration `yaml:"refresh" reload:"live"`
	// how long fetched keys are used while fetches fail; default 24h: bridges an outage
	// of a night
	MaxStale Duration `yaml:"max_stale" reload:"live"`
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
			"no authentication method: set api_keys_file (see kvasir key issue) or anonymous: {tenant: local}")
	}
	k.file("identity.api_keys_file", c.APIKeysFile)
	if _, err := c.Certificates(); err != nil {
		k.add("identity", "%v", err)
	}
	if _, err := c.Proxies(); err != nil {
		k.add("identity", "%v", err)
	}
	if clientCA == "" && len(c.MTLS) > 0 {
		k.add("identity.mtls", "requires listen.tls.client_ca_file, which verifies certificates")
	}
	for i, p := range c.TrustedProxies {
		if clientCA == "" && len(p.SANs) > 0 {
			k.add(fmt.Sprintf("identity.trusted_proxies[%d].sans", i),
				"requires listen.tls.client_ca_file, which verifies certificates")
		}
		if clientCA != "" && len(p.SANs) == 0 {
			k.add(fmt.Sprintf("identity.trusted_proxies[%d].sans", i),
				"missing: this listener requires client certificates, so name the proxy's certificate")
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
