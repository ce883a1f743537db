package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/identity/jwt"
)

// Identity says who may ask. At least one way must be set.
type Identity struct {
	APIKeysFile string    `yaml:"api_keys_file" doc:"written by kvasir key"`
	JWT         []JWT     `yaml:"jwt" doc:"issuers whose tokens are believed"`
	Anonymous   Anonymous `yaml:"anonymous" doc:"the tenant of requests without credentials; absent = they are refused"`
}

// Anonymous is the tenant of requests without credentials.
type Anonymous struct {
	Tenant string `yaml:"tenant" doc:"its name"`
}

// JWT is an issuer of tokens. A claim is named by its name or, where it stands
// deeper, by a JSON pointer.
type JWT struct {
	Issuer     string   `yaml:"issuer" doc:"value of iss, exactly"`
	Audience   string   `yaml:"audience" doc:"must stand in aud; without it tokens made for other services would do"`
	JWKSURL    string   `yaml:"jwks_url" doc:"https address of the issuer's keys; or jwks_file"`
	JWKSFile   string   `yaml:"jwks_file" doc:"file with the issuer's keys; watched"`
	Algorithms []string `yaml:"algorithms" doc:"those of the issuer's keys: RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA; others are refused, none and HMAC always"`

	TenantClaim string            `yaml:"tenant_claim" doc:"claim that names the tenant, such as org or /realm/tenant; or tenant"`
	Tenants     []string          `yaml:"tenants" doc:"that tenant_claim may name; default any: only for an issuer that is yours"`
	Tenant      string            `yaml:"tenant" doc:"tenant of all this issuer's tokens"`
	UserClaim   string            `yaml:"user_claim" doc:"default sub"`
	GroupsClaim string            `yaml:"groups_claim" doc:"default groups"`
	ScopesClaim string            `yaml:"scopes_claim" doc:"default scope"`
	LabelClaims map[string]string `yaml:"label_claims" doc:"label for policy: claim"`
	Admin       bool              `yaml:"admin" doc:"tokens count on the admin listener, with the admin scopes they name; default false"`

	Leeway   Duration `yaml:"leeway" doc:"of clocks; default 30s: more than any with NTP; at most 5m"`
	Refresh  Duration `yaml:"refresh" doc:"how often the keys are fetched; default 5m: a withdrawn key is accepted that much longer; a token with a key that is not known fetches them too, every 10s at most"`
	MaxStale Duration `yaml:"max_stale" doc:"how long keys are used that cannot be fetched; default 24h: an issuer's bad night, not a week"`
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
func (c *Identity) Only() bool { return c.APIKeysFile == "" && len(c.JWT) == 0 }

func (k *checker) identity(c *Identity) {
	if c.Only() && c.Anonymous.Tenant == "" {
		k.add("identity", "nobody could ask: set api_keys_file (see kvasir key issue) or anonymous: {tenant: local}")
	}
	k.file("identity.api_keys_file", c.APIKeysFile)
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
