package policy

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const cacheShards = 64

// Bounds of a snapshot's cache. An entry takes about 600 bytes: 64k of them 40
// MB. 1,000 tenants with 8 models and 3 priorities are 24,000 keys.
const (
	defaultMaxEntries = 64 << 10
	defaultPerTenant  = 4096
)

// cache holds decisions by the whole key, so that no two inputs can be taken
// for each other. It lives as long as its snapshot, so nothing in it is ever
// stale. It is safe for concurrent use.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
	total  int // bound of entries
	tenant int // bound of entries of one tenant

	mu      sync.Mutex // guards the fields below; taken on a miss only, before a shard's
	owners  map[string]*owner
	entries int
}

type cacheShard struct {
	mu      sync.RWMutex // guards the maps; the last lock taken
	m       map[string]*cacheEntry
	flights map[string]*flight
	_       [64]byte
}

// cacheEntry is one cached decision.
type cacheEntry struct {
	key      string
	decision *Decision
	verdict  *verdict    // what decision was bound from
	perUser  bool        // the key lacks the user, who has an entry of his own behind it
	in       *Input      // the first one, for replays
	used     atomic.Bool // since it was last passed over for eviction
}

// owner is a tenant's entries, oldest first.
type owner struct {
	queue []*cacheEntry
	name  string
}

// flight is one evaluation that others wait for.
type flight struct {
	done  chan struct{}
	entry *cacheEntry
	err   error
}

func newCache(total, tenant int) *cache {
	x := &cache{seed: maphash.MakeSeed(), total: total, tenant: tenant, owners: map[string]*owner{}}
	for i := range x.shards {
		x.shards[i].m, x.shards[i].flights = map[string]*cacheEntry{}, map[string]*flight{}
	}
	return x
}

func (c *cache) shard(key []byte) int { return int(maphash.Bytes(c.seed, key) % cacheShards) }

// get returns the entry of a key, nil if there is none. It allocates nothing.
func (c *cache) get(key []byte, count *Counters) *cacheEntry {
	n := c.shard(key)
	sh := &c.shards[n]
	sh.mu.RLock()
	e := sh.m[string(key)]
	sh.mu.RUnlock()
	if e == nil {
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	count.hits[n].Add(1)
	return e
}

// fill returns the entry of a key that get did not find. One caller makes it,
// the others wait for him. An error is not kept.
func (c *cache) fill(key []byte, tenant string, count *Counters, compute func() (*cacheEntry, error)) (*cacheEntry, error) {
	sh := &c.shards[c.shard(key)]
	sh.mu.Lock()
	if e := sh.m[string(key)]; e != nil {
		sh.mu.Unlock()
		return e, nil
	}
	if f := sh.flights[string(key)]; f != nil {
		sh.mu.Unlock()
		<-f.done
		return f.entry, f.err
	}
	k, f := string(key), &flight{done: make(chan struct{})}
	sh.flights[k] = f
	sh.mu.Unlock()
	f.entry, f.err = compute()
	if f.err == nil {
		f.entry.key = k
		c.insert(f.entry, tenant, count)
	}
	sh.mu.Lock()
	delete(sh.flights, k)
	sh.mu.Unlock()
	close(f.done)
	return f.entry, f.err
}

// insert keeps an entry, and lets go of an old one where there are too many: of
// the same tenant, or of the one that has most.
func (c *cache) insert(e *cacheEntry, tenant string, count *Counters) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.owners[tenant]
	if o == nil {
		o = &owner{name: tenant}
		c.owners[tenant] = o
	}
	switch {
	case len(o.queue) >= c.tenant:
		c.evictLocked(o, count)
	case c.entries >= c.total:
		c.evictLocked(c.largestLocked(), count)
	}
	o.queue = append(o.queue, e)
	c.owners[tenant] = o // evicting the last entry of a tenant forgets it
	c.entries++
	sh := &c.shards[c.shard([]byte(e.key))]
	sh.mu.Lock()
	sh.m[e.key] = e
	sh.mu.Unlock()
}

// sampledOwners bounds the search for a tenant with many entries; Go's maps
// begin their walk anywhere.
const sampledOwners = 16

func (c *cache) largestLocked() (most *owner) {
	n := 0
	for _, o := range c.owners {
		if len(o.queue) > 0 && (most == nil || len(o.queue) > len(most.queue)) {
			most = o
		}
		if n++; n >= sampledOwners && most != nil {
			break
		}
	}
	return most
}

// evictLocked lets go of the oldest entry of o that was not used since it was
// passed over, looking at a few.
func (c *cache) evictLocked(o *owner, count *Counters) {
	for range min(8, len(o.queue)) {
		if e := o.queue[0]; e.used.Swap(false) {
			o.queue = append(o.queue[1:], e)
			continue
		}
		break
	}
	e := o.queue[0]
	o.queue[0] = nil
	if o.queue = o.queue[1:]; len(o.queue) == 0 {
		delete(c.owners, o.name)
	}
	c.entries--
	count.evicted.Add(1)
	sh := &c.shards[c.shard([]byte(e.key))]
	sh.mu.Lock()
	delete(sh.m, e.key)
	sh.mu.Unlock()
}

// inputs returns the inputs of up to n entries, the tenants' by turns.
func (c *cache) inputs(n int) (out []*Input) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for round := 0; len(out) < n; round++ {
		before := len(out)
		for _, o := range c.owners {
			if i := len(o.queue) - 1 - round; i >= 0 && len(out) < n {
				if e := o.queue[i]; e.in != nil {
					out = append(out, e.in)
				} else {
					before-- // it counts as seen
				}
			}
		}
		if len(out) == before {
			break
		}
	}
	return out
}

// size returns the number of entries.
func (c *cache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries
}

// Counters count what snapshots do. One set outlives the snapshots that share
// it; the zero value is ready, and it is safe for concurrent use.
type Counters struct {
	hits                                 [cacheShards]paddedCounter
	misses, errors, evicted, evaluations atomic.Uint64
	evalNanos                            atomic.Uint64
}

type paddedCounter struct {
	atomic.Uint64
	_ [56]byte
}

// Stats is what Counters have counted.
type Stats struct {
	Hits        uint64 // decisions from the cache
	Misses      uint64 // decisions that were not there
	Errors      uint64 // evaluations that gave no decision
	Evaluations uint64
	Evicted     uint64 // entries that made room
	EvalNanos   uint64 // spent evaluating
}

// Stats returns the counts.
func (c *Counters) Stats() Stats {
	s := Stats{Misses: c.misses.Load(), Errors: c.errors.Load(), Evaluations: c.evaluations.Load(), Evicted: c.evicted.Load(), EvalNanos: c.evalNanos.Load()}
	for i := range c.hits {
		s.Hits += c.hits[i].Load()
	}
	return s
}
