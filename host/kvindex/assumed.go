package kvindex

import (
	"container/heap"
	"sync"
)

// Assumed models the caches of endpoints that publish no events: what was served
// there is assumed to be held until the endpoint's capacity pushed it out, least
// recently used first and the end of a chain before its start, as engines evict.
//
// A holder's blocks form a forest of segments: consecutive blocks of one chain
// that were used last at the same time. Chained hashes make comparing cheap: two
// chains that agree at one depth agree everywhere before it. A request therefore
// costs by segments, not by blocks, except for blocks that are stored.
//
// All methods may be called concurrently; slices are not kept.
type Assumed struct {
	budget  int64 // bytes, of all holders
	holders []assumedHolder

	mu    sync.Mutex // guards bytes; taken inside a holder's lock
	bytes int64
}

// assumedHolder is the model of one endpoint's cache.
type assumedHolder struct {
	mu       sync.RWMutex // guards the rest
	capacity int          // blocks, 0 = not set: nothing is assumed
	blocks   int
	clock    uint64              // uses so far
	heads    map[uint64]*stretch // by hash of the first block
	leaves   leafHeap            // segments without children, the oldest use on top
}

// stretch is a segment of blocks with one time of last use. A segment's children
// were never used later than it.
type stretch struct {
	hashes   []uint64
	parent   *stretch
	children int
	used     uint64 // holder's clock at the last use
	at       int    // in leaves, -1 while there are children
}

// leafHeap is a heap of leaves by last use. Leaves of one time do not exist: a
// use ends in one leaf.
type leafHeap []*stretch

func (l leafHeap) Len() int           { return len(l) }
func (l leafHeap) Less(i, j int) bool { return l[i].used < l[j].used }
func (l leafHeap) Swap(i, j int)      { l[i], l[j] = l[j], l[i]; l[i].at, l[j].at = i, j }

// Push implements heap.Interface.
func (l *leafHeap) Push(x any) {
	s := x.(*stretch)
	s.at = len(*l)
	*l = append(*l, s)
}

// Pop implements heap.Interface.
func (l *leafHeap) Pop() any {
	old := *l
	s := old[len(old)-1]
	old[len(old)-1] = nil
	*l = old[:len(old)-1]
	s.at = -1
	return s
}

// What a segment and a block take, measured on chains of 512 blocks.
const (
	segmentBytes = 256
	assumedBytes = 8
)

// NewAssumed returns a model of holders that takes at most budget bytes.
func NewAssumed(holders int, budget int64) *Assumed {
	return &Assumed{budget: budget, holders: make([]assumedHolder, holders)}
}

// SetCapacity says how many blocks a holder's cache has. Until it is called
// nothing is assumed of the holder.
func (a *Assumed) SetCapacity(holder, blocks int) {
	h := &a.holders[holder]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.capacity = blocks
	a.shrink(h, blocks)
}

// Capacity returns what SetCapacity said, 0 before.
func (a *Assumed) Capacity(holder int) int {
	h := &a.holders[holder]
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.capacity
}

// Clear forgets all of a holder's blocks: its cache is known to be empty.
func (a *Assumed) Clear(holder int) {
	h := &a.holders[holder]
	h.mu.Lock()
	defer h.mu.Unlock()
	a.shrink(h, 0)
}

// Bytes returns the memory in use.
func (a *Assumed) Bytes() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes
}

// Blocks returns how many blocks a holder is assumed to hold.
func (a *Assumed) Blocks(holder int) int {
	h := &a.holders[holder]
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.blocks
}

// Touch says that a holder has just served a prompt with these block hashes. Of a
// chain longer than the capacity the start is kept, as engines do.
func (a *Assumed) Touch(holder int, hashes []uint64) {
	h := &a.holders[holder]
	h.mu.Lock()
	defer h.mu.Unlock()
	hashes = hashes[:min(len(hashes), h.capacity)]
	if len(hashes) == 0 {
		return
	}
	if h.heads == nil {
		h.heads = map[uint64]*stretch{}
	}
	h.clock++
	tip, depth := a.use(h, hashes)
	if depth < len(hashes) {
		a.extend(h, tip, hashes[depth:])
	}
	a.shrink(h, h.capacity)
	for a.over() && h.blocks > len(hashes) {
		a.evict(h, h.blocks-len(hashes))
	}
}

// use makes the known start of a chain the most recently used and returns its
// last segment, nil if nothing is known, with its depth in blocks.
func (a *Assumed) use(h *assumedHolder, hashes []uint64) (tip *stretch, depth int) {
	for depth < len(hashes) {
		s := h.heads[hashes[depth]]
		if s == nil {
			break
		}
		n := commonLen(s.hashes, hashes[depth:])
		if n < len(s.hashes) {
			a.split(h, s, n)
		}
		s.used = h.clock
		if s.at >= 0 {
			heap.Fix(&h.leaves, s.at)
		}
		tip = s
		depth += n
	}
	return tip, depth
}

// extend stores blocks after tip (nil: a new chain). They and tip were used last
// at the same time, so a tip without children grows.
func (a *Assumed) extend(h *assumedHolder, tip *stretch, hashes []uint64) {
	h.blocks += len(hashes)
	if tip != nil && tip.children == 0 {
		tip.hashes = append(tip.hashes, hashes...)
		a.add(int64(len(hashes)) * assumedBytes)
		return
	}
	s := &stretch{hashes: append([]uint64(nil), hashes...), parent: tip, used: h.clock}
	if tip != nil {
		tip.children++
	}
	h.heads[hashes[0]] = s
	heap.Push(&h.leaves, s)
	a.add(segmentBytes + int64(len(hashes))*assumedBytes)
}

// split cuts s after n blocks: s keeps the start, the rest keeps the place of s
// among the leaves, the time of its last use, and the children.
func (a *Assumed) split(h *assumedHolder, s *stretch, n int) {
	rest := &stretch{hashes: append([]uint64(nil), s.hashes[n:]...), parent: s, children: s.children, used: s.used, at: s.at}
	s.hashes = s.hashes[:n:n]
	if rest.at >= 0 {
		h.leaves[rest.at] = rest
	} else {
		for _, c := range h.heads { // rare: a branch above others
			if c.parent == s {
				c.parent = rest
			}
		}
	}
	s.children, s.at = 1, -1
	h.heads[rest.hashes[0]] = rest
	a.add(segmentBytes)
}

// shrink evicts until a holder has at most most blocks.
func (a *Assumed) shrink(h *assumedHolder, most int) {
	for h.blocks > most {
		a.evict(h, h.blocks-most)
	}
}

// evict takes up to n blocks off the end of the least recently used leaf.
func (a *Assumed) evict(h *assumedHolder, n int) {
	s := h.leaves[0]
	n = min(n, len(s.hashes))
	h.blocks -= n
	a.add(-int64(n) * assumedBytes)
	if n < len(s.hashes) {
		s.hashes = s.hashes[:len(s.hashes)-n]
		return
	}
	delete(h.heads, s.hashes[0])
	heap.Pop(&h.leaves)
	a.add(-segmentBytes)
	if p := s.parent; p != nil {
		if p.children--; p.children == 0 {
			heap.Push(&h.leaves, p)
		}
	}
}

func (a *Assumed) add(n int64) {
	a.mu.Lock()
	a.bytes += n
	a.mu.Unlock()
}

func (a *Assumed) over() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bytes > a.budget
}

// Match sets depth[i], for every holder i of the bitset candidates, to the number
// of leading hashes it is assumed to hold.
func (a *Assumed) Match(hashes, candidates []uint64, depth []uint32) {
	for w, word := range candidates {
		for i := w * 64; word != 0; i, word = i+1, word>>1 {
			if word&1 != 0 && i < len(a.holders) {
				depth[i] = uint32(a.holders[i].match(hashes))
			}
		}
	}
}

func (h *assumedHolder) match(hashes []uint64) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	depth := 0
	for depth < len(hashes) {
		s := h.heads[hashes[depth]]
		if s == nil {
			break
		}
		n := commonLen(s.hashes, hashes[depth:])
		depth += n
		if n < len(s.hashes) {
			break
		}
	}
	return depth
}

// commonLen returns how many leading hashes a and b share, by bisection: they
// are chained, so equality at one place means equality before it. a[0] == b[0].
func commonLen(a, b []uint64) int {
	n := min(len(a), len(b))
	if a[n-1] == b[n-1] {
		return n
	}
	lo, hi := 1, n-1 // the first lo agree, place hi does not
	for lo < hi {
		mid := (lo + hi) / 2
		if a[mid] == b[mid] {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
