package kvindex

import "slices"

// naive is the reference model of Index: per holder, what it calls each block it
// holds, and the blocks of each name in the order in which they were named.
type naive struct {
	name []map[uint64]uint64   // [holder] own hash → engine hash
	own  []map[uint64][]uint64 // [holder] engine hash → own hashes, latest last
	refs map[uint64]int        // own hash → holders
}

func newNaive(holders int) *naive {
	n := &naive{refs: map[uint64]int{}}
	for range holders {
		n.name = append(n.name, map[uint64]uint64{})
		n.own = append(n.own, map[uint64][]uint64{})
	}
	return n
}

// Own is the block that the holder's endpoint calls engine, its own tier first.
func (n *naive) Own(h int, engine uint64) (uint64, bool) {
	first := h - h%Tiers
	for _, t := range append([]int{h}, first, first+1, first+2, first+3) {
		if t >= len(n.own) {
			continue
		}
		if l := n.own[t][engine]; len(l) > 0 {
			return l[len(l)-1], true
		}
	}
	return 0, false
}

// Store reports false if the parent is unknown.
func (n *naive) Store(h int, parent uint64, hasParent bool, engine, own []uint64) bool {
	if hasParent {
		if _, ok := n.Own(h, parent); !ok {
			return false
		}
	}
	for i, o := range own {
		if old, held := n.name[h][o]; held {
			n.unname(h, old, o)
		} else {
			n.refs[o]++
		}
		n.name[h][o] = engine[i]
		n.own[h][engine[i]] = append(n.own[h][engine[i]], o)
	}
	return true
}

func (n *naive) unname(h int, engine, own uint64) {
	l := n.own[h][engine]
	i := slices.Index(l, own)
	l = slices.Delete(slices.Clone(l), i, i+1)
	if n.own[h][engine] = l; len(l) == 0 {
		delete(n.own[h], engine)
	}
}

// Remove forgets all blocks that h calls so.
func (n *naive) Remove(h int, engine []uint64) {
	for _, e := range engine {
		for _, o := range n.own[h][e] {
			n.drop(h, o)
		}
		delete(n.own[h], e)
	}
}

func (n *naive) drop(h int, own uint64) {
	delete(n.name[h], own)
	if n.refs[own]--; n.refs[own] == 0 {
		delete(n.refs, own)
	}
}

func (n *naive) RemoveHolder(h int) {
	for o := range n.name[h] {
		n.drop(h, o)
	}
	clear(n.own[h])
}

// Depth returns the leading blocks of hashes that h holds.
func (n *naive) Depth(h int, hashes []uint64) uint32 {
	for i, o := range hashes {
		if _, ok := n.name[h][o]; !ok {
			return uint32(i)
		}
	}
	return uint32(len(hashes))
}

// DepthTiers returns the leading blocks of hashes that the endpoint of h holds
// in its tier or a faster one.
func (n *naive) DepthTiers(h int, hashes []uint64) uint32 {
	for i, o := range hashes {
		held := false
		for t := h - h%Tiers; t <= h; t++ {
			_, ok := n.name[t][o]
			held = held || ok
		}
		if !held {
			return uint32(i)
		}
	}
	return uint32(len(hashes))
}

// Blocks returns the distinct blocks and the (block, holder) pairs.
func (n *naive) Blocks() (distinct, pairs int64) {
	for _, r := range n.refs {
		pairs += int64(r)
	}
	return int64(len(n.refs)), pairs
}

// mixHash derives hashes of synthetic chains.
func mixHash(a, b uint64) uint64 {
	v := a*0x9E3779B97F4A7C15 + b + 0x632BE59BD9B4E019
	v = (v ^ v>>30) * 0xBF58476D1CE4E5B9
	v = (v ^ v>>27) * 0x94D049BB133111EB
	return v ^ v>>31
}

// engHash is the engine's hash of the block we call own, where engines agree.
func engHash(own uint64) uint64 { return mixHash(own, 0xE) }

func engs(owns []uint64) []uint64 {
	out := make([]uint64, len(owns))
	for i := range owns {
		out[i] = engHash(owns[i])
	}
	return out
}

// reversed is the order in which engines evict a chain.
func reversed(v []uint64) []uint64 {
	v = slices.Clone(v)
	slices.Reverse(v)
	return v
}
