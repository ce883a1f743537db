package jwt

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/kvasir-router/kvasir/host/identity"
)

// Config is one issuer whose tokens are accepted.
//
// A claim is given by its name, or by a JSON pointer (RFC 6901) such as
// /realm_access/roles if it is nested.
type Config struct {
	Issuer     string   // value of iss, exactly
	Audience   string   // must be in aud, exactly
	JWKSURL    string   // of its keys: https, or http on loopback
	JWKSFile   string   // or the file with them
	Algorithms []string // that its tokens may use; see Algorithms

	Tenant      string   // of all its tokens; or
	TenantClaim string   // the claim that names the tenant
	Tenants     []string // that TenantClaim may name; empty = any

	UserClaim   string            // "" = sub
	GroupsClaim string            // "" = groups: a list, or one word
	ScopesClaim string            // "" = scope: words, or a list
	LabelClaims map[string]string // label → claim

	// Admin makes the admin listener accept its tokens, with the scopes of package
	// admin that they name.
	Admin bool

	// Leeway allows for clock skew; 0 = 30s, which exceeds the skew of hosts with
	// NTP; at most 5m.
	Leeway time.Duration
	// Refresh is the time between fetches of keys; 0 = 5m: a withdrawn key is
	// accepted for that much longer.
	Refresh time.Duration
	// MaxStale is how long keys are used after the last successful fetch; 0 = 24h:
	// longer than an outage of a night.
	MaxStale time.Duration
}

func (c *Config) withDefaults() {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&c.UserClaim, "sub")
	set(&c.GroupsClaim, "groups")
	set(&c.ScopesClaim, "scope")
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.Leeway, 30 * time.Second}, {&c.Refresh, 5 * time.Minute}, {&c.MaxStale, 24 * time.Hour}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
}

// Algorithms are the supported signature algorithms, all with a public key. HMAC is
// not among them: anyone who can check such a token can make one.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// Validate reports all faults of c.
func (c *Config) Validate() error {
	var all []error
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if c.Issuer == "" {
		bad("missing issuer: the value of iss in its tokens")
	}
	if c.Audience == "" {
		bad("missing audience: without it, tokens meant for other services are accepted")
	}
	if (c.JWKSURL == "") == (c.JWKSFile == "") {
		bad("set exactly one of jwks_url and jwks_file")
	}
	if c.JWKSURL != "" && !goodURL(c.JWKSURL) {
		bad("jwks_url %q: want https://…, or http:// on a loopback address", c.JWKSURL)
	}
	if len(c.Algorithms) == 0 {
		bad("missing algorithms: name those of the issuer's keys, such as [RS256]; supported: %s",
			strings.Join(Algorithms, ", "))
	}
	for _, a := range c.Algorithms {
		if !slices.Contains(Algorithms, a) {
			bad("algorithm %q: want one of %s", a, strings.Join(Algorithms, ", "))
		}
	}
	if (c.Tenant == "") == (c.TenantClaim == "") {
		bad("set exactly one of tenant and tenant_claim")
	}
	for _, t := range append(slices.Clone(c.Tenants), c.Tenant) {
		if t != "" && !identity.ValidTenant(t) {
			bad("invalid tenant %q", t)
		}
	}
	if c.Tenant != "" && len(c.Tenants) > 0 {
		bad("tenants requires tenant_claim")
	}
	for _, label := range slices.Sorted(maps.Keys(c.LabelClaims)) {
		if !identity.ValidTenant(label) || c.LabelClaims[label] == "" {
			bad("invalid label %q of claim %q", label, c.LabelClaims[label])
		}
	}
	within := func(name string, d, low, high time.Duration) {
		if d != 0 && (d < low || d > high) {
			bad("%s %v: want %v to %v", name, d, low, high)
		}
	}
	within("leeway", c.Leeway, 0, 5*time.Minute)
	within("refresh", c.Refresh, 10*time.Second, 24*time.Hour)
	within("max_stale", c.MaxStale, time.Minute, 30*24*time.Hour)
	return errors.Join(all...)
}

// goodURL accepts URLs whose response cannot be changed in transit.
func goodURL(s string) bool {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || err == nil && ip.IsLoopback())
}

func (c *Config) algorithms() (out []jose.SignatureAlgorithm) {
	for _, a := range c.Algorithms {
		out = append(out, jose.SignatureAlgorithm(a))
	}
	return out
}

func (c *Config) equal(o *Config) bool {
	a, b := *c, *o
	same := slices.Equal(a.Algorithms, b.Algorithms) && slices.Equal(a.Tenants, b.Tenants) &&
		maps.Equal(a.LabelClaims, b.LabelClaims)
	return same && a.Issuer == b.Issuer && a.Audience == b.Audience && a.JWKSURL == b.JWKSURL &&
		a.JWKSFile == b.JWKSFile &&
		a.Tenant == b.Tenant && a.TenantClaim == b.TenantClaim && a.UserClaim == b.UserClaim &&
		a.GroupsClaim == b.GroupsClaim &&
		a.ScopesClaim == b.ScopesClaim && a.Admin == b.Admin && a.Leeway == b.Leeway && a.Refresh == b.Refresh &&
		a.MaxStale == b.MaxStale
}
