package chat

import (
	"sync"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

const maxBlockTokens = blockhash.MaxBlockTokens

// memoKey is a namespace. Content of one namespace must not be disclosed to another,
// not even by the duration of a request.
type memoKey struct{ salt, adapter string }

// memo holds the cached data of one namespace.
//
// Readers follow correct guesses without a lock. mu guards the maps and the ring. It
// is held for look-ups and insertions, never during decoding, rendering, encoding or
// hashing. Lock order: Model.evicting, Model.mu, memo.mu.
type memo struct {
	key   memoKey
	seed  uint64 // of the block hashes
	first value  // precedes the first message; only its guesses are used
	stamp atomic.Uint32
	bytes atomic.Int64

	mu     sync.RWMutex
	gone   bool              // dropped: nothing is stored here
	values map[uint64]*value // by hashOf
	trees  [2]*tree          // without and with special tokens around the prompt
	ring   ring
}

// memoFor returns the memo of q's namespace.
func (m *Model) memoFor(q *tokenizer.Query) *memo {
	k := memoKey{q.Salt, q.Adapter}
	m.mu.RLock()
	o := m.memos[k]
	m.mu.RUnlock()
	if o == nil {
		o = m.newMemo(k)
	}
	if now := m.epoch.Load(); o.stamp.Load() != now {
		o.stamp.Store(now)
	}
	return o
}

func (m *Model) newMemo(k memoKey) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o := m.memos[k]; o != nil {
		return o
	}
	o := &memo{key: k, seed: m.seed(k.adapter, k.salt), values: map[uint64]*value{}}
	n := memoBytes + int64(len(k.salt)+len(k.adapter))
	o.bytes.Store(n)
	m.memos[k] = o
	m.grow(n)
	return o
}

// seed returns the start of the hash chains of a namespace.
func (m *Model) seed(adapter, salt string) uint64 {
	return blockhash.Seed(m.cfg.CacheIdentity, adapter, salt)
}

// tree returns the tree of prompts for sizes, whose lanes include all of them. Sizes
// without a lane create a new tree. This is rare: sizes change with the pools.
func (o *memo) tree(m *Model, w *work, sizes []int) *tree {
	which := 0
	if w.affix {
		which = 1
	}
	o.mu.RLock()
	t := o.trees[which]
	o.mu.RUnlock()
	if t != nil && t.has(sizes) {
		return t
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	t = o.trees[which]
	if t != nil && t.has(sizes) {
		return t
	}
	var old []int
	if t != nil {
		old = t.sizes
		t.gone = true
	}
	t = newTree(m.affixes, w.affix, mergeSizes(old, sizes), o.seed)
	o.trees[which] = t
	return t
}

// mergeSizes adds sizes to old ones, or returns sizes alone if the sum is too many.
func mergeSizes(old, sizes []int) []int {
	out := append([]int(nil), sizes...)
next:
	for _, s := range old {
		for _, t := range sizes {
			if s == t {
				continue next
			}
		}
		out = append(out, s)
	}
	if len(out) > tokenizer.MaxSizes {
		return out[:len(sizes)]
	}
	return out
}

// ring holds a memo's entries in order of insertion, with holes.
type ring struct {
	entries []entry
	holes   int
	hand    int // index at which the next sweep continues, downwards
}

// entry is a value or a node of a tree.
type entry struct {
	v *value
	n *node
	t *tree // tree of n
}

func (r *ring) add(e entry) { r.entries = append(r.entries, e) }

// remove replaces entry i with a hole.
func (r *ring) remove(i int) {
	r.entries[i] = entry{}
	r.holes++
}

// compact removes the holes if they are more than half of the entries.
func (r *ring) compact() {
	if r.holes*2 <= len(r.entries) {
		return
	}
	kept := r.entries[:0]
	hand := 0
	for i, e := range r.entries {
		if e != (entry{}) {
			kept = append(kept, e)
		}
		if i < r.hand {
			hand = len(kept)
		}
	}
	clear(r.entries[len(kept):])
	if cap(kept) > 4*len(kept)+64 {
		kept = append(make([]entry, 0, 2*len(kept)), kept...)
	}
	r.entries, r.holes, r.hand = kept, 0, hand
}
