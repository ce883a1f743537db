package endpoint

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of Store.Add and Store.Replace.
var (
	// ErrFull is returned when all MaxEndpoints slots are taken.
	ErrFull = errors.New("endpoint: no free slot")
	// ErrDuplicate is returned for an address that is in the pool already.
	ErrDuplicate = errors.New("endpoint: duplicate address in the pool")
)

// Store owns the endpoints. All methods may be called concurrently. Writers
// take a lock and publish a snapshot; readers take one atomic load.
type Store struct {
	mu      sync.Mutex // guards the fields below up to version
	slots   []slot     // [n ≤ MaxEndpoints]
	epochs  uint32     // given out
	edition uint64     // of the rules by which attributes and members are
	topo    *topology  // nil after a change of topology
	version uint64     // changes made

	publishMu sync.Mutex  // one publisher at a time; taken before mu
	published uint64      // version of cur; guarded by publishMu
	soon      atomic.Bool // a publication of figures is due
	cur       atomic.Pointer[Snapshot]
}

// A snapshot costs in proportion to the number of endpoints, and each endpoint reports
// its figures about once a second. So figures of more than promptSlots endpoints share
// snapshots, at most one each figuresPeriod: that a figure is seen a tenth of the time
// between two reports later changes no decision much, and figures of 2,000 endpoints
// then cost 10 snapshots a second, not 2,000.
const (
	promptSlots   = 16
	figuresPeriod = 100 * time.Millisecond
)

type slot struct {
	info    *Info // nil = free
	load    *Load
	state   State
	own     ownLoad // at the last report
	retired bool    // removed for readers; the slot is not free yet
}

// empty reports whether readers see no endpoint in the slot.
func (s *slot) empty() bool { return s.info == nil || s.retired }

// NewStore returns an empty store.
func NewStore() *Store {
	s := &Store{}
	s.publish(0)
	return s
}

// Load returns the current snapshot, never nil.
func (s *Store) Load() *Snapshot { return s.cur.Load() }

// Add puts an endpoint into the lowest free slot, not ready, and returns the slot. Its
// errors are those of Replace.
func (s *Store) Add(info Info) (ID, error) {
	ids, err := s.Replace(nil, []Info{info})
	if err != nil {
		return 0, err
	}
	return ids[0], nil
}

// Remove takes an endpoint out, as Replace does.
func (s *Store) Remove(id ID) { s.Replace([]ID{id}, nil) } // without additions there is no error

// Replace takes endpoints out and puts others in, in one snapshot, however many they
// are. Endpoints that come are not ready and get the lowest free slots; ids are theirs,
// in the order of add. A pool cannot have one address twice (ErrDuplicate), nor a store
// more than MaxEndpoints endpoints (ErrFull); on error nothing is added, but endpoints
// are removed.
//
// Requests in flight on an endpoint that goes keep its Load and end normally; its slot
// may be given to another endpoint at once. Its watcher must have ended before, or the
// watcher's next Update would change the next endpoint of the slot. Slots without an
// endpoint are ignored.
func (s *Store) Replace(remove []ID, add []Info) (ids []ID, err error) {
	if len(remove)+len(add) == 0 {
		return nil, nil
	}
	s.mu.Lock()
	for _, id := range remove {
		if int(id) < len(s.slots) && s.slots[id].info != nil {
			s.slots[id].load.gone.Store(true)
			s.slots[id] = slot{}
		}
	}
	s.trimLocked()
	for i := range add {
		id, e := s.addLocked(add[i])
		if e != nil {
			for _, id := range ids {
				s.slots[id] = slot{}
			}
			s.trimLocked()
			ids, err = nil, e
			break
		}
		ids = append(ids, id)
	}
	v := s.changedLocked(true)
	s.mu.Unlock()
	s.publish(v)
	return ids, err
}

// trimLocked drops the free slots at the end.
func (s *Store) trimLocked() {
	for n := len(s.slots); n > 0 && s.slots[n-1].info == nil; n-- {
		s.slots = s.slots[:n-1]
	}
}

func (s *Store) addLocked(info Info) (ID, error) {
	free := -1
	for i := range s.slots {
		o := s.slots[i].info
		if o == nil && free < 0 {
			free = i
		}
		if !s.slots[i].empty() && o.Addr == info.Addr && o.Pool == info.Pool {
			return 0, ErrDuplicate
		}
	}
	if free < 0 {
		if len(s.slots) == MaxEndpoints {
			return 0, ErrFull
		}
		free = len(s.slots)
		s.slots = append(s.slots, slot{})
	}
	s.epochs++
	info.ID, info.Epoch = ID(free), s.epochs
	info.Labels = labelsOf(&info)
	s.slots[free] = slot{info: &info, load: newLoad()}
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

// Switch begins an edition: an edition of the rules that says which endpoints there are
// and what their attributes are. In one snapshot, which has the edition's number,
// endpoints of retire are gone for readers, and those of infos have other attributes:
// dialect, labels, price and spot. Slot, epoch, address, pool, state and Load stay. No
// reader sees a part of the change.
//
// The slots of retired endpoints are free once Replace removes them: their watchers may
// still run. Slots without an endpoint are ignored. Switch does little more than build
// one snapshot, so it may be called under a lock.
func (s *Store) Switch(edition uint64, retire []ID, infos map[ID]Info) {
	s.mu.Lock()
	s.edition = edition
	for _, id := range retire {
		if int(id) < len(s.slots) && s.slots[id].info != nil {
			s.slots[id].load.gone.Store(true)
			s.slots[id].retired = true
		}
	}
	for id, info := range infos {
		if int(id) >= len(s.slots) || s.slots[id].empty() {
			continue
		}
		next := *s.slots[id].info
		next.Dialect, next.Price, next.Spot = info.Dialect, info.Price, info.Spot
		next.Labels = labelsOf(&Info{Labels: info.Labels, Pool: next.Pool})
		s.slots[id].info = &next
	}
	v := s.changedLocked(len(retire)+len(infos) > 0)
	s.mu.Unlock()
	s.publish(v)
}

// Update changes an endpoint's state by f, which runs under the store's lock
// and must neither block nor keep the pointer. Where f changes ScrapedAt, the figures are
// compared with the router's own load (Snapshot.Others). When Update returns, Load sees
// the change; updates that wait for each other share one snapshot. In stores of more
// than 16 endpoints, Load sees changes of figures alone within 100 ms. Update reports
// whether the slot has an endpoint.
func (s *Store) Update(id ID, f func(*State)) bool {
	s.mu.Lock()
	if int(id) >= len(s.slots) || s.slots[id].info == nil {
		s.mu.Unlock()
		return false
	}
	sl := &s.slots[id]
	old := sl.state
	f(&sl.state)
	if !sl.state.ScrapedAt.Equal(old.ScrapedAt) {
		own := sl.load.own()
		sl.state.others, sl.own = othersOf(&sl.state, own, sl.own), own
	}
	if is := sl.state.serving(); is != old.serving() {
		sl.load.readiness(is)
	}
	moved := !slices.Equal(old.Models, sl.state.Models) || !slices.Equal(old.Adapters, sl.state.Adapters) ||
		old.isolation() != sl.state.isolation()
	v := s.changedLocked(moved)
	later := !moved && len(s.slots) > promptSlots && sl.state.equalButFigures(&old)
	s.mu.Unlock()
	if !later {
		s.publish(v)
	} else if s.soon.CompareAndSwap(false, true) {
		time.AfterFunc(figuresPeriod, s.Flush)
	}
	return true
}

// Flush makes all changes so far visible to Load. Who drives a store by a clock other than
// the wall clock calls it after its updates.
func (s *Store) Flush() {
	s.soon.Store(false) // before the version is read: later changes are due again
	s.mu.Lock()
	v := s.version
	s.mu.Unlock()
	s.publish(v)
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
	snap := &Snapshot{N: len(s.slots), Edition: s.edition, Infos: t.infos, Loads: t.loads, Live: t.live,
		Topology: t.version, topo: t}
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
		if sl.empty() {
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
