package kvindex

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// DefaultAssumedBytes is enough for the models of 128 endpoints of 40,000
// blocks each.
const DefaultAssumedBytes = 64 << 20

// AssumedConfig sizes an [Assumed].
type AssumedConfig struct {
	// Holders bounds the holder numbers, in [1, MaxHolders].
	Holders int
	// CapacityBlocks is the capacity of holders for which SetCapacity was not
	// called. 0 means that nothing is assumed of them.
	CapacityBlocks int
	// BudgetBytes is the hard limit of all models together; 0 means
	// DefaultAssumedBytes. A model that must not grow any further evicts earlier than
	// the engine.
	BudgetBytes int64
}

// Validate reports whether the configuration can be used.
func (c AssumedConfig) Validate() error {
	if c.Holders < 1 || c.Holders > MaxHolders {
		return fmt.Errorf("kvindex: %d holders, want 1 to %d", c.Holders, MaxHolders)
	}
	if c.CapacityBlocks < 0 || c.CapacityBlocks > maxCapacity {
		return fmt.Errorf("kvindex: capacity of %d blocks, want 0 to %d", c.CapacityBlocks, maxCapacity)
	}
	return nil
}

// Assumed models the caches of endpoints that send no events: each holds the
// blocks of the requests it served, and evicts the least recently used ones,
// the end of a chain first, when it has more than its capacity. That is what
// vLLM and SGLang do with blocks no request uses (vLLM 0.11
// v1/core/block_pool.py: a request's blocks are freed in reverse order, and
// evicted in the order in which they were freed).
//
// It is a guess: blocks filled by generated tokens, of other routers and of
// requests that were cancelled are missing, and the engine may have restarted.
//
// All methods may be called at any time from any goroutine; holders do not wait
// for one another. It costs 12 bytes a block and holder.
type Assumed struct {
	budget   int64 // bytes
	capacity int   // of holders without SetCapacity
	bytes    atomic.Int64
	caches   []atomic.Pointer[lru] // [holders] nil: nothing yet
}

// NewAssumed returns models that hold nothing. It panics if cfg does not
// validate.
func NewAssumed(cfg AssumedConfig) *Assumed {
	if cfg.BudgetBytes == 0 {
		cfg.BudgetBytes = DefaultAssumedBytes
	}
	if err := cfg.Validate(); err != nil {
		panic("BUG: " + err.Error())
	}
	return &Assumed{budget: cfg.BudgetBytes, capacity: cfg.CapacityBlocks, caches: make([]atomic.Pointer[lru],
		cfg.Holders)}
}

// cache returns the holder's model, made on demand.
func (a *Assumed) cache(holder int) *lru {
	p := &a.caches[holder]
	if c := p.Load(); c != nil {
		return c
	}
	p.CompareAndSwap(nil, &lru{all: a, capacity: a.capacity})
	return p.Load()
}

// SetCapacity sets how many blocks the holder's cache has, as the engine reports. A
// smaller capacity evicts at once.
func (a *Assumed) SetCapacity(holder, blocks int) {
	c := a.cache(holder)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setCapacity(min(max(blocks, 0), maxCapacity))
}

// Touch records that the holder served a request whose prompt has the blocks hashes
// (own hashes, from the start of the chain): they become its most recently used
// ones, in order from the first. hashes is not kept.
func (a *Assumed) Touch(holder int, hashes []uint64) {
	c := a.cache(holder)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touch(hashes)
}

// Clear removes the holder's blocks and keeps its capacity.
func (a *Assumed) Clear(holder int) {
	if c := a.caches[holder].Load(); c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clear()
	}
}

// Match sets depth[h], for every holder h in candidates, to the number of
// leading blocks of hashes that h should hold. Arguments are those of
// [Index.Match]. It allocates nothing and waits at most for one Touch of each
// holder.
func (a *Assumed) Match(hashes []uint64, candidates []uint64, depth []uint32) {
	var hint uint32
	for i, w := range candidates {
		for ; w != 0; w &= w - 1 {
			h := i<<6 + bits.TrailingZeros64(w)
			depth[h] = 0
			if c := a.caches[h].Load(); c != nil {
				depth[h] = c.match(hashes, &hint)
			}
		}
	}
}

// Held returns how many blocks the holder should hold.
func (a *Assumed) Held(holder int) int {
	c := a.caches[holder].Load()
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Bytes is what all models have allocated.
func (a *Assumed) Bytes() int64 { return a.bytes.Load() }

// take takes n more bytes of the budget and reports whether they were left.
func (a *Assumed) take(n int64) bool {
	if a.bytes.Add(n) <= a.budget {
		return true
	}
	a.bytes.Add(-n)
	return false
}
