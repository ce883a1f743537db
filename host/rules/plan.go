package rules

import (
	"fmt"
	"path/filepath"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/fleet"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/policy/live"
	"github.com/kvasir-router/kvasir/host/scaling"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// planInput is what a revision is planned from.
type planInput struct {
	cfg    *config.Config
	base   *Revision       // nil at start; leased by the caller
	policy *live.Candidate // nil = none
	change *plugins.Change // of the plugins' modules; may be nil

	// credentials says to read the files of credentials. Otherwise the credentials in
	// force when the plan is committed stay.
	credentials bool
	disabled    []string // tenants; with credentials
}

// carries reports whether the plan reuses what the base has read from the files of its
// configuration, because only the policy or a plugin differs.
func (in *planInput) carries() bool { return in.base != nil && !in.credentials }

// plan makes a revision. It may take minutes and changes nothing; everything that
// can be refused is refused here. Tokenizers whose files did not change are taken
// over from the base, plugins from those that are loaded. The caller must commit
// or release the revision.
func (m *Manager) plan(in planInput) (_ *Revision, err error) {
	cfg, base := in.cfg, in.base
	r := &Revision{Number: 1, Config: cfg, Built: m.opt.Now(), policy: in.policy, shared: new(shared)}
	if base != nil {
		r.Number = base.Number + 1
	}
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	if r.LogPolicy, err = newLogPolicy(r.Policy()); err != nil {
		return nil, err
	}
	sc := scheduler.Config{State: m.opt.State, Region: cfg.Region, Capacity: m.opt.Scaling.Capacity, Revision: r.Number}
	if sc.Policy, err = m.opt.Policies.Engine(&cfg.Policy, r.Policy()); err != nil {
		return nil, err
	}
	if err := r.planSecrets(in); err != nil {
		return nil, err
	}
	for i := range cfg.Pools {
		sc.Pools = append(sc.Pools, r.poolRules(&cfg.Pools[i]))
	}
	for i := range cfg.Models {
		model, err := m.modelRules(&cfg.Models[i], r, in)
		if err != nil {
			return nil, err
		}
		sc.Models = append(sc.Models, model)
	}
	if err := m.planParts(r, in); err != nil {
		return nil, err
	}
	sc.Edition = r.fleet.Edition()
	for i := range cfg.Profiles {
		p := Profile(&cfg.Profiles[i], i == 0)
		r.Plugins.Extend(i, &p)
		sc.Profiles = append(sc.Profiles, p)
	}
	if r.Scheduler, err = scheduler.New(sc); err != nil {
		return nil, err
	}
	return r, m.planAccess(r, in)
}

// planSecrets reads the credentials for engines, unless the plan reuses those of the
// base: a file that changed in the meantime waits for a reload.
func (r *Revision) planSecrets(in planInput) error {
	if in.carries() {
		r.authorization, r.engineTLS = in.base.authorization, in.base.engineTLS
		return nil
	}
	r.authorization, r.engineTLS = map[string]string{}, map[string]fleet.TLS{}
	for i := range in.cfg.Pools {
		p := &in.cfg.Pools[i]
		auth, err := bearer(p.Credentials.BearerFile)
		if err != nil {
			return fmt.Errorf("pool %s: %w", p.Name, err)
		}
		r.authorization[p.Name] = auth
		if r.engineTLS[p.Name], err = fleet.EngineTLS(p); err != nil {
			return err
		}
	}
	return nil
}

// planParts plans the parts that other packages own.
func (m *Manager) planParts(r *Revision, in planInput) error {
	if in.carries() && in.change == nil {
		r.modules = in.base.modules
		r.modules.holders.Add(1)
	} else {
		var before *plugins.Set
		if in.base != nil {
			before = in.base.Plugins
		}
		set, err := m.opt.Plugins.Plan(in.cfg, before, in.change)
		if err != nil {
			return err
		}
		r.modules = hold(set)
	}
	r.Plugins = r.modules.set
	if in.carries() {
		r.fleet, r.scaling = in.base.fleet, in.base.scaling
		return nil
	}
	var err error
	secrets := fleet.Secrets{Authorization: r.authorization, CacheIdentity: r.cacheIdentities(), TLS: r.engineTLS}
	var before *fleet.Plan
	if in.base != nil {
		before = in.base.fleet
	}
	if r.fleet, err = fleet.NewPlan(in.cfg, secrets, before); err != nil {
		return err
	}
	r.scaling, err = scaling.NewPlan(in.cfg)
	return err
}

// planAccess reads the credentials: keys, certificates, issuers and the admin token.
func (m *Manager) planAccess(r *Revision, in planInput) (err error) {
	if !in.credentials {
		r.Tokens, r.Admin, r.Certificate = in.base.Tokens, in.base.Admin, in.base.Certificate
		return r.adopt(in.base.Identity, in.base)
	}
	if r.Certificate, err = r.Config.Listen.TLS.Certificate(); err != nil {
		return err
	}
	if r.Tokens, err = tokenVerifier(r.Config, in.base); err != nil {
		return err
	}
	token, err := m.opt.AdminToken(r.Config)
	if err != nil {
		return err
	}
	if r.Admin, err = admin.NewAccess(token, r.Config.Admin.Hosts); err != nil {
		return err
	}
	c := identity.SetConfig{Anonymous: r.Config.Identity.Anonymous.Tenant, Disabled: in.disabled}
	if f := r.Config.Identity.APIKeysFile; f != "" {
		if c.Keys, err = identity.ReadFile(f); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
		m.applyPending(c.Keys)
	}
	if r.Tokens != nil {
		c.Tokens = r.Tokens
	}
	if c.Certificates, err = r.Config.Identity.Certificates(); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	set, err := m.opt.Identity.NewSet(c)
	if err != nil {
		return err
	}
	if in.base != nil && in.base.Identity.Same(set) {
		set = in.base.Identity
	}
	return r.adopt(set, in.base)
}

// adopt sets the credentials of a revision that is not published. It keeps the edge of
// base, which may be nil, if that would be the same, so that no request has to be
// authenticated again.
func (r *Revision) adopt(set *identity.Set, base *Revision) (err error) {
	r.Identity = set
	if base != nil && base.Identity == set && sameEdge(base.Config, r.Config) {
		r.Edge = base.Edge
		return nil
	}
	r.Edge, err = edgeOf(r.Config, set)
	return err
}

// tokenVerifier returns the verifier of a configuration's issuers, nil if it has none.
// Issuers that did not change keep the keys that base has.
func tokenVerifier(cfg *config.Config, base *Revision) (*jwt.Verifier, error) {
	if len(cfg.Identity.JWT) == 0 {
		return nil, nil
	}
	var issuers []jwt.Config
	for i := range cfg.Identity.JWT {
		issuers = append(issuers, cfg.Identity.JWT[i].Config())
	}
	var before *jwt.Verifier
	if base != nil {
		before = base.Tokens
	}
	v, err := jwt.New(issuers, before)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return v, nil
}
