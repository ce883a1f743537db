package scheduler

import (
	"hash/maphash"
	"slices"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/policy"
)

// maskSlots bounds the sets of constraints whose endpoints are cached: one per pool,
// region and the like, shared by all tenants. Computing a further one takes well under
// a microsecond.
const maskSlots = 512

// maskCache caches which endpoints satisfy a set of constraints, by the content of the
// set and the version of the topology. It is safe for concurrent use without locks:
// entries are immutable, and the last writer wins.
type maskCache struct {
	seed  maphash.Seed
	slots [maskSlots]atomic.Pointer[mask]
}

// mask is one entry. It is immutable.
type mask struct {
	hash     uint64
	topology uint64 // version, of the snapshot
	cs       []policy.Constraint
	set      endpoint.Set
}

func (m *maskCache) init() { m.seed = maphash.MakeSeed() }

// get returns the live endpoints of snap that satisfy all of cs. The set is
// shared and must not be written. cs must be immutable: it is kept.
func (m *maskCache) get(snap *endpoint.Snapshot, cs []policy.Constraint) endpoint.Set {
	if len(cs) == 0 {
		return snap.Live
	}
	h := m.hash(cs)
	first := &m.slots[h%maskSlots]
	second := &m.slots[h%maskSlots^1]
	e := first.Load()
	if !e.is(h, snap.Topology, cs) {
		old := e
		if e = second.Load(); !e.is(h, snap.Topology, cs) {
			e = &mask{hash: h, topology: snap.Topology, cs: cs, set: satisfying(snap, cs)}
			if old != nil && old.topology == snap.Topology {
				second.Store(old)
			}
			first.Store(e)
		}
	}
	return e.set
}

// is reports whether e is the entry of cs.
func (e *mask) is(hash, topology uint64, cs []policy.Constraint) bool {
	if e == nil || e.hash != hash || e.topology != topology || len(e.cs) != len(cs) {
		return false
	}
	if &e.cs[0] == &cs[0] {
		return true
	}
	return slices.EqualFunc(e.cs, cs, func(a, b policy.Constraint) bool {
		return a.Label == b.Label && a.NotIn == b.NotIn && slices.Equal(a.Values, b.Values)
	})
}

func (m *maskCache) hash(cs []policy.Constraint) uint64 {
	h := uint64(len(cs))
	for i := range cs {
		c := &cs[i]
		h = mix(h ^ maphash.String(m.seed, c.Label))
		if c.NotIn {
			h++
		}
		for _, v := range c.Values {
			h = mix(h ^ maphash.String(m.seed, v))
		}
	}
	return h
}

// satisfying returns the endpoints that satisfy all constraints: whose label has one of
// the values, or none of them for NotIn. An endpoint without the label has none of any
// values; no endpoint has one of no values.
func satisfying(snap *endpoint.Snapshot, cs []policy.Constraint) endpoint.Set {
	out := slices.Clone(snap.Live)
	having := make(endpoint.Set, len(out))
	for i := range cs {
		c := &cs[i]
		clear(having)
		for _, v := range c.Values {
			having.Or(snap.Label(c.Label, v))
		}
		if c.NotIn {
			out.AndNot(having)
		} else {
			out.And(having)
		}
	}
	return out
}
