package kvindex

// naive is the reference model: maps, one per holder. It answers what any index must answer.
type naive struct {
	Held []map[uint64]bool // [holder] own hashes held
	refs map[uint64]int    // own hash → holders
	own  map[uint64]uint64 // engine hash → own hash, of blocks somebody holds
}

// newNaive returns an empty model.
func newNaive(holders int) *naive {
	n := &naive{Held: make([]map[uint64]bool, holders), refs: map[uint64]int{}, own: map[uint64]uint64{}}
	for i := range n.Held {
		n.Held[i] = map[uint64]bool{}
	}
	return n
}

// Store reports false if the parent is unknown.
func (n *naive) Store(h int, parent uint64, hasParent bool, engs, owns []uint64) bool {
	if hasParent {
		if _, ok := n.own[parent]; !ok {
			return false
		}
	}
	for i, o := range owns {
		if !n.Held[h][o] {
			n.Held[h][o] = true
			n.refs[o]++
			n.own[engs[i]] = o
		}
	}
	return true
}

// Remove forgets blocks of one holder.
func (n *naive) Remove(h int, engs []uint64) {
	for _, e := range engs {
		o, ok := n.own[e]
		if !ok || !n.Held[h][o] {
			continue
		}
		delete(n.Held[h], o)
		if n.refs[o]--; n.refs[o] == 0 {
			delete(n.refs, o)
			delete(n.own, e)
		}
	}
}

// RemoveHolder forgets a holder. eng maps own hashes back to engine hashes.
func (n *naive) RemoveHolder(h int, eng func(uint64) uint64) {
	for o := range n.Held[h] {
		n.Remove(h, []uint64{eng(o)})
	}
}

// Depth returns the leading blocks of hashes that h holds.
func (n *naive) Depth(h int, hashes []uint64) uint32 {
	for i, o := range hashes {
		if !n.Held[h][o] {
			return uint32(i)
		}
	}
	return uint32(len(hashes))
}

// Blocks returns the distinct blocks and the (block, holder) pairs.
func (n *naive) Blocks() (distinct, memberships int) {
	for _, r := range n.refs {
		memberships += r
	}
	return len(n.refs), memberships
}

// mixHash is the hash of the synthetic chains.
func mixHash(a, b uint64) uint64 {
	v := a*0x9E3779B97F4A7C15 + b + 0x632BE59BD9B4E019
	v = (v ^ v>>30) * 0xBF58476D1CE4E5B9
	v = (v ^ v>>27) * 0x94D049BB133111EB
	return v ^ v>>31
}

// engHash is the engine's hash of the block we call own (the engines agree with each other).
func engHash(own uint64) uint64 { return mixHash(own, 0xE) }
