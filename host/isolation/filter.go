package isolation

import (
	"sync"
	"sync/atomic"
)

// A filter is a set of block hashes in two Bloom filters that take turns: what is
// added goes into the younger one, and when that is full the older is emptied and
// used again. All bits of a hash lie in one cache line (Putze, Sanders, Singler:
// Cache-, Hash- and Space-Efficient Bloom Filters, 2007). With 16 bits for a hash
// and [probes] of them set, about one hash in 300 is taken for known that is not.
type filter struct {
	lines int // in each half, a power of two

	mu    sync.Mutex // serialises allocation and turns
	turns atomic.Pointer[halves]
}

type halves struct{ young, old *half }

// half is one Bloom filter.
type half struct {
	words []atomic.Uint64 // [8 × lines]
	n     atomic.Int64    // hashes added
}

const (
	lineWords = 8 // a cache line
	probes    = 6
	// perLine is how many hashes a line is for: 16 bits each.
	perLine = lineWords * 64 / 16
)

// init sizes the filter for at most bytes in both halves.
func (f *filter) init(bytes int64) {
	f.lines = 1
	for int64(f.lines)*2*2*lineWords*8 <= bytes {
		f.lines *= 2
	}
}

// spread mixes a hash for the bits within its line (splitmix64).
func spread(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// masks returns the bits of a hash in the words of its line.
func masks(hash uint64) (m [lineWords]uint64) {
	bits := spread(hash)
	for range probes {
		m[bits>>6&(lineWords-1)] |= 1 << (bits & 63)
		bits >>= 9
	}
	return m
}

func (h *half) line(hash uint64) []atomic.Uint64 {
	at := int(hash>>8) & (len(h.words)/lineWords - 1) * lineWords
	return h.words[at : at+lineWords]
}

func (h *half) has(hash uint64) bool {
	if h == nil {
		return false
	}
	line := h.line(hash)
	for i, m := range masks(hash) {
		if m != 0 && line[i].Load()&m != m {
			return false
		}
	}
	return true
}

// add reports whether the hash was new.
func (h *half) add(hash uint64) (fresh bool) {
	line := h.line(hash)
	for i, m := range masks(hash) {
		if m != 0 && line[i].Load()&m != m {
			line[i].Or(m)
			fresh = true
		}
	}
	return fresh
}

// has reports whether a hash was added, or is taken for one.
func (t *halves) has(hash uint64) bool { return t.young.has(hash) || t.old.has(hash) }

// known returns how many leading hashes of a chain were added. Whoever adds a
// block has added all before it, so it is found by halving.
func (f *filter) known(chain []uint64) int {
	t := f.turns.Load()
	if t == nil {
		return 0
	}
	low, high := 0, len(chain)
	for low < high {
		mid := int(uint(low+high+1) / 2)
		if t.has(chain[mid-1]) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// add adds hashes.
func (f *filter) add(hashes []uint64) {
	if len(hashes) == 0 {
		return
	}
	t := f.turns.Load()
	if t == nil {
		t = f.turn(nil)
	}
	fresh := int64(0)
	for _, x := range hashes {
		if t.young.add(x) {
			fresh++
		}
	}
	if t.young.n.Add(fresh) > int64(f.lines)*perLine {
		f.turn(t)
	}
}

// turn begins a young half after seen, unless that was done already.
func (f *filter) turn(seen *halves) *halves {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.turns.Load()
	if t != seen {
		return t
	}
	next := &halves{young: f.newHalf()}
	if t != nil {
		next.old = t.young
	}
	f.turns.Store(next)
	return next
}

func (f *filter) newHalf() *half { return &half{words: make([]atomic.Uint64, f.lines*lineWords)} }

// added returns a number that grows with every new hash, but for some at a turn.
func (f *filter) added() int64 {
	t := f.turns.Load()
	if t == nil {
		return 0
	}
	n := t.young.n.Load()
	if t.old != nil {
		n += t.old.n.Load()
	}
	return n
}

func (f *filter) bytes() (n int64) {
	t := f.turns.Load()
	if t == nil {
		return 0
	}
	n = int64(len(t.young.words)) * 8
	if t.old != nil {
		n += int64(len(t.old.words)) * 8
	}
	return n
}
