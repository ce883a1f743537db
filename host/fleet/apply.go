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

// Apply puts a plan in force. Endpoints that it does not have are removed: they
// take no further requests, requests in flight there go on. Discovered endpoints
// and machines that no longer fit beside those that the plan lists are left out
// and logged.
func (f *Fleet) Apply(p *Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = p
	if left := f.reconcileLocked(); len(left) > 0 {
		f.cfg.Log.Error("endpoints left out: the router is full",
			"endpoints", strings.Join(urlsOf(left), " "), "most", config.MaxEndpoints)
	}
}

// reconcileLocked makes the endpoints those of the plan, of discovery and of
// drivers. It returns those for which there is no room.
func (f *Fleet) reconcileLocked() (left []target) {
	want, left := f.targetsLocked()
	for k, m := range f.members {
		if _, ok := want[k]; !ok {
			f.removeLocked(k, m)
		}
	}
	infos := map[endpoint.ID]endpoint.Info{}
	for k, t := range want {
		m := f.members[k]
		if m == nil {
			f.addLocked(t)
			continue
		}
		if m.attrs.info != t.attrs.info {
			infos[m.id] = f.info(t)
		}
		f.changeLocked(m, t)
	}
	f.cfg.Store.SetInfos(infos)
	return left
}

// targetsLocked returns the endpoints that are to be, and those that are too many.
// Listed ones come first, then those that are members, then others by URL. Of
// several with one address in a pool the first is taken.
func (f *Fleet) targetsLocked() (want map[key]target, left []target) {
	want = map[key]target{}
	taken := map[key]bool{} // addresses
	for _, t := range f.plan.listed {
		want[t.key], taken[t.key.address()] = t, true
	}
	for _, t := range f.furtherLocked() {
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
func (f *Fleet) furtherLocked() (out []target) {
	for name, urls := range f.discovered {
		p := f.plan.pools[name]
		if p == nil {
			continue
		}
		for _, s := range urls {
			if u, err := url.Parse(s); err == nil {
				out = append(out, p.target(u))
			}
		}
	}
	for name := range f.machines {
		if p := f.plan.pools[name]; p != nil {
			out = append(out, f.machinesOf(p)...)
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

func (f *Fleet) removeLocked(k key, m *member) {
	f.watchers.Remove(m.id)
	f.cfg.Store.Remove(m.id)
	for t := range f.cfg.Tiers {
		f.cfg.Index.RemoveHolder(kvindex.HolderOf(int(m.id), t))
	}
	f.cfg.Assumed.Clear(kvindex.HolderOf(int(m.id), 0))
	delete(f.members, k)
	f.cfg.Log.Info("endpoint removed", "endpoint", k.url, "pool", k.pool)
}

func (f *Fleet) addLocked(t target) {
	id, err := f.cfg.Store.Add(f.info(t))
	if err != nil { // targets are distinct and at most config.MaxEndpoints
		panic(fmt.Sprintf("BUG: fleet: endpoint %s of pool %s: %v", t.key.url, t.key.pool, err))
	}
	if _, err = f.watchers.Add(f.watcherConfig(id, t)); err != nil { // NewPlan and ParseURL refuse what it would
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

// info returns what the store is to know of t.
func (f *Fleet) info(t target) endpoint.Info {
	i := &t.attrs.info
	return endpoint.Info{
		URL: t.key.url, Addr: t.key.address().url, Pool: t.key.pool,
		Dialect: i.dialect, Labels: f.plan.pools[t.key.pool].labels, Price: i.price, Spot: i.spot,
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
		Log:     f.cfg.Log.With("endpoint", t.key.url),
	}
}

func urlsOf(l []target) (out []string) {
	for _, t := range l {
		out = append(out, t.key.url)
	}
	return out
}
