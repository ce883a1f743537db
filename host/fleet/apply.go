package fleet

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/backend"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvindex"
)

// reconcileLocked makes the endpoints those of the plan, of discovery and of
// drivers. It returns those for which there is no room.
func (f *Fleet) reconcileLocked() (left []target) {
	want, left := f.targetsLocked(f.plan)
	var remove []endpoint.ID
	for k, m := range f.members {
		if _, ok := want[k]; !ok {
			f.endLocked(k, m)
			remove = append(remove, m.id)
		}
	}
	var come []target
	var infos []endpoint.Info
	for k, t := range want {
		if m := f.members[k]; m != nil {
			f.changeLocked(m, t)
			continue
		}
		come, infos = append(come, t), append(infos, f.info(f.plan, t))
	}
	ids, err := f.cfg.Store.Replace(remove, infos)
	if err != nil { // targets are distinct and at most config.MaxEndpoints
		panic(fmt.Sprintf("BUG: fleet: endpoints %s: %v", urlsOf(come), err))
	}
	for i, t := range come {
		f.watchLocked(ids[i], t)
	}
	return left
}

// targetsLocked returns the endpoints that are to be by a plan, and those that are too many.
// Listed ones come first, then those that are members, then others by URL. Of
// several with one address in a pool the first is taken.
func (f *Fleet) targetsLocked(p *Plan) (want map[key]target, left []target) {
	want = map[key]target{}
	taken := map[key]bool{} // addresses
	for _, t := range p.listed {
		want[t.key], taken[t.key.address()] = t, true
	}
	for _, t := range f.furtherLocked(p) {
		if taken[t.key.address()] {
			continue
		}
		if len(want) == config.MaxEndpoints {
			left = append(left, t)
			continue
		}
		want[t.key], taken[t.key.address()] = t, true
	}
	return want, left
}

// furtherLocked lists what discovery and drivers know, members first.
func (f *Fleet) furtherLocked(p *Plan) (out []target) {
	for name, urls := range f.discovered {
		pool := p.pools[name]
		if pool == nil {
			continue
		}
		for _, s := range urls {
			if u, err := url.Parse(s); err == nil {
				out = append(out, pool.target(u))
			}
		}
	}
	for name := range f.machines {
		if pool := p.pools[name]; pool != nil {
			out = append(out, f.machinesOf(pool)...)
		}
	}
	slices.SortFunc(out, func(a, b target) int {
		am, bm := f.members[a.key] != nil, f.members[b.key] != nil
		if am != bm {
			if am {
				return -1
			}
			return 1
		}
		return strings.Compare(a.key.url+" "+a.key.pool, b.key.url+" "+b.key.pool)
	})
	return out
}

// machinesOf lists the machines of a pool that its allow-list has.
func (f *Fleet) machinesOf(p *poolPlan) (out []target) {
	for _, m := range f.machines[p.cfg.Name] {
		u, err := url.Parse(m.URL)
		if err != nil || p.cfg.Autoscale.On() && !p.cfg.Autoscale.Driver.Allows(u.Hostname()) {
			continue // the list is narrower than when the machine was added
		}
		t := p.target(u)
		if m.Events != "" {
			t.attrs.watch.events.Publisher, t.attrs.watch.events.Replay = m.Events, m.Replay
		}
		out = append(out, t)
	}
	return out
}

// endLocked ends the watcher of a member and forgets its caches. The caller removes the
// endpoint from the store.
func (f *Fleet) endLocked(k key, m *member) {
	f.watchers.Remove(m.id)
	for t := range f.cfg.Tiers {
		f.cfg.Index.RemoveHolder(kvindex.HolderOf(int(m.id), t))
	}
	f.cfg.Assumed.Clear(kvindex.HolderOf(int(m.id), 0))
	delete(f.members, k)
	f.cfg.Log.Info("endpoint removed", "endpoint", k.url, "pool", k.pool)
}

// watchLocked makes an endpoint that the store has a member, with a watcher.
func (f *Fleet) watchLocked(id endpoint.ID, t target) {
	if _, err := f.watchers.Add(f.watcherConfig(id, t)); err != nil { // NewPlan and ParseURL refuse what it would
		panic(fmt.Sprintf("BUG: fleet: endpoint %s of pool %s: %v", t.key.url, t.key.pool, err))
	}
	f.members[t.key] = &member{id, t.attrs}
	f.cfg.Log.Info("endpoint added", "endpoint", t.key.url, "pool", t.key.pool)
}

// changeLocked gives a member, but for its info in the store, the attributes of t.
func (f *Fleet) changeLocked(m *member, t target) {
	had := m.attrs
	if had == t.attrs {
		return
	}
	m.attrs = t.attrs
	if had.watch != t.attrs.watch {
		if err := f.watchers.Reconfigure(f.watcherConfig(m.id, t)); err != nil {
			panic(fmt.Sprintf("BUG: fleet: endpoint %s of pool %s: %v", t.key.url, t.key.pool, err))
		}
	}
	f.cfg.Log.Info("endpoint changed", "endpoint", t.key.url, "pool", t.key.pool)
}

// info returns what the store is to know of t, an endpoint of plan p.
func (f *Fleet) info(p *Plan, t target) endpoint.Info {
	i := &t.attrs.info
	return endpoint.Info{
		URL: t.key.url, Addr: t.key.address().url, Pool: t.key.pool,
		Dialect: i.dialect, Labels: p.pools[t.key.pool].labels, Price: i.price, Spot: i.spot,
	}
}

// watcherConfig returns the configuration of the watcher of t.
func (f *Fleet) watcherConfig(id endpoint.ID, t target) backend.Config {
	w := &t.attrs.watch
	d, ok := dialect.ByName(w.dialect)
	if !ok { // NewPlan refuses it
		panic(fmt.Sprintf("BUG: fleet: pool %s: unknown dialect %q", t.key.pool, w.dialect))
	}
	var scrape *backend.Scrape
	if w.parser.Plugin != "" {
		scrape = &backend.Scrape{Parser: f.cfg.Parser(w.parser.Plugin), Metrics: w.parser.MetricsPath,
			Health: w.parser.HealthPath}
	}
	return backend.Config{
		ID: id, URL: t.key.url, Client: f.plan.pools[t.key.pool].client, Dialect: d, Scrape: scrape, Bearer: w.bearer,
		CacheIdentity: w.cacheIdentity, BlockTokens: w.blockTokens, AssumedBlocks: w.assumedBlocks, Events: w.events,
		Probe:   backend.Probe{Every: w.probe, Idle: func() bool { return f.idle(id) }, LogOnly: w.unexplainedLogOnly},
		History: f.cfg.History, Forgotten: f.cfg.Forgotten,
		Revoked: func(reason string) { f.cfg.Revoked(t.key.url, t.key.pool, reason) },
		Ejected: func() { f.cfg.Ejected(t.key.address().url) },
		Log:     f.cfg.Log.With("endpoint", t.key.url),
	}
}

func urlsOf(l []target) (out []string) {
	for _, t := range l {
		out = append(out, t.key.url)
	}
	return out
}
