package host

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// fleet keeps the endpoints of the store, and their watchers, in step with the
// configuration. Its methods may be called concurrently.
type fleet struct {
	h        *Host
	watchers *backend.Fleet

	mu      sync.Mutex // guards what follows; held through a change of the fleet
	rules   *generation
	members map[memberKey]endpoint.ID
	made    map[string]map[string]autoscale.Machine // by pool and driver's id
	found   map[string][]string                     // URLs that discovery told, by pool
}

// memberKey is what makes an endpoint the same across reloads: whatever a
// watcher is built from. Where any of it changes the endpoint is taken out and
// put in again.
type memberKey struct {
	url, pool, dialect, bearer, cache string
	parser                            config.Parser
	block                             int
	events                            backend.Events
	labels                            string
	tokens                            int
	price                             float32
	spot                              bool
	probe                             time.Duration // between isolation probes, 0 = none
}

func newFleet(h *Host) *fleet {
	return &fleet{h: h, watchers: backend.NewFleet(h.index, h.assumed, h.store), members: map[memberKey]endpoint.ID{}, made: map[string]map[string]autoscale.Machine{}, found: map[string][]string{}}
}

func (f *fleet) run(ctx context.Context) error { return f.watchers.Run(ctx) }

// observe passes what came of a request to the trust of its endpoint.
func (f *fleet) observe(o *scheduler.Observation) {
	if o.PromptTokens == 0 || o.Outcome.End != exchange.EndComplete || o.Outcome.Status != 200 {
		return
	}
	if info := f.h.store.Load().Info(o.Endpoint); info == nil || info.Generation != o.Generation {
		return
	}
	if o.Outcome.HasCached {
		f.watchers.ObserveCached(o.Endpoint, o.PredictedCached, o.Outcome.CachedTokens)
	} else {
		f.watchers.ObserveSilent(o.Endpoint, o.PredictedCached)
	}
}

// settled reports whether every endpoint serves.
func (f *fleet) settled() bool {
	snap := f.h.store.Load()
	for id := range snap.N {
		if snap.Live.Has(endpoint.ID(id)) && !snap.Ready.Has(endpoint.ID(id)) {
			return false
		}
	}
	return true
}

// sync makes the endpoints those of g: removed ones take no further requests,
// requests in flight there go on.
func (f *fleet) sync(g *generation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = g
	return f.syncLocked()
}

// syncLocked makes the endpoints those of the rules that sync was last given, of
// discovery and of drivers. Rules on their way into force count: what a driver
// tells meanwhile must not bring the endpoints of the rules before back.
func (f *fleet) syncLocked() error {
	g := f.rules
	want := map[memberKey]*config.Pool{}
	for i := range g.cfg.Pools {
		p := &g.cfg.Pools[i]
		for _, u := range p.Endpoints {
			want[f.key(g, p, u)] = p
		}
		for _, u := range f.found[p.Name] {
			want[f.key(g, p, u)] = p
		}
		for _, m := range f.made[p.Name] {
			if u, err := url.Parse(m.URL); err != nil || p.Autoscale.On() && !p.Autoscale.Driver.Allows(u.Hostname()) {
				continue // the list is narrower than it was
			}
			k := f.key(g, p, m.URL)
			if m.Events != "" {
				k.events.Publisher, k.events.Replay = m.Events, m.Replay
			}
			want[k] = p
		}
	}
	for k, id := range f.members {
		if _, ok := want[k]; ok {
			continue
		}
		f.watchers.Remove(id)
		f.h.store.Remove(id)
		for t := range tierWeights {
			f.h.index.RemoveHolder(kvindex.HolderOf(int(id), t))
		}
		f.h.assumed.Clear(kvindex.HolderOf(int(id), 0))
		delete(f.members, k)
		f.h.log.Info("endpoint removed", "endpoint", k.url, "pool", k.pool)
	}
	for k, p := range want {
		if _, ok := f.members[k]; ok {
			continue
		}
		if err := f.add(k, p); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) key(g *generation, p *config.Pool, u string) memberKey {
	k := memberKey{
		url: strings.TrimRight(u, "/"), pool: p.Name, dialect: p.Dialect, parser: p.Parser, bearer: strings.TrimPrefix(g.auth[p.Name], "Bearer "),
		block: int(p.BlockTokens), cache: g.cacheIdentity(p.Name), labels: fmt.Sprint(p.Labels), tokens: p.Capacity.CacheTokens, price: float32(p.Price), spot: p.Spot,
		events: backend.Events{Mode: p.Events.Mode, Port: p.Events.Port, ReplayPort: int(p.Events.ReplayPort), Topic: p.Events.Topic},
	}
	if m := p.Isolation.Mode; m == "on" || m == "auto" && !g.cfg.Identity.Only() && p.Tenant == "" {
		k.probe = time.Duration(p.Isolation.Every)
	}
	for _, s := range p.Events.Sources {
		if s.Endpoint == u {
			k.events.Publisher, k.events.Replay, k.events.Listen = s.Events, s.Replay, s.Listen
		}
	}
	return k
}

// idle reports whether an endpoint takes requests and this router has none there.
func (f *fleet) idle(id endpoint.ID) bool {
	snap := f.h.store.Load()
	return int(id) < snap.N && snap.Ready.Has(id) && snap.Loads[id] != nil && snap.Loads[id].Inflight() == 0
}

// assumedTokens is the cache of an endpoint that does not tell its size: 1 Mi
// tokens is an 8B model's on one 80 GB GPU, twice over; a larger guess keeps
// predicting what is long evicted.
const assumedTokens = 1 << 20

func (f *fleet) add(k memberKey, p *config.Pool) error {
	u, err := url.Parse(k.url)
	if err != nil {
		return fmt.Errorf("host: endpoint %s: %w", k.url, err)
	}
	d, err := backend.DialectOf(k.dialect)
	if err != nil {
		return err
	}
	if k.parser.Plugin != "" {
		d = backend.Parsed{Dialect: d, Parser: f.h.plugins.Parser(k.parser.Plugin), Metrics: k.parser.MetricsPath, Health: k.parser.HealthPath}
	}
	id, err := f.h.store.Add(endpoint.Info{URL: k.url, Addr: u.Host, Pool: k.pool, Dialect: k.dialect, Labels: p.Labels, Price: k.price, Spot: k.spot})
	if err != nil {
		return fmt.Errorf("host: endpoint %s: %w", k.url, err)
	}
	if id >= config.MaxEndpoints { // the index has no holder for it
		f.h.store.Remove(id)
		return fmt.Errorf("host: endpoint %s: there are %d, the most that one router serves", k.url, config.MaxEndpoints)
	}
	block, tokens := k.block, k.tokens
	if block == 0 {
		block = 16
	}
	if tokens == 0 {
		tokens = assumedTokens
	}
	f.h.assumed.SetCapacity(kvindex.HolderOf(int(id), 0), tokens/block)
	_, err = f.watchers.Add(backend.Config{
		ID: id, URL: k.url, Dialect: d, Bearer: k.bearer, CacheIdentity: k.cache, BlockTokens: k.block, Events: k.events,
		Probe: backend.Probe{Every: k.probe, Idle: func() bool { return f.idle(id) }},
		Log:   f.h.log.With("endpoint", k.url),
	})
	if err != nil {
		f.h.store.Remove(id)
		return err
	}
	f.members[k] = id
	f.h.log.Info("endpoint added", "endpoint", k.url, "pool", k.pool)
	return nil
}

// hasFound reports whether discovery told of an endpoint of the pool.
func (f *fleet) hasFound(pool, url string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.found[pool], url)
}
