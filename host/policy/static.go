package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Static is an Engine of a few fixed rules, for sites without a policy: each tenant
// has its own cache namespace, and everything that is not restricted is allowed. It
// is safe for concurrent use; the same tenant always gets the same *Decision.
type Static struct {
	cfg      StaticConfig
	revision string
	noTenant *Decision
	tenants  atomic.Pointer[map[string]*tenantRules] // replaced as a whole

	mu sync.Mutex // serialises additions to tenants
}

// StaticConfig is the configuration of Static.
type StaticConfig struct {
	// Key is K_epoch, see LoadOrCreateKey. It is not part of the revision.
	Key []byte `json:"-"`
	// Tenants restricts these tenants.
	Tenants map[string]Tenant `json:"tenants,omitempty"`
	// DenyOthers refuses tenants that Tenants does not name.
	DenyOthers bool `json:"deny_others,omitempty"`
}

// Tenant restricts one tenant. Empty lists restrict nothing.
type Tenant struct {
	Models          []string     `json:"models,omitempty"` // that it may request
	Pools           []string     `json:"pools,omitempty"`  // a constraint on the label "pool"
	Constraints     []Constraint `json:"constraints,omitempty"`
	Profile         string       `json:"profile,omitempty"`
	Priority        int          `json:"priority,omitempty"`
	MaxPromptTokens int          `json:"max_prompt_tokens,omitempty"`
	MaxOutputTokens int          `json:"max_output_tokens,omitempty"`
}

// tenantRules are the decisions for one tenant, made once.
type tenantRules struct {
	models      map[string]bool // nil = all
	allow, deny *Decision
}

// maxTenants bounds the decisions kept for tenants that are not configured. Tenants
// come from issued keys, so a site has far fewer.
const maxTenants = 1 << 16

// Validate reports all errors of c.
func (c *StaticConfig) Validate() error {
	var all []error
	if len(c.Key) != KeyBytes {
		all = append(all, fmt.Errorf("policy: key of %d bytes, want %d", len(c.Key), KeyBytes))
	}
	for name, t := range c.Tenants {
		if name == "" {
			all = append(all, errors.New("policy: tenant without a name"))
		}
		for _, k := range t.Constraints {
			if k.Label == "" || len(k.Values) == 0 {
				all = append(all, fmt.Errorf("policy: tenant %q: constraint without a label or values", name))
			}
		}
		if t.MaxPromptTokens < 0 || t.MaxOutputTokens < 0 {
			all = append(all, fmt.Errorf("policy: tenant %q: negative token limit", name))
		}
	}
	return errors.Join(all...)
}

// NewStatic returns the engine for cfg. It copies what it keeps.
func NewStatic(cfg StaticConfig) (*Static, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(cfg) // maps are sorted
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	sum := sha256.Sum256(text)
	s := &Static{cfg: cfg, revision: "static:" + hex.EncodeToString(sum[:8])}
	s.cfg.Key = slices.Clone(cfg.Key)
	s.noTenant = s.refusal(401, "no principal", "no_principal")
	m := make(map[string]*tenantRules, len(cfg.Tenants))
	for name, t := range cfg.Tenants {
		m[name] = s.rules(name, t)
	}
	s.tenants.Store(&m)
	return s, nil
}

// Decide implements Engine. The error is always nil. From the second decision of a
// tenant on, it allocates nothing.
func (s *Static) Decide(in *Input) (*Decision, error) {
	if in.Principal == nil || in.Principal.Tenant == "" {
		return s.noTenant, nil
	}
	t := (*s.tenants.Load())[in.Principal.Tenant]
	if t == nil {
		t = s.add(in.Principal.Tenant)
	}
	if t.models != nil && !t.models[in.Model] {
		return t.deny, nil
	}
	return t.allow, nil
}

// add makes the decisions for a tenant that is not configured, and keeps them if
// fewer than maxTenants are kept.
func (s *Static) add(name string) *tenantRules {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.tenants.Load()
	if t := old[name]; t != nil {
		return t
	}
	t := s.rules(name, Tenant{})
	if s.cfg.DenyOthers {
		t.allow = s.refusal(403, "This tenant may not use this service.", "tenant_unknown")
	}
	if len(old) < maxTenants {
		next := make(map[string]*tenantRules, len(old)+1)
		for k, v := range old {
			next[k] = v
		}
		next[name] = t
		s.tenants.Store(&next)
	}
	return t
}

func (s *Static) rules(name string, t Tenant) *tenantRules {
	d := &Decision{
		Allow: true, Reason: "allowed",
		Scope: ScopeTenant, Salt: Salt(s.cfg.Key, ScopeTenant, name), Namespace: NamespaceHash(s.cfg.Key, ScopeTenant, name),
		Profile: t.Profile, Priority: t.Priority, MaxPromptTokens: t.MaxPromptTokens, MaxOutputTokens: t.MaxOutputTokens,
		Rules: []string{"tenant_namespace"}, Revision: s.revision,
	}
	if len(t.Pools) > 0 {
		d.Constraints = append(d.Constraints, Constraint{Label: "pool", Values: slices.Clone(t.Pools)})
		d.Rules = append(d.Rules, "tenant_pools")
	}
	for _, k := range t.Constraints {
		d.Constraints = append(d.Constraints, Constraint{Label: k.Label, NotIn: k.NotIn, Values: slices.Clone(k.Values)})
	}
	if len(t.Constraints) > 0 {
		d.Rules = append(d.Rules, "tenant_constraints")
	}
	r := &tenantRules{allow: d, deny: s.refusal(403, "This tenant may not use this model.", "tenant_models")}
	if len(t.Models) > 0 {
		d.Rules = append(d.Rules, "tenant_models")
		r.models = make(map[string]bool, len(t.Models))
		for _, m := range t.Models {
			r.models[m] = true
		}
	}
	return r
}

func (s *Static) refusal(status int, reason, rule string) *Decision {
	return &Decision{Status: status, Reason: reason, Rules: []string{rule}, Revision: s.revision}
}
