package bpe

// A token is reachable if merging its bytes produces it. Its last merge is then
// unique, and so is its whole tree of merges; valid walks two such trees.

// late marks a part whose merge had to wait, see valid.
const late = 1 << 31

// buildReach fills lt and rt and reports which tokens are reachable.
func (m *model) buildReach(w *words, ms []merge) []bool {
	n := len(w.size)
	m.lt, m.rt = make([]half, n), make([]half, n)
	reach := make([]bool, n)
	for i := range reach {
		m.lt[i], m.rt[i] = half{-1, none}, half{-1, none}
	}
	for _, id := range m.byteID {
		reach[id] = true
	}
	for i, p := range ms {
		t := m.mergeID[i]
		if p.l == none || reach[t] || !reach[p.l] || !reach[p.r] {
			continue
		}
		rank := int32(i)
		if m.lt[p.l].time >= rank || m.lt[p.r].time >= rank {
			continue
		}
		if m.valid(p.l, p.r, rank) {
			reach[t] = true
			m.lt[t], m.rt[t] = half{rank, p.r}, half{rank, p.l}
		}
	}
	m.addWaiting(w, reach)
	return reach
}

// valid reports whether merging the bytes of l and r with the merges of rank
// below limit leaves exactly l and r. It undoes the merges of both, latest
// first, and checks at each state whether a pair across the boundary would have
// merged earlier.
//
// The time of a merge is its rank, or the rank of a later-ranked merge that it
// had to wait for (it then follows that merge immediately). Such waiting merges
// are rare (Llama-3: 107 tokens) and carry late in part.
func (m *model) valid(l, r uint32, limit int32) bool {
	for {
		if l|r < 256 {
			if m.bytePairs[l<<8|r] < limit {
				return false
			}
		} else {
			k := pairKey(l, r)
			h := k * pairMul
			f := h >> (64 - filterBits)
			if m.filter[f>>6]>>(f&63)&1 != 0 && m.pairSlow(k, h) < limit {
				return false
			}
		}
		a, b := m.lt[l], m.rt[r]
		if a.time&b.time < 0 {
			return true
		}
		// No branch here: which of the two is undone is effectively random.
		limit = max(a.time, b.time+1)
		g := uint32((b.time - a.time) >> 31) // all ones when l is undone
		l0, r0 := l, r
		l ^= (l ^ a.part) & g
		r ^= (r ^ b.part) &^ g
		if (l|r)&late != 0 {
			l &^= late
			r &^= late
			// No later-ranked merge took place while this part was at the
			// boundary, so the rank itself applies.
			if g != 0 && m.lt[l].time == a.time {
				limit = m.lateRank[l0]
			} else if g == 0 && m.rt[r].time == b.time {
				limit = m.lateRank[r0] + 1
			}
		}
	}
}

// addWaiting merges the bytes of the tokens not reached so far and adds those
// that result in the whole token.
func (m *model) addWaiting(w *words, reach []bool) {
	m.lateRank = map[uint32]int32{}
	found := map[uint32]lastMerge{}
	var h mergeHeap
	for id, n := range w.size {
		if reach[id] || n < 2 {
			continue
		}
		ids, last := h.merge(m, w.at(uint32(id)))
		if len(ids) == 1 && ids[0] == uint32(id) {
			found[uint32(id)] = last
		}
	}
	var add func(id uint32) int32
	add = func(id uint32) int32 {
		if s, ok := found[id]; ok && !reach[id] {
			t := max(s.rank, add(s.l), add(s.r))
			reach[id] = true
			l, r := s.l, s.r
			if t != s.rank {
				l, r = l|late, r|late
				m.lateRank[id] = s.rank
			}
			m.lt[id], m.rt[id] = half{t, r}, half{t, l}
		}
		return m.lt[id].time
	}
	for id := range found {
		add(id)
	}
}

// lastMerge is the merge that produced a token.
type lastMerge struct {
	l, r uint32
	rank int32
}

// mergeHeap merges the bytes of a word by rank, then from left to right, as BPE
// is defined. It is used only while loading.
type mergeHeap struct {
	ids        []uint32
	prev, next []int32
	heap       []candidate
}

type candidate struct {
	rank, pos int32
	l, r      uint32
}

func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.pos < b.pos
}

// merge returns the tokens of w, in memory of h, and the last merge.
func (h *mergeHeap) merge(m *model, w []byte) (ids []uint32, last lastMerge) {
	h.ids, h.prev, h.next, h.heap = h.ids[:0], h.prev[:0], h.next[:0], h.heap[:0]
	for i, b := range w {
		h.ids, h.prev, h.next = append(h.ids, m.byteID[b]), append(h.prev, int32(i-1)), append(h.next, int32(i+1))
	}
	for i := range w {
		h.push(m, int32(i))
	}
	for len(h.heap) > 0 {
		x := h.pop()
		i := x.pos
		if h.ids[i] != x.l {
			continue
		}
		j := h.next[i]
		if int(j) >= len(w) || h.ids[j] != x.r {
			continue
		}
		last = lastMerge{x.l, x.r, x.rank}
		h.ids[i], h.ids[j] = m.mergeID[x.rank], none
		h.next[i] = h.next[j]
		if n := h.next[j]; int(n) < len(w) {
			h.prev[n] = i
		}
		if h.prev[i] >= 0 {
			h.push(m, h.prev[i])
		}
		h.push(m, i)
	}
	k := 0
	for _, id := range h.ids {
		if id != none {
			h.ids[k] = id
			k++
		}
	}
	return h.ids[:k], last
}

func (h *mergeHeap) push(m *model, i int32) {
	j := h.next[i]
	if int(j) >= len(h.ids) {
		return
	}
	r := m.pair(h.ids[i], h.ids[j])
	if r == noRank {
		return
	}
	q := append(h.heap, candidate{r, i, h.ids[i], h.ids[j]})
	for k := len(q) - 1; k > 0; {
		p := (k - 1) / 2
		if !q[k].before(q[p]) {
			break
		}
		q[k], q[p] = q[p], q[k]
		k = p
	}
	h.heap = q
}

func (h *mergeHeap) pop() candidate {
	q := h.heap
	x := q[0]
	q[0] = q[len(q)-1]
	q = q[:len(q)-1]
	for i := 0; ; {
		c := 2*i + 1
		if c >= len(q) {
			break
		}
		if c+1 < len(q) && q[c+1].before(q[c]) {
			c++
		}
		if !q[c].before(q[i]) {
			break
		}
		q[i], q[c] = q[c], q[i]
		i = c
	}
	h.heap = q
	return x
}
