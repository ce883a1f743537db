package host

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/fleet"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scaling"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
)

// generation is everything that a reload replaces. It is immutable once built.
type generation struct {
	number    uint64
	cfg       *config.Config
	scheduler *scheduler.Scheduler
	prompts   []*prompts
	auth      map[string]string // Authorization towards the engines, by pool; never logged
	plugins   *plugins.Set      // owned
	identity  *identity.Set     // whom it accepts; replaced by a revision of the same rules when keys change
	tokens    *jwt.Verifier     // nil without issuers
	edge      *proxy.Edge       // by which heads are read
	logPolicy decisions.Policy  // nil without a policy
	policy    *policy.Snapshot  // nil without a policy, and while none could be loaded
	endpoints *fleet.Plan
	scaling   *scaling.Plan
	built     time.Time
	holders   *atomic.Int64 // generations that hold plugins: this one, and those that differ in credentials only
}

// build makes a generation over the state of h. On error nothing has changed.
// Tokenizers whose files did not change are taken over from prev, plugins from
// the table. change (may be nil) is of the plugins' modules. The caller must adopt or
// drop the generation.
func (h *Host) build(cfg *config.Config, prev *generation, number uint64, change *plugins.Change) (_ *generation, err error) {
	g := &generation{number: number, cfg: cfg, built: h.now(), auth: map[string]string{}, holders: new(atomic.Int64)}
	g.holders.Store(1)
	defer func() {
		if err != nil {
			h.drop(g)
		}
	}()
	engine, rules, err := h.policies.engine(cfg, prev)
	if err != nil {
		return nil, err
	}
	g.policy = rules
	if g.logPolicy, err = newLogPolicy(rules); err != nil {
		return nil, err
	}
	sc := scheduler.Config{State: h.state, Region: cfg.Region, Capacity: h.scaling.Capacity, Policy: engine, Revision: number}
	engineTLS := map[string]fleet.TLS{}
	for i := range cfg.Pools {
		p, err := poolRules(&cfg.Pools[i], cfg.Identity.Only())
		if err != nil {
			return nil, err
		}
		sc.Pools = append(sc.Pools, p)
		g.auth[p.Name] = p.Authorization
		engineTLS[p.Name], err = fleet.EngineTLS(&cfg.Pools[i])
		if err != nil {
			return nil, err
		}
		sc.Pools[i].TLS = engineTLS[p.Name].Config
	}
	for i := range cfg.Models {
		m, err := h.modelRules(&cfg.Models[i], g, prev)
		if err != nil {
			return nil, err
		}
		sc.Models = append(sc.Models, m)
	}
	var before *plugins.Set
	if prev != nil {
		before = prev.plugins
	}
	if g.plugins, err = h.plugins.Plan(cfg, before, change); err != nil {
		return nil, err
	}
	for i := range cfg.Profiles {
		p := profileRules(&cfg.Profiles[i], i == 0)
		g.plugins.Extend(i, &p)
		sc.Profiles = append(sc.Profiles, p)
	}
	if g.scheduler, err = scheduler.New(sc); err != nil {
		return nil, err
	}
	if g.tokens, err = tokenVerifier(cfg, prev); err != nil {
		return nil, err
	}
	if g.endpoints, err = fleet.NewPlan(cfg, fleet.Secrets{Authorization: g.auth, CacheIdentity: g.cacheIdentities(), TLS: engineTLS}); err != nil {
		return nil, err
	}
	if g.scaling, err = scaling.NewPlan(cfg); err != nil {
		return nil, err
	}
	return g, h.access(g, prev)
}

// access reads who may ask by the configuration of g: its keys, certificates and
// tokens, and the edge of its rules.
func (h *Host) access(g, prev *generation) (err error) {
	c := identity.SetConfig{Anonymous: g.cfg.Identity.Anonymous.Tenant}
	if f := g.cfg.Identity.APIKeysFile; f != "" {
		if c.Keys, err = identity.ReadFile(f); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
	}
	if g.tokens != nil {
		c.Tokens = g.tokens
	}
	if c.Certificates, err = g.cfg.Identity.Certificates(); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if g.identity, err = h.identity.NewSet(c); err != nil {
		return err
	}
	if prev != nil && prev.identity.Same(g.identity) {
		g.identity = prev.identity
	}
	g.edge, err = edgeOf(g.cfg, g.identity)
	return err
}

// edgeOf returns what cfg says about requests before they are placed.
func edgeOf(cfg *config.Config, set *identity.Set) (*proxy.Edge, error) {
	proxies, err := cfg.Identity.Proxies()
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return proxy.NewEdge(proxy.EdgeConfig{
		Hints: clientHints(&cfg.ClientHints), Proxies: proxies,
		MaxBodyBytes: int64(cfg.Listen.MaxBody), MaxConcurrent: cfg.Limits.Concurrent, MaxBytesInFlight: int64(cfg.Limits.BytesInFlight),
	}, authenticator{set})
}

// drop gives up what a generation owns, once nothing uses it.
func (h *Host) drop(g *generation) {
	if g.holders.Add(-1) == 0 {
		g.plugins.Release()
	}
}

// withCredentials returns g with other credentials. The caller must publish or drop
// it, and holds a lease on g.
func (g *generation) withCredentials(set *identity.Set) (*generation, error) {
	edge, err := edgeOf(g.cfg, set)
	if err != nil {
		return nil, err
	}
	next := *g
	next.identity, next.edge = set, edge
	next.holders.Add(1)
	return &next, nil
}

// poolRules turns a pool of the file into one of the scheduler. oneTenant says
// that nobody but the anonymous tenant can ask.
func poolRules(p *config.Pool, oneTenant bool) (scheduler.Pool, error) {
	auth, err := bearer(p.Credentials.BearerFile)
	if err != nil {
		return scheduler.Pool{}, fmt.Errorf("pool %s: %w", p.Name, err)
	}
	return scheduler.Pool{
		Name: p.Name, Authorization: auth, UnknownFields: p.Fields.Unknown, InternalFields: p.Fields.Internal, MaxInflight: p.Capacity.MaxInflight,
		Timeouts: p.Timeouts,
		Priority: p.Priority == "on", NoSalt: dialect.Of(p.Dialect).Salt.Field == "", Tenant: p.Tenant, Dedicated: oneTenant || p.Tenant != "",
	}, nil
}

func (h *Host) modelRules(m *config.Model, g, prev *generation) (scheduler.Model, error) {
	out := scheduler.Model{Name: m.Name, Aliases: m.Aliases, Created: h.started.Unix()}
	for _, p := range m.Pools {
		out.Pools = append(out.Pools, scheduler.PoolRef{Pool: p.Name, ServedAs: p.ServedAs})
	}
	if m.Tokenizer.Dir == "" || m.Locality == "off" {
		return out, nil
	}
	pr, err := h.loadPrompts(&m.Tokenizer, g, prev)
	if err != nil {
		return out, fmt.Errorf("model %s: %w", m.Name, err)
	}
	out.Prompter = pr.chat
	return out, nil
}

// profileRules turns a profile of the file into one of the scheduler. The
// first one is the default whatever its name.
func profileRules(p *config.Profile, first bool) scheduler.Profile {
	name := p.Name
	if first {
		name = "default"
	}
	out := scheduler.Profile{
		Name: name, Objective: scheduler.Objective(p.Objective), Holdout: *p.Holdout, Distrust: p.Trust == "off", Normalize: scheduler.Normalize(p.Normalize),
		Queue: scheduler.Queue{Deadline: time.Duration(*p.Queue.Deadline), Limit: p.Queue.MaxWaiting},
		Envelope: scheduler.Envelope{
			MaxLoadRatio: float32(p.Envelope.MaxLoadRatio), SlackTokens: float32(p.Envelope.SlackTokens), MaxShare: float32(p.Envelope.MaxShare),
		},
	}
	return out
}
