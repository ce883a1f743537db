package endpoint

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Errors of Store.Add.
var (
	// ErrFull is returned when all MaxEndpoints slots are taken.
	ErrFull = errors.New("endpoint: no free slot")
	// ErrDuplicate is returned for an address that is in the pool already.
	ErrDuplicate = errors.New("endpoint: address is in the pool already")
)

// Store owns the endpoints. All methods may be called concurrently. Writers
// take a lock and publish a snapshot; readers take one atomic load.
type Store struct {
	mu      sync.Mutex // guards the fields below up to version
	slots   []slot     // [n ≤ MaxEndpoints]
	epochs  uint32     // given out
	topo    *topology  // nil after a change of topology
	version uint64     // changes made

	publishMu sync.Mutex // one publisher at a time; taken before mu
	published uint64     // version of cur; guarded by publishMu
	cur       atomic.Pointer[Snapshot]
}

type slot struct {
	info  *Info // nil = free
	load  *Load
	state State
}

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{}
	s.publish(0)
	return s
}

// Load returns the current snapshot, never nil.
func (s *Store) Load() *Snapshot { return s.cur.Load() }

// Add puts an endpoint into the lowest free slot, not ready, and returns the
// slot. A pool cannot have one address twice (ErrDuplicate).
func (s *Store) Add(info Info) (ID, error) {
	s.mu.Lock()
	free := -1
	for i := range s.slots {
		o := s.slots[i].info
		if o == nil && free < 0 {
			free = i
		}
		if o != nil && o.Addr == info.Addr && o.Pool == info.Pool {
			s.mu.Unlock()
			return 0, ErrDuplicate
		}
	}
	if free < 0 {
		if len(s.slots) == MaxEndpoints {
			s.mu.Unlock()
			return 0, ErrFull
		}
		free = len(s.slots)
		s.slots = append(s.slots, slot{})
	}
	s.epochs++
	info.ID, info.Epoch = ID(free), s.epochs
	info.Labels = labelsOf(&info)
	s.slots[free] = slot{info: &info, load: newLoad()}
	v := s.changedLocked(true)
	s.mu.Unlock()
	s.publish(v)
	return ID(free), nil
}

// labelsOf returns a copy of the labels of info with its pool.
func labelsOf(info *Info) map[string]string {
	labels := maps.Clone(info.Labels)
	if labels == nil {
		labels = make(map[string]string, 1)
	}
	labels[LabelPool] = info.Pool
	delete(labels, LabelIsolation) // it is of the state
	return labels
}

// SetInfos changes what of endpoints may change while they serve: dialect, labels,
// price and spot. Slot, epoch, address, pool, state and Load stay. All changes are in
// one snapshot: no reader sees some endpoints of a pool changed and others not. Slots
// without an endpoint are ignored.
func (s *Store) SetInfos(infos map[ID]Info) {
	if len(infos) == 0 {
		return
	}
	s.mu.Lock()
	for id, info := range infos {
		if int(id) >= len(s.slots) || s.slots[id].info == nil {
			continue
		}
		next := *s.slots[id].info
		next.Dialect, next.Price, next.Spot = info.Dialect, info.Price, info.Spot
		next.Labels = labelsOf(&Info{Labels: info.Labels, Pool: next.Pool})
		s.slots[id].info = &next
	}
	v := s.changedLocked(true)
	s.mu.Unlock()
	s.publish(v)
}

// Remove takes an endpoint out. Requests in flight keep their Load and end
// normally; the slot may be given to another endpoint at once. The watcher of
// an endpoint must have ended before it is removed, or its next Update would
// change the next endpoint of the slot.
func (s *Store) Remove(id ID) {
	s.mu.Lock()
	if int(id) >= len(s.slots) || s.slots[id].info == nil {
		s.mu.Unlock()
		return
	}
	s.slots[id].load.gone.Store(true)
	s.slots[id] = slot{}
	for n := len(s.slots); n > 0 && s.slots[n-1].info == nil; n-- {
		s.slots = s.slots[:n-1]
	}
	v := s.changedLocked(true)
	s.mu.Unlock()
	s.publish(v)
}

// Update changes an endpoint's state by f, which runs under the store's lock
// and must neither block nor keep the pointer. When Update returns, Load sees
// the change; updates that wait for each other share one snapshot. It reports
// whether the slot has an endpoint.
func (s *Store) Update(id ID, f func(*State)) bool {
	s.mu.Lock()
	if int(id) >= len(s.slots) || s.slots[id].info == nil {
		s.mu.Unlock()
		return false
	}
	sl := &s.slots[id]
	was, models, adapters, isolation := sl.state.serving(), sl.state.Models, sl.state.Adapters, sl.state.isolation()
	f(&sl.state)
	if is := sl.state.serving(); is != was {
		sl.load.readiness(is)
	}
	moved := !slices.Equal(models, sl.state.Models) || !slices.Equal(adapters, sl.state.Adapters) ||
		isolation != sl.state.isolation()
	v := s.changedLocked(moved)
	s.mu.Unlock()
	s.publish(v)
	return true
}

// changedLocked counts a change and returns its version.
func (s *Store) changedLocked(topology bool) uint64 {
	if topology {
		s.topo = nil
	}
	s.version++
	return s.version
}

// publish makes a snapshot of at least the given version visible. Callers that
// queue here while one is built find their change in it and build none.
func (s *Store) publish(version uint64) {
	s.publishMu.Lock()
	defer s.publishMu.Unlock()
	if s.published >= version && s.cur.Load() != nil {
		return
	}
	s.mu.Lock()
	snap, v := s.copyLocked(), s.version
	s.mu.Unlock()
	snap.fill()
	s.cur.Store(snap)
	s.published = v
}

// copyLocked copies the states; the columns are filled outside the lock.
func (s *Store) copyLocked() *Snapshot {
	if s.topo == nil {
		s.topo = s.buildTopologyLocked()
	}
	t := s.topo
	snap := &Snapshot{N: len(s.slots), Infos: t.infos, Loads: t.loads, Live: t.live, Topology: t.version, topo: t}
	snap.states = make([]State, len(s.slots))
	for i := range s.slots {
		snap.states[i] = s.slots[i].state
	}
	return snap
}

func (s *Store) buildTopologyLocked() *topology {
	n := len(s.slots)
	words := (n + 63) / 64
	t := &topology{version: s.version,
		infos: make([]*Info, n), loads: make([]*Load, n), live: make(Set, words), anyModel: make(Set, words),
		labels: map[label]Set{}, models: map[string]Set{}, adapters: map[string]Set{},
	}
	for i := range s.slots {
		sl, id := &s.slots[i], ID(i)
		if sl.info == nil {
			continue
		}
		t.infos[i], t.loads[i] = sl.info, sl.load
		t.live.Add(id)
		for k, v := range sl.info.Labels {
			addTo(t.labels, label{k, v}, id, words)
		}
		addTo(t.labels, label{LabelIsolation, sl.state.isolation()}, id, words)
		for _, m := range sl.state.Models {
			addTo(t.models, m, id, words)
		}
		for _, a := range sl.state.Adapters {
			addTo(t.adapters, a, id, words)
		}
		if len(sl.state.Models) == 0 {
			t.anyModel.Add(id)
		}
	}
	return t
}

func addTo[K comparable](m map[K]Set, k K, id ID, words int) {
	if m[k] == nil {
		m[k] = make(Set, words)
	}
	m[k].Add(id)
}
