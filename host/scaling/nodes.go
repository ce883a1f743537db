package scaling

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// failingAfter is how long an endpoint that served may be down before it counts as
// failing: a restart of the engine's process takes about as long.
const failingAfter = time.Minute

// nodes implements autoscale.Fleet for the pools of one group.
type nodes struct {
	cfg  *Config
	work *Meter

	mu    sync.Mutex              // guards what follows
	pools map[string]*config.Pool // never nil
	first map[uint32]time.Time    // by epoch: when it was seen first
	ready map[uint32]time.Time    // by epoch: when it was last seen to serve
}

func newNodes(cfg *Config, work *Meter, pools []config.Pool) *nodes {
	n := &nodes{cfg: cfg, work: work, first: map[uint32]time.Time{}, ready: map[uint32]time.Time{}}
	n.setPools(pools)
	return n
}

// setPools makes pools those of the group.
func (f *nodes) setPools(pools []config.Pool) {
	next := make(map[string]*config.Pool, len(pools))
	for i := range pools {
		next[pools[i].Name] = &pools[i]
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pools = next
}

func (f *nodes) pool(name string) *config.Pool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pools[name]
}

// Nodes implements autoscale.Fleet.
func (f *nodes) Nodes(pool string) []autoscale.Node {
	snap, now := f.cfg.Store.Load(), f.cfg.Now()
	names := f.cfg.Machines.MachineNames(pool)
	sessions := f.cfg.Sessions()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(snap)
	var out []autoscale.Node
	for i := range snap.N {
		id := endpoint.ID(i)
		info := snap.Info(id)
		if info == nil || info.Pool != pool {
			continue
		}
		n := autoscale.Node{ID: info.URL, Ready: healthy(snap, id), Price: float64(info.Price), Spot: info.Spot}
		if name, ok := names[info.URL]; ok {
			n.ID = name
		}
		n.Held = snap.State(id).Held == endpoint.HoldDrained
		f.ageLocked(&n, info.Epoch, now)
		n.InFlight, n.Oldest = int(snap.Loads[i].Inflight()), snap.Loads[i].Oldest(now)
		n.Sessions = sessions[info.Epoch]
		n.Heat = f.work.heat(info.Epoch, now)
		out = append(out, n)
	}
	return out
}

// ageLocked sets since when an endpoint is known, and whether it fails.
func (f *nodes) ageLocked(n *autoscale.Node, epoch uint32, now time.Time) {
	if _, ok := f.first[epoch]; !ok {
		f.first[epoch] = now
	}
	n.Since = f.first[epoch]
	if n.Ready || n.Held {
		f.ready[epoch] = now
	} else if last, was := f.ready[epoch]; was {
		n.Failing = now.Sub(last) > failingAfter
	}
}

// forgetLocked drops what is kept of endpoints that were removed.
func (f *nodes) forgetLocked(snap *endpoint.Snapshot) {
	if len(f.first) <= 2*snap.N+64 {
		return
	}
	live := epochs(snap)
	gone := func(epoch uint32, _ time.Time) bool { return !live[epoch] }
	maps.DeleteFunc(f.first, gone)
	maps.DeleteFunc(f.ready, gone)
}

// epochs returns the epochs of the endpoints of a snapshot.
func epochs(snap *endpoint.Snapshot) map[uint32]bool {
	live := make(map[uint32]bool, snap.N)
	for id := range snap.N {
		if info := snap.Info(endpoint.ID(id)); info != nil {
			live[info.Epoch] = true
		}
	}
	return live
}

// healthy reports whether an endpoint serves, or would if it did not drain.
func healthy(s *endpoint.Snapshot, id endpoint.ID) bool {
	return s.Ready.Has(id) || s.Draining.Has(id)
}

// Drain implements autoscale.Fleet.
func (f *nodes) Drain(pool, id string, d autoscale.Drain) {
	slot, ok := f.find(pool, id)
	if !ok {
		return
	}
	f.cfg.Store.Update(slot, func(s *endpoint.State) {
		s.Cordoned, s.Draining = d == autoscale.NoSessions, d == autoscale.NoRequests
	})
}

// find returns the slot of an endpoint by the driver's name of it, or its URL.
func (f *nodes) find(pool, id string) (endpoint.ID, bool) {
	snap := f.cfg.Store.Load()
	names := f.cfg.Machines.MachineNames(pool)
	for slot := range snap.N {
		info := snap.Info(endpoint.ID(slot))
		if info != nil && info.Pool == pool && (info.URL == id || names[info.URL] == id) {
			return endpoint.ID(slot), true
		}
	}
	return 0, false
}

// nameOf returns the id that Nodes gives an endpoint, by that id or by its URL.
func (f *nodes) nameOf(pool, id string) (string, bool) {
	slot, ok := f.find(pool, strings.TrimRight(id, "/"))
	info := f.cfg.Store.Load().Info(slot)
	if !ok || info == nil {
		return "", false
	}
	if name, ok := f.cfg.Machines.MachineNames(pool)[info.URL]; ok {
		return name, true
	}
	return info.URL, true
}

// Adopt implements autoscale.Fleet.
func (f *nodes) Adopt(pool string, machines []autoscale.Machine) error {
	p := f.pool(pool)
	var good []autoscale.Machine
	var refused []error
	for _, m := range machines {
		if m.URL == "" {
			continue // its address is not known yet
		}
		if err := f.check(p, &m); err != nil {
			refused = append(refused, fmt.Errorf("scaling: machine %q of pool %q is refused: %w", m.ID, pool, err))
			continue
		}
		good = append(good, m)
	}
	return errors.Join(append(refused, f.cfg.Machines.AddMachines(pool, good))...)
}

// check refuses a machine that may not join the pool, and normalizes its URL.
func (f *nodes) check(p *config.Pool, m *autoscale.Machine) error {
	u, err := endpoint.ParseURL(m.URL)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(p.Endpoints, func(s string) bool { return strings.TrimRight(s, "/") == u.String() }) {
		return fmt.Errorf("%s is an endpoint that the configuration lists", u)
	}
	if !p.Autoscale.Driver.Allows(u.Hostname()) {
		return fmt.Errorf("%s is not in driver.allow", u.Hostname())
	}
	m.URL = u.String()
	if err := f.cfg.Admission.Admit(p, m.URL); err != nil {
		return err
	}
	return errors.Join(checkEvents(m.Events, u.Hostname()), checkEvents(m.Replay, u.Hostname()))
}

// checkEvents refuses an event address that is not on the machine itself: events
// carry token ids and salts.
func checkEvents(s, host string) error {
	if s == "" {
		return nil
	}
	if u, err := url.Parse(s); err != nil || u.Scheme != "tcp" || u.Hostname() != host || u.Port() == "" || u.Path != "" {
		return fmt.Errorf("want events at tcp://%s:port, got %.100q", host, s)
	}
	return nil
}

// Remove implements autoscale.Fleet.
func (f *nodes) Remove(pool, id string) { f.cfg.Machines.RemoveMachine(pool, id) }

// release returns draining endpoints to service when the group ends.
func (f *nodes) release() {
	f.mu.Lock()
	pools := slices.Collect(maps.Keys(f.pools))
	f.mu.Unlock()
	for _, pool := range pools {
		for _, n := range f.Nodes(pool) {
			f.Drain(pool, n.ID, autoscale.Serving)
		}
	}
}
