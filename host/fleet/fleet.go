package fleet

import (
	"context"
	"log/slog"
	"sync"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Config is what a Fleet is made of. All fields are required.
type Config struct {
	Store   *endpoint.Store
	Index   *kvindex.Index
	Assumed *kvindex.Assumed // caches of endpoints without events
	Tiers   int              // memory tiers of the index
	// Parser returns the plugin of a name as the parser of engines' metrics. It is
	// called while an endpoint is added or changed and must not block; a plugin
	// that is missing is an error of each Parse.
	Parser func(plugin string) backend.Parser
	// History takes the blocks that engines store.
	History backend.History
	// Forgotten reports that History lacks prompts that engines may hold.
	Forgotten bool
	// Revoked is called when an answer revoked the isolation of an endpoint. It must
	// return soon.
	Revoked func(url, pool, reason string)
	// Ejected is called with the host:port of an endpoint while its health check
	// fails. It must return soon.
	Ejected func(addr string)
	Log     *slog.Logger
}

// Fleet owns the endpoints of a store. All methods may be called concurrently.
type Fleet struct {
	cfg      Config
	watchers *backend.Fleet

	mu         sync.Mutex // guards what follows; held through a change of the fleet
	plan       *Plan      // in force; empty before the first Change
	members    map[key]*member
	machines   map[string]map[string]autoscale.Machine // by pool and driver's id
	discovered map[string][]string                     // URLs by pool
}

// member is an endpoint of the store.
type member struct {
	id    endpoint.ID
	attrs attributes
}

// New returns a fleet without endpoints. It starts no goroutine.
func New(cfg Config) *Fleet {
	return &Fleet{
		cfg: cfg, watchers: backend.NewFleet(cfg.Index, cfg.Assumed, cfg.Store), plan: &Plan{},
		members: map[key]*member{}, machines: map[string]map[string]autoscale.Machine{}, discovered: map[string][]string{},
	}
}

// Run runs the watchers until ctx ends, and returns its error once all have ended.
func (f *Fleet) Run(ctx context.Context) error { return f.watchers.Run(ctx) }

// Watcher returns the watcher of an endpoint, nil if it has none.
func (f *Fleet) Watcher(id endpoint.ID) *backend.Watcher { return f.watchers.Watcher(id) }

// AllReady reports whether every endpoint serves.
func (f *Fleet) AllReady() bool {
	snap := f.cfg.Store.Load()
	for id := range snap.N {
		if snap.Live.Has(endpoint.ID(id)) && !snap.Ready.Has(endpoint.ID(id)) {
			return false
		}
	}
	return true
}

// idle reports whether an endpoint takes requests and this router has none there.
func (f *Fleet) idle(id endpoint.ID) bool {
	snap := f.cfg.Store.Load()
	return int(id) < snap.N && snap.Ready.Has(id) && snap.Loads[id] != nil && snap.Loads[id].Inflight() == 0
}

// Observe passes what came of a request to the trust of its endpoint. It reports whether
// the outcome's unexplained tokens prove that the endpoint's isolation is broken.
func (f *Fleet) Observe(o *scheduler.Observation) (proof bool) {
	if info := f.cfg.Store.Load().Info(o.Endpoint); info == nil || info.Epoch != o.Epoch {
		return false
	}
	if o.Unexplained > 0 {
		proof = f.watchers.Revoke(o.Endpoint, o.Unexplained)
	}
	if o.PromptTokens == 0 || o.Outcome.End != exchange.EndComplete || o.Outcome.Status != 200 {
		return proof
	}
	if o.Outcome.HasCached {
		f.watchers.ObserveCached(o.Endpoint, o.PredictedCached, o.Outcome.CachedTokens)
	} else {
		f.watchers.ObserveSilent(o.Endpoint, o.PredictedCached)
	}
	return proof
}
