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

// cache holds decisions by the whole key, so that no two inputs can be confused. It
// lives as long as its snapshot, so that its entries are never stale. It is safe for
// concurrent use.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
	total  int // bound of entries
	tenant int // bound of entries of one tenant

	mu      sync.Mutex // guards the fields below; locked on a miss only, before a shard's
	owners  map[string]*owner
	entries int
}

type cacheShard struct {
	mu      sync.RWMutex // guards the maps; the innermost lock
	m       map[string]*cacheEntry
	flights map[string]*flight
	_       [64]byte
}

// cacheEntry is one cached decision.
type cacheEntry struct {
	key      string
	decision *Decision
	verdict  *verdict    // the verdict from which decision was bound
	perUser  bool        // the key lacks the user; a second key with the user holds the decision
	in       *Input      // the first input of this key, for replays
	used     atomic.Bool // since eviction last skipped it
}

// owner holds the keys of a tenant's entries, oldest first.
type owner struct {
	queue []*cacheEntry
	name  string
}

// flight is one evaluation, with the callers that wait for it.
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

// fill returns the entry of a key that get did not find. One caller computes it, the
// others wait for the result. Errors are not cached.
func (c *cache) fill(
	key []byte, tenant string, count *Counters, compute func() (*cacheEntry, error),
) (*cacheEntry, error) {
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

// insert adds an entry. If there are too many it evicts an old one: of the same
// tenant, or of the tenant with the most entries.
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
	c.owners[tenant] = o // evicting the last entry of a tenant deletes its owner
	c.entries++
	sh := &c.shards[c.shard([]byte(e.key))]
	sh.mu.Lock()
	sh.m[e.key] = e
	sh.mu.Unlock()
}

// sampledOwners bounds the search for a tenant with many entries; iteration over a
// Go map begins at a random place.
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

// evictLocked evicts the oldest entry of o that was not used since it was last
// skipped. It looks at a few entries only.
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

// inputs returns the inputs of up to n entries, taking tenants in turn.
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
					before-- // an entry without an input counts as visited
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

// Counters counts the work of snapshots. Snapshots share one, which outlives them.
// The zero value is ready. It is safe for concurrent use.
type Counters struct {
	hits                                 [cacheShards]paddedCounter
	misses, errors, evicted, evaluations atomic.Uint64
	evalNanos                            atomic.Uint64
}

type paddedCounter struct {
	atomic.Uint64
	_ [56]byte
}

// Stats holds the counts of Counters.
type Stats struct {
	Hits        uint64 // decisions from the cache
	Misses      uint64 // decisions that were not cached
	Errors      uint64 // evaluations that gave no decision
	Evaluations uint64
	Evicted     uint64 // entries evicted for others
	EvalNanos   uint64 // time of evaluations
}

// Stats returns the counts.
func (c *Counters) Stats() Stats {
	s := Stats{Misses: c.misses.Load(), Errors: c.errors.Load(), Evaluations: c.evaluations.Load(),
		Evicted: c.evicted.Load(), EvalNanos: c.evalNanos.Load()}
	for i := range c.hits {
		s.Hits += c.hits[i].Load()
	}
	return s
}
