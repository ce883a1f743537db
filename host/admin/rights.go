package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/identity"
)

// Scopes of the admin API. A principal holds the scopes of its key or token; the
// admin token holds all. plugin:push and plugin:activate, and policy:propose and
// policy:activate, are separate so that authors need not be able to put their work
// in force.
const (
	ScopeStatus         = "status:read"
	ScopeMetrics        = "metrics:read"
	ScopeDebug          = "debug:profile" // profiles can show pieces of memory
	ScopeEndpointRead   = "endpoint:read"
	ScopeConfigReload   = "config:reload"
	ScopeExplainOwn     = "explain:own" // requests of the principal's tenant
	ScopeExplainAny     = "explain:any" // of every tenant; audited
	ScopePluginRead     = "plugin:read"
	ScopePluginPush     = "plugin:push"
	ScopePluginActivate = "plugin:activate"
	ScopeKeyRead        = "key:read"
	ScopeKeyIssue       = "key:issue"
	ScopeKeyRevoke      = "key:revoke"
	ScopeAuditRead      = "audit:read"
	ScopePolicyRead     = "policy:read"
	ScopePolicyPropose  = "policy:propose"
	ScopePolicyActivate = "policy:activate"
	ScopeProfileWrite   = "profile:write"
	ScopeAutoscaleRead  = "autoscale:read"
	ScopeAutoscaleWrite = "autoscale:write"
	ScopeEndpointWrite  = "endpoint:write"
)

// Scopes are all scopes of the admin API.
var Scopes = []string{
	ScopeStatus, ScopeMetrics, ScopeDebug, ScopeEndpointRead, ScopeConfigReload, ScopeExplainOwn, ScopeExplainAny,
	ScopePluginRead, ScopePluginPush, ScopePluginActivate, ScopeKeyRead, ScopeKeyIssue, ScopeKeyRevoke, ScopeAuditRead,
	ScopePolicyRead, ScopePolicyPropose, ScopePolicyActivate, ScopeProfileWrite, ScopeAutoscaleRead, ScopeAutoscaleWrite,
	ScopeEndpointWrite,
}

// anyTenant is the part of a scope after its @ that stands for every tenant.
const anyTenant = "*"

// grant is a scope in its parts: noun:verb, or noun:verb@tenant.
type grant struct {
	noun, verb string // verb "*" = all of the noun
	tenant     string // "" = the scope names none
}

func parseScope(scope string) grant {
	name, tenant, _ := strings.Cut(scope, "@")
	noun, verb, _ := strings.Cut(name, ":")
	return grant{noun, verb, tenant}
}

// perTenant reports whether scopes of a noun are bound to a tenant: the one that they
// name, or else their holder's own.
func perTenant(noun string) bool { return noun == "key" }

// covers reports whether g grants noun:verb, for any tenant. A scope that names a
// tenant but is not bound to one grants nothing.
func (g grant) covers(noun, verb string) bool {
	return g.noun == noun && (g.tenant == "" || perTenant(noun)) &&
		(g.verb == "*" || g.verb == verb || noun == "explain" && g.verb == "any" && verb == "own")
}

// reaches reports whether g, held by a principal of tenant own, applies to tenant.
func (g grant) reaches(own, tenant string) bool {
	switch {
	case g.tenant == anyTenant, g.noun == "explain" && g.verb != "own":
		return true
	case g.tenant != "":
		return g.tenant == tenant
	case perTenant(g.noun), g.noun == "explain":
		return tenant == own
	}
	return true
}

// holds reports whether p holds a scope, for any tenant.
func holds(p *identity.Principal, scope string) bool {
	want := parseScope(scope)
	return p.Method == identity.MethodRoot || slices.ContainsFunc(p.Scopes, func(s string) bool {
		return parseScope(s).covers(want.noun, want.verb)
	})
}

// holdsFor reports whether p holds a scope that reaches tenant.
func holdsFor(p *identity.Principal, scope, tenant string) bool {
	want := parseScope(scope)
	return p.Method == identity.MethodRoot || slices.ContainsFunc(p.Scopes, func(s string) bool {
		g := parseScope(s)
		return g.covers(want.noun, want.verb) && g.reaches(p.Tenant, tenant)
	})
}

// CheckScopes refuses unknown scopes with the noun of an admin scope: a misspelt
// scope would silently grant nothing. Scopes with other nouns belong to the site's
// policy.
func CheckScopes(scopes []string) error {
	var all []error
	for _, s := range scopes {
		g := parseScope(s)
		switch {
		case !adminNoun(g.noun):
		case g.verb != "*" && !slices.Contains(Scopes, g.noun+":"+g.verb):
			all = append(all, fmt.Errorf("unknown scope %q: want one of %s", s, strings.Join(Scopes, ", ")))
		case strings.Contains(s, "@") && !perTenant(g.noun):
			all = append(all, fmt.Errorf("scope %q names a tenant, which only key:read, key:issue, key:revoke and key:* may", s))
		}
	}
	return errors.Join(all...)
}

func adminNoun(noun string) bool {
	return slices.ContainsFunc(Scopes, func(s string) bool { return strings.HasPrefix(s, noun+":") })
}

// ungrantable returns the first of the admin scopes that p cannot give to a key of
// tenant, "" if there is none. A principal can grant only what it holds. A scope
// that names no tenant applies to the key's own tenant, so the issuer must hold it
// for that tenant.
func ungrantable(p *identity.Principal, tenant string, scopes []string) string {
	if p.Method == identity.MethodRoot {
		return ""
	}
	for _, s := range scopes {
		want := parseScope(s)
		if !adminNoun(want.noun) {
			continue
		}
		if want.tenant == "" {
			want.tenant = tenant
		}
		if !slices.ContainsFunc(p.Scopes, func(held string) bool { return parseScope(held).includes(p.Tenant, want) }) {
			return s
		}
	}
	return ""
}

// asPolicySees returns p with the plain form of a scope that it holds for some
// tenant. Policies compare scopes with verbs; which tenants a scope reaches was
// checked before.
func asPolicySees(p *identity.Principal, verb string) *identity.Principal {
	if !perTenant(parseScope(verb).noun) || p.HasScope(verb) || !holds(p, verb) {
		return p
	}
	plain := *p
	plain.Scopes = append(slices.Clone(p.Scopes), verb)
	return &plain
}

// includes reports whether g, held by a principal of tenant own, grants everything
// that want grants.
func (g grant) includes(own string, want grant) bool {
	if want.verb == "*" && g.verb != "*" || !g.covers(want.noun, want.verb) {
		return false
	}
	if want.tenant == anyTenant {
		return g.tenant == anyTenant
	}
	return want.verb == "any" || g.reaches(own, want.tenant)
}
