package backend

import (
	"errors"
	"sync"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// mapIndex is an Index of plain maps: per holder engine name → own name.
type mapIndex struct {
	mu    sync.Mutex
	held  map[int]map[uint64]uint64
	names map[uint64]uint64 // of all holders, as an index that shares its name table
}

var errOrphan = errors.New("orphan")

func newMapIndex() *mapIndex {
	return &mapIndex{held: map[int]map[uint64]uint64{}, names: map[uint64]uint64{}}
}

func (x *mapIndex) Store(h int, parent uint64, hasParent bool, engine, own []uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if hasParent {
		if _, ok := x.names[parent]; !ok {
			return errOrphan
		}
	}
	if x.held[h] == nil {
		x.held[h] = map[uint64]uint64{}
	}
	for i, e := range engine {
		x.held[h][e], x.names[e] = own[i], own[i]
	}
	return nil
}

func (x *mapIndex) Remove(h int, engine []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range engine {
		delete(x.held[h], e)
		x.dropLocked(e)
	}
}

// dropLocked forgets a name that nobody holds.
func (x *mapIndex) dropLocked(e uint64) {
	for _, m := range x.held {
		if _, ok := m[e]; ok {
			return
		}
	}
	delete(x.names, e)
}

func (x *mapIndex) Own(_ int, e uint64) (uint64, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	own, ok := x.names[e]
	return own, ok
}

func (x *mapIndex) Holds(h int, e uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.held[h][e]
	return ok
}

func (x *mapIndex) RemoveHolder(h int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	gone := x.held[h]
	delete(x.held, h)
	for e := range gone {
		x.dropLocked(e)
	}
}

// own returns the set of own names that a tier of endpoint 0 holds.
func (x *mapIndex) own(id, tier int) map[uint64]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := map[uint64]bool{}
	for _, o := range x.held[holder(endpoint.ID(id), tier)] {
		out[o] = true
	}
	return out
}

// plainIndex is a mapIndex that cannot tell who holds what.
type plainIndex struct{ x *mapIndex }

func (p plainIndex) Store(h int, parent uint64, has bool, e, o []uint64) error {
	return p.x.Store(h, parent, has, e, o)
}
func (p plainIndex) Remove(h int, e []uint64)           { p.x.Remove(h, e) }
func (p plainIndex) Own(h int, e uint64) (uint64, bool) { return p.x.Own(h, e) }
func (p plainIndex) RemoveHolder(h int)                 { p.x.RemoveHolder(h) }
