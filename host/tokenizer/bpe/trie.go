package bpe

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// The trie of all tokens is a double array with one word per node:
//
//	bits 0–7 label, 8 used, 9 a reachable token ends here, 10–31 base of the
//	children, 32–55 token that ends here, 56–63 its bytes
//
// The child of a node for byte c lies at base^c. The first 256 slots are the
// children of the root; the next 256 stay empty and are the base of leaves.

const (
	trieUsed  = 1 << 8
	trieToken = 1 << 9
	leafBase  = 256
	tokenMask = 1<<24 - 1 // applies to the upper half
)

func trieBase(u uint64) uint64 { return u >> 10 & (1<<22 - 1) }

// trieEntry is a token with its first bytes as a number, for sorting.
type trieEntry struct {
	key uint64
	id  uint32
}

type trieBuilder struct {
	w        *words
	reach    []bool
	m        *model
	entries  []trieEntry // sorted by bytes
	slots    []uint64
	usedBase []bool
	free     []int // free slots of the blocks that are still open
	stack    []trieJob
	labels   []uint8
	starts   []int // entries at which the children begin
}

// trieJob is a node whose children are not placed yet.
type trieJob struct {
	lo, hi, depth int    // range of its entries, bytes on the path to it
	slot          int    // -1: root
	prefix        uint32 // longest reachable token on the path to it
}

// buildTrie fills trie and shorter.
func (m *model) buildTrie(w *words, reach []bool) {
	t := &trieBuilder{w: w, reach: reach, m: m}
	t.slots, t.usedBase = make([]uint64, 512), make([]bool, 512)
	m.shorter = make([]uint32, len(w.size))
	for id, n := range w.size {
		m.shorter[id] = none
		if n > 0 && (reach[id] || m.ignoreMerges) {
			var first [8]byte
			copy(first[:], w.at(uint32(id)))
			t.entries = append(t.entries, trieEntry{binary.BigEndian.Uint64(first[:]), uint32(id)})
		}
	}
	slices.SortFunc(t.entries, func(a, b trieEntry) int {
		if c := cmp.Compare(a.key, b.key); c != 0 {
			return c
		}
		return slices.Compare(w.at(a.id), w.at(b.id))
	})
	t.stack = append(t.stack, trieJob{0, len(t.entries), 0, -1, none})
	for len(t.stack) > 0 {
		x := t.stack[len(t.stack)-1]
		t.stack = t.stack[:len(t.stack)-1]
		t.children(x)
	}
	m.trie = t.slots
}

// children places the children of x.
func (t *trieBuilder) children(x trieJob) {
	t.labels, t.starts = t.labels[:0], t.starts[:0]
	for i := x.lo; i < x.hi; i++ {
		w := t.w.at(t.entries[i].id)
		if len(w) == x.depth {
			continue
		}
		if c := w[x.depth]; len(t.labels) == 0 || t.labels[len(t.labels)-1] != c {
			t.labels = append(t.labels, c)
			t.starts = append(t.starts, i)
		}
	}
	if len(t.labels) == 0 {
		t.slots[x.slot] |= leafBase << 10
		return
	}
	base := 0
	if x.slot >= 0 {
		base = t.place(x.slot)
		t.slots[x.slot] |= uint64(base) << 10
	}
	t.usedBase[base] = true
	for k := len(t.labels) - 1; k >= 0; k-- {
		end := x.hi
		if k+1 < len(t.labels) {
			end = t.starts[k+1]
		}
		slot := base ^ int(t.labels[k])
		prefix := t.fill(slot, t.labels[k], t.entries[t.starts[k]].id, x.depth+1, x.prefix)
		t.stack = append(t.stack, trieJob{t.starts[k], end, x.depth + 1, slot, prefix})
	}
	if len(t.free) > 8192 {
		t.free = slices.DeleteFunc(t.free, func(f int) bool { return t.slots[f] != 0 })
	}
}

// fill writes the node at slot; id is the first token under it. It returns the
// longest reachable token on the path to the node.
func (t *trieBuilder) fill(slot int, label uint8, id uint32, depth int, prefix uint32) uint32 {
	u := uint64(label) | trieUsed
	if n := int(t.w.size[id]); n == depth {
		u |= (uint64(id) | uint64(n)<<24) << 32
		if t.reach[id] {
			u |= trieToken
			t.m.shorter[id] = prefix
			prefix = id
		}
	} else {
		u |= uint64(none) << 32
	}
	t.slots[slot] = u
	return prefix
}

// fits reports whether the labels fit with the first one at slot f.
func (t *trieBuilder) fits(f int) bool {
	b := f ^ int(t.labels[0])
	if t.slots[f] != 0 || t.usedBase[b] {
		return false
	}
	for _, c := range t.labels[1:] {
		if t.slots[b^int(c)] != 0 {
			return false
		}
	}
	return true
}

// place finds a base for the labels, preferably in the cache line of the parent,
// then in its block of 256, then in any open block.
func (t *trieBuilder) place(parent int) int {
	first := int(t.labels[0])
	if parent >= 512 {
		for f := parent &^ 7; f <= parent|7; f++ {
			if t.fits(f) {
				return f ^ first
			}
		}
		for f := parent &^ 255; f <= parent|255; f++ {
			if t.fits(f) {
				return f ^ first
			}
		}
	}
	for {
		for _, f := range t.free {
			if t.fits(f) {
				return f ^ first
			}
		}
		old := len(t.slots) - 16*256
		t.free = slices.DeleteFunc(t.free, func(f int) bool { return t.slots[f] != 0 || f < old })
		for i := range 256 {
			t.free = append(t.free, len(t.slots)+i)
		}
		t.slots = append(t.slots, make([]uint64, 256)...)
		t.usedBase = append(t.usedBase, make([]bool, 256)...)
	}
}

// longest returns the longest reachable token that is a prefix of w, with its
// length in the top byte.
func (m *model) longest(w []byte) uint32 {
	trie := m.trie
	u := trie[w[0]]
	last := u
	for _, b := range w[1:] {
		c := uint64(b)
		x := trieBase(u) ^ c
		if x >= uint64(len(trie)) {
			break
		}
		u = trie[x]
		if u&0x1FF != c|trieUsed {
			break
		}
		if u&trieToken != 0 {
			last = u
		}
	}
	return uint32(last >> 32)
}

// exact returns the token equal to w, reachable or not, or none.
func (m *model) exact(w []byte) uint32 {
	u := m.trie[w[0]]
	for _, b := range w[1:] {
		c := uint64(b)
		u = m.trie[trieBase(u)^c]
		if u&0x1FF != c|trieUsed {
			return none
		}
	}
	if v := uint32(u >> 32); v != none {
		return v & tokenMask
	}
	return none
}
