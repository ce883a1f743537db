package scheduler

import (
	"hash/maphash"
	"sync"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

const (
	// maxHomes is how many keys each of a table's two halves holds:
	// a session, or an answer, is forgotten after between 32 and 64 Ki others.
	maxHomes = 32 << 10
	// homeShards bounds how many requests wait for one lock, and how much one
	// of them allocates when a shard starts afresh: 2,048 entries.
	homeShards = 16
)

// home is an endpoint.
type home struct {
	id    endpoint.ID
	epoch uint32 // of the slot
	at    int64  // when it was set last, Unix nanoseconds; 0 for answers, whose homes do not expire
}

// homes keeps the endpoint of each key: of a session, or of an answer. It is safe for concurrent use; its
// locks are leaves.
type homes[K comparable] struct {
	hash   func(maphash.Seed, K) uint64
	seed   maphash.Seed
	shards [homeShards]homeShard[K]
}

// homeShard is two maps that take turns: when the young one is full, it becomes
// the old one, and the old one is dropped. A key is in one of them at most.
type homeShard[K comparable] struct {
	mu         sync.Mutex // guards the fields below
	young, old homeMap[K]
}

// homeMap counts its keys by endpoint, so that counting needs no walk.
type homeMap[K comparable] struct {
	at    map[K]home
	count map[uint32]int // by home.epoch; no zero entries
}

func newHomeMap[K comparable](size int) homeMap[K] {
	return homeMap[K]{at: make(map[K]home, size), count: map[uint32]int{}}
}

func (m *homeMap[K]) set(key K, h home) {
	m.remove(key)
	m.at[key] = h
	m.count[h.epoch]++
}

func (m *homeMap[K]) remove(key K) {
	h, ok := m.at[key]
	if !ok {
		return
	}
	delete(m.at, key)
	if m.count[h.epoch]--; m.count[h.epoch] == 0 {
		delete(m.count, h.epoch)
	}
}

// init prepares an empty table. hash spreads the keys over the shards.
func (t *homes[K]) init(hash func(maphash.Seed, K) uint64) {
	t.hash, t.seed = hash, maphash.MakeSeed()
	for i := range t.shards {
		t.shards[i].young, t.shards[i].old = newHomeMap[K](0), newHomeMap[K](0)
	}
}

func (t *homes[K]) shard(key K) *homeShard[K] { return &t.shards[t.hash(t.seed, key)%homeShards] }

func (t *homes[K]) get(key K) (home, bool) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.young.at[key]
	if !ok {
		h, ok = s.old.at[key]
	}
	return h, ok
}

func (t *homes[K]) set(key K, h home) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.old.remove(key)
	if _, known := s.young.at[key]; !known && len(s.young.at) >= maxHomes/homeShards {
		s.old, s.young = s.young, newHomeMap[K](maxHomes/homeShards)
	}
	s.young.set(key, h)
}

// counts returns the number of keys by epoch of the endpoint's slot.
func (t *homes[K]) counts() map[uint32]int {
	out := map[uint32]int{}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for _, m := range []map[uint32]int{s.young.count, s.old.count} {
			for epoch, n := range m {
				out[epoch] += n
			}
		}
		s.mu.Unlock()
	}
	return out
}
