package bpe

// split encodes one pre-token. It takes the longest match first and steps back
// when merging could not have produced two adjacent tokens. The encoding of
// every prefix is unique, so a position from which no token continues never
// needs another visit, and the walk takes time proportional to the length.
func (e *encoder) split(dst []uint32, w []byte) []uint32 {
	m := e.m
	if m.ignoreMerges && len(w) > 15 && len(w) <= m.maxLen {
		if id := m.exact(w); id != none {
			return append(dst, id)
		}
	}
	st := len(dst)
	var dead []uint64 // bit set: no token continues from this position
	var one [2]uint64
	pos := 0
	last := none
	v := m.longest(w)
	for {
		tok := v & tokenMask
		end := pos + int(v>>24)
		if (dead == nil || dead[end>>6]>>(end&63)&1 == 0) && (last == none || m.valid(last, tok, noRank)) {
			dst = append(dst, tok)
			if end == len(w) {
				return dst
			}
			last, pos = tok, end
			v = m.longest(w[pos:])
			continue
		}
		if p := m.shorter[tok]; p != none {
			v = p | uint32(m.tlen[p])<<24
			continue
		}
		if dead == nil {
			dead = e.deadBits(one[:], len(w))
		}
		dead[pos>>6] |= 1 << (pos & 63)
		v = last | uint32(m.tlen[last])<<24
		pos -= int(v >> 24)
		dst = dst[:len(dst)-1]
		last = none
		if len(dst) > st {
			last = dst[len(dst)-1]
		}
	}
}

// deadBits returns zeroed bits for the positions of n bytes.
func (e *encoder) deadBits(short []uint64, n int) []uint64 {
	k := n>>6 + 1
	if k <= len(short) {
		return short[:k]
	}
	if cap(e.dead) < k {
		e.dead = make([]uint64, k+k/2)
	}
	d := e.dead[:k]
	clear(d)
	return d
}

// mergeShort merges a pre-token of at most 15 bytes pair by pair: one word holds
// the rank and position of a pair, and the smallest word is merged next.
func (m *model) mergeShort(dst []uint32, w []byte) []uint32 {
	const inf = 1<<32 - 1
	var id, rk [16]uint32
	var nx, pv [16]uint8
	n := len(w)
	if n > 15 {
		return dst
	}
	id[0] = m.byteID[w[0]]
	for i := 0; i+1 < n; i++ {
		id[i+1] = m.byteID[w[i+1]]
		rk[i] = m.rankKey(id[i], id[i+1], i)
		nx[i] = uint8(i + 1)
		pv[i+1] = uint8(i)
	}
	rk[n-1] = inf
	nx[n-1] = uint8(n)
	for {
		b := rk[0]
		for _, r := range rk[1:n] {
			b = min(b, r)
		}
		if b == inf {
			break
		}
		i := int(b & 15)
		j := int(nx[i] & 15)
		t := m.mergeID[b>>4]
		id[i] = t
		rk[j] = inf
		rk[i] = inf
		q := nx[j]
		nx[i] = q
		if int(q) < n {
			pv[q&15] = uint8(i)
			rk[i] = m.rankKey(t, id[q&15], i)
		}
		if i > 0 {
			p := int(pv[i] & 15)
			rk[p] = m.rankKey(id[p], t, p)
		}
	}
	for i := 0; i < n; i = int(nx[i&15]) {
		dst = append(dst, id[i&15])
	}
	return dst
}

func (m *model) rankKey(l, r uint32, i int) uint32 {
	if x := m.pair(l, r); x != noRank {
		return uint32(x)<<4 | uint32(i)
	}
	return 1<<32 - 1
}
