package host

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

// failingAfter is how long an endpoint that served may be away before it counts
// as failing: a restart of the engine's process takes about as long.
const failingAfter = time.Minute

// scaleFleet is the fleet as the autoscaler sees it, for the pools of one group.
type scaleFleet struct {
	h     *Host
	pools map[string]*config.Pool

	mu    sync.Mutex // guards what follows
	first map[uint32]time.Time
	ready map[uint32]time.Time // last time a life was seen to serve
}

func newScaleFleet(h *Host, pools []config.Pool) *scaleFleet {
	f := &scaleFleet{h: h, pools: map[string]*config.Pool{}, first: map[uint32]time.Time{}, ready: map[uint32]time.Time{}}
	for i := range pools {
		f.pools[pools[i].Name] = &pools[i]
	}
	return f
}

// Nodes implements autoscale.Fleet.
func (f *scaleFleet) Nodes(pool string) []autoscale.Node {
	snap, now := f.h.store.Load(), f.h.now()
	names := f.h.fleet.names(pool)
	sessions := f.h.state.Sessions()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgetLocked(snap)
	var out []autoscale.Node
	for id := range snap.N {
		info := snap.Info(endpoint.ID(id))
		if info == nil || info.Pool != pool {
			continue
		}
		n := autoscale.Node{ID: info.URL, Ready: healthy(snap, endpoint.ID(id)), Price: float64(info.Price), Spot: info.Spot}
		if name, ok := names[info.URL]; ok {
			n.ID = name
		}
		n.Held = snap.State(endpoint.ID(id)).Held == endpoint.HoldDrained
		if _, ok := f.first[info.Generation]; !ok {
			f.first[info.Generation] = now
		}
		n.Since = f.first[info.Generation]
		if n.Ready || n.Held {
			f.ready[info.Generation] = now
		} else if last, was := f.ready[info.Generation]; was {
			n.Failing = now.Sub(last) > failingAfter
		}
		n.InFlight = int(snap.Loads[id].Inflight())
		n.Sessions = sessions[info.Generation]
		n.Heat = f.h.scaling.work.heat(info.Generation, now)
		out = append(out, n)
	}
	return out
}

// forgetLocked drops what is kept of lives that are gone.
func (f *scaleFleet) forgetLocked(snap *endpoint.Snapshot) {
	if len(f.first) <= 2*snap.N+64 {
		return
	}
	live := lives(snap)
	gone := func(g uint32, _ time.Time) bool { return !live[g] }
	maps.DeleteFunc(f.first, gone)
	maps.DeleteFunc(f.ready, gone)
}

// lives are the generations of the endpoints there are.
func lives(snap *endpoint.Snapshot) map[uint32]bool {
	live := make(map[uint32]bool, snap.N)
	for id := range snap.N {
		if info := snap.Info(endpoint.ID(id)); info != nil {
			live[info.Generation] = true
		}
	}
	return live
}

// healthy reports whether an endpoint serves or would, if it did not drain.
func healthy(s *endpoint.Snapshot, id endpoint.ID) bool {
	return s.Ready.Has(id) || s.Draining.Has(id)
}

// Drain implements autoscale.Fleet.
func (f *scaleFleet) Drain(pool, id string, d autoscale.Drain) {
	slot, ok := f.find(pool, id)
	if !ok {
		return
	}
	f.h.store.Update(slot, func(s *endpoint.State) {
		s.Cordoned, s.Draining = d == autoscale.NoSessions, d == autoscale.NoRequests
	})
}

// find returns the slot of an endpoint by the driver's name of it, or its URL.
func (f *scaleFleet) find(pool, id string) (endpoint.ID, bool) {
	snap := f.h.store.Load()
	names := f.h.fleet.names(pool)
	for slot := range snap.N {
		info := snap.Info(endpoint.ID(slot))
		if info != nil && info.Pool == pool && (info.URL == id || names[info.URL] == id) {
			return endpoint.ID(slot), true
		}
	}
	return 0, false
}

// nameOf returns the id of an endpoint among Nodes, by that or by its URL.
func (f *scaleFleet) nameOf(pool, id string) (string, bool) {
	slot, ok := f.find(pool, strings.TrimRight(id, "/"))
	info := f.h.store.Load().Info(slot)
	if !ok || info == nil {
		return "", false
	}
	if name, ok := f.h.fleet.names(pool)[info.URL]; ok {
		return name, true
	}
	return info.URL, true
}

// Adopt implements autoscale.Fleet.
func (f *scaleFleet) Adopt(pool string, machines []autoscale.Machine) error {
	p := f.pools[pool]
	good := map[string]autoscale.Machine{}
	var all []error
	for _, m := range machines {
		if m.URL == "" {
			continue // not known yet
		}
		if err := f.believe(p, &m); err != nil {
			all = append(all, fmt.Errorf("host: machine %s of pool %s is refused: %w", m.ID, pool, err))
			continue
		}
		good[m.ID] = m
	}
	return errors.Join(append(all, f.h.fleet.setMade(pool, func(had map[string]autoscale.Machine) { maps.Copy(had, good) }))...)
}

// believe checks where a machine is said to be, and writes its URL as the store
// has it.
func (f *scaleFleet) believe(p *config.Pool, m *autoscale.Machine) error {
	u, err := machineURL(m.URL)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(p.Endpoints, func(s string) bool { return strings.TrimRight(s, "/") == u.String() }) {
		return fmt.Errorf("%s is among the pool's endpoints, which no driver makes", u)
	}
	if !p.Autoscale.Driver.Allows(u.Hostname()) {
		return fmt.Errorf("%s is not in driver.allow", u.Hostname())
	}
	m.URL = u.String()
	if err := f.h.admitted(p, m.URL); err != nil {
		return err
	}
	return errors.Join(eventsURL(m.Events, u.Hostname()), eventsURL(m.Replay, u.Hostname()))
}

// eventsURL refuses an event address that is not on the machine itself: token
// ids and salts come from there.
func eventsURL(s, host string) error {
	if s == "" {
		return nil
	}
	if u, err := url.Parse(s); err != nil || u.Scheme != "tcp" || u.Hostname() != host || u.Port() == "" || u.Path != "" {
		return fmt.Errorf("want events at tcp://%s:port, got %.100q", host, s)
	}
	return nil
}

// machineURL reads the URL of a machine as strictly as one of the configuration.
func machineURL(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" || u.Port() == "":
		return nil, fmt.Errorf("want a URL such as http://10.0.0.1:8000, got %.100q", s)
	case u.Path != "" || u.RawQuery != "" || u.User != nil || u.Fragment != "":
		return nil, fmt.Errorf("want only scheme, host and port, got %.100q", s)
	}
	return u, nil
}

// Remove implements autoscale.Fleet.
func (f *scaleFleet) Remove(pool, id string) {
	if err := f.h.fleet.setMade(pool, func(had map[string]autoscale.Machine) { delete(had, id) }); err != nil {
		f.h.log.Error("endpoint cannot be removed", "endpoint", id, "pool", pool, "err", err)
	}
}

// release brings back what drains, when the group's rules are gone.
func (f *scaleFleet) release() {
	for pool := range f.pools {
		for _, n := range f.Nodes(pool) {
			f.Drain(pool, n.ID, autoscale.Serving)
		}
	}
}

// names returns the drivers' names of a pool's endpoints, by URL.
func (f *fleet) names(pool string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[string]string, len(f.made[pool]))
	for id, m := range f.made[pool] {
		out[m.URL] = id
	}
	return out
}

// setMade changes which endpoints of a pool drivers have made, and the fleet
// with it.
func (f *fleet) setMade(pool string, change func(map[string]autoscale.Machine)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	had := f.made[pool]
	next := maps.Clone(had)
	if next == nil {
		next = map[string]autoscale.Machine{}
	}
	change(next)
	f.made[pool] = next
	err := f.syncLocked()
	if err != nil { // what does not fit must not be in the way of the next change
		f.made[pool] = had
		err = errors.Join(err, f.syncLocked())
	}
	return err
}
