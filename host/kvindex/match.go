package kvindex

import "math/bits"

// maxAttempts is how often a lookup that meets a writer begins again before it
// takes the writer lock.
const maxAttempts = 8

// Match sets depth[h], for every holder h in candidates, to the number of
// leading blocks of hashes that h holds. hashes are own hashes, in order.
// candidates is a bit set of holders ([Words] or fewer words; bits below
// Holders only); depth is indexed by holder, and entries of holders that are
// not candidates stay as they are.
//
// It takes no lock, allocates nothing and is safe beside any other call.
func (x *Index) Match(hashes []uint64, candidates []uint64, depth []uint32) {
	x.matchRetry(hashes, candidates, depth, false)
}

// MatchTiers is Match with tiers that add up: depth[HolderOf(id, t)] is the
// number of leading blocks that endpoint id holds in tier t or a faster one,
// each block in whichever. What tier t adds to the depth of tier t-1 is what
// the engine would have to load from tier t.
func (x *Index) MatchTiers(hashes []uint64, candidates []uint64, depth []uint32) {
	x.matchRetry(hashes, candidates, depth, true)
}

func (x *Index) matchRetry(hashes, candidates []uint64, depth []uint32, tiers bool) {
	for range maxAttempts {
		if x.match(hashes, candidates, depth, tiers) {
			return
		}
		x.retries.Add(1)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.match(hashes, candidates, depth, tiers) {
		panic("BUG: kvindex: lookup failed under the lock")
	}
}

// match returns false if a writer interfered; depth may be partly written.
func (x *Index) match(hashes, candidates []uint64, depth []uint32, tiers bool) bool {
	var buf [maxWords]uint64
	remaining := buf[:copy(buf[:x.sets.words], candidates)]
	epoch := x.epoch.Load()
	var prev *run
	var prevVer, prevSet, same uint32
	pos := 0
	for pos < len(hashes) {
		_, r, ver, base, n, ok := x.heads.lookup(x, hashes[pos])
		if !ok {
			return false
		}
		// The previous run must be unchanged after the next step was found: a
		// boundary that moved in between would have hidden the next run.
		if prev != nil && prev.ver.Load() != prevVer {
			return false
		}
		if r == nil {
			break
		}
		m := x.common(base, n, hashes[pos:])
		set := r.set.Load()
		if set == 0 {
			return false // the run was freed
		}
		any := x.narrow(remaining, set, pos, depth, tiers)
		if r.ver.Load() != ver {
			return false
		}
		r.touch(epoch)
		if !any {
			return true
		}
		pos += int(m)
		if set == prevSet {
			same++
		}
		prev, prevVer, prevSet = r, ver, set
	}
	if same >= longWalk && x.walk.state.Load() == walkFree {
		x.note(hashes)
	}
	for i, w := range remaining {
		emit(w, i, pos, depth)
	}
	return true
}

// narrow takes the holders out of remaining that are not in the set, after setting
// their depths to pos, and reports whether any are left.
func (x *Index) narrow(remaining []uint64, set uint32, pos int, depth []uint32, tiers bool) bool {
	var any uint64
	if set <= singles {
		word, bit := int(set-1)>>6, uint64(1)<<((set-1)&63)
		if tiers {
			bit = slower(bit)
		}
		for i, a := range remaining {
			var s uint64
			if i == word {
				s = bit
			}
			emit(a&^s, i, pos, depth)
			remaining[i] = a & s
			any |= a & s
		}
		return any != 0
	}
	words := x.sets.get(set)
	for i, a := range remaining {
		if a == 0 {
			continue
		}
		s := words[i].Load()
		if tiers {
			s = slower(s)
		}
		if d := a &^ s; d != 0 {
			emit(d, i, pos, depth)
		}
		remaining[i] = a & s
		any |= a & s
	}
	return any != 0
}

// slower adds to every holder of a word the slower tiers of its endpoint.
func slower(w uint64) uint64 {
	w |= w << 1 & 0xEEEEEEEEEEEEEEEE
	return w | w<<2&0xCCCCCCCCCCCCCCCC
}

// emit sets the depths of the holders in word i of a bit set.
func emit(word uint64, i, pos int, depth []uint32) {
	for ; word != 0; word &= word - 1 {
		depth[i<<6+bits.TrailingZeros64(word)] = uint32(pos)
	}
}
