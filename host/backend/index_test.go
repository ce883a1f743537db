package backend

import (
	"errors"
	"sync"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvindex"
)

// mapIndex is an Index of plain maps, per holder engine name → own name. It can
// report which holder has a block; plainIndex cannot.
type mapIndex struct {
	mu   sync.Mutex
	held map[int]map[uint64]uint64
}

var errOrphan = errors.New("orphan")

func newMapIndex() *mapIndex {
	return &mapIndex{held: map[int]map[uint64]uint64{}}
}

func (x *mapIndex) Store(h int, parent uint64, hasParent bool, engine, own []uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if hasParent {
		if _, ok := x.ownLocked(h, parent); !ok {
			return errOrphan
		}
	}
	if x.held[h] == nil {
		x.held[h] = map[uint64]uint64{}
	}
	for i, e := range engine {
		x.held[h][e] = own[i]
	}
	return nil
}

// Held implements Counting.
func (x *mapIndex) Held(h int) int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return int64(len(x.held[h]))
}

func (x *mapIndex) Remove(h int, engine []uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range engine {
		delete(x.held[h], e)
	}
}

func (x *mapIndex) Own(h int, e uint64) (uint64, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ownLocked(h, e)
}

// ownLocked looks through all tiers of h's endpoint, its own first.
func (x *mapIndex) ownLocked(h int, e uint64) (uint64, bool) {
	if own, ok := x.held[h][e]; ok {
		return own, true
	}
	for t := h - h%kvindex.Tiers; t < h-h%kvindex.Tiers+kvindex.Tiers; t++ {
		if own, ok := x.held[t][e]; ok {
			return own, true
		}
	}
	return 0, false
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
	delete(x.held, h)
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

// plainIndex is a mapIndex that cannot report which holder has a block.
type plainIndex struct{ x *mapIndex }

func (p plainIndex) Store(h int, parent uint64, has bool, e, o []uint64) error {
	return p.x.Store(h, parent, has, e, o)
}
func (p plainIndex) Remove(h int, e []uint64)           { p.x.Remove(h, e) }
func (p plainIndex) Own(h int, e uint64) (uint64, bool) { return p.x.Own(h, e) }
func (p plainIndex) RemoveHolder(h int)                 { p.x.RemoveHolder(h) }

// tee is a plainIndex that passes all calls to a kvindex.Index too, and must agree
// with it.
type tee struct {
	plainIndex
	kv *kvindex.Index
}

func (t tee) Store(h int, parent uint64, has bool, e, o []uint64) error {
	err, kverr := t.plainIndex.Store(h, parent, has, e, o), t.kv.Store(h, parent, has, e, o)
	if (err == nil) != (kverr == nil) {
		panic("kvindex disagrees about an orphan")
	}
	return err
}

func (t tee) Remove(h int, e []uint64) {
	t.plainIndex.Remove(h, e)
	t.kv.Remove(h, e)
}

func (t tee) Own(h int, e uint64) (uint64, bool) {
	own, ok := t.plainIndex.Own(h, e)
	if got, kvok := t.kv.Own(h, e); got != own || kvok != ok {
		panic("kvindex disagrees about a name")
	}
	return own, ok
}

func (t tee) RemoveHolder(h int) {
	t.plainIndex.RemoveHolder(h)
	t.kv.RemoveHolder(h)
}
