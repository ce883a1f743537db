package bpe

import (
	"fmt"
	"math/bits"
)

const none = ^uint32(0) // no token

// model holds the merges and the vocabulary in flat tables. It is read-only
// after construction and shared by all encoders of a tokenizer.
type model struct {
	ignoreMerges bool
	maxLen       int         // length in bytes of the longest token
	byteID       [256]uint32 // token of a single byte

	tlen     []uint8  // [ids] bytes of a token
	lt       []half   // [ids] as the left token of a pair: time of its last merge, right part
	rt       []half   // [ids] as the right token of a pair: time, left part
	shorter  []uint32 // [ids] longest proper prefix that merging can produce, or none
	lateRank map[uint32]int32

	pairs     []uint64 // open addressing: left<<40 | right<<20 | rank+1
	pairShift uint8
	filter    []uint64 // one bit per pair hash, checked first
	bytePairs []int32  // [256*256] rank of a pair of ids below 256
	mergeID   []uint32 // [ranks] the token that a merge produces

	trie   []uint64 // double array, see trie.go
	whole  []entry  // open addressing: whole pre-tokens of at most 15 bytes
	wholeM uint64   // len(whole)-1
}

// half is a token's last merge as seen from one side.
type half struct {
	time int32  // rank of the merge, or of the merge it waits for (see valid); -1: a byte
	part uint32 // the other side of the merge, combined with late if it had to wait (see valid)
}

// entry is a pre-token that is one token.
type entry struct {
	lo, hi uint64 // the bytes; the top byte of hi is their number, 0 for a free entry
	id     uint32
}

const (
	filterBits = 22
	pairMul    = 0x9E3779B97F4A7C15
	noRank     = 1<<31 - 1
)

// pairKey packs two ids of at most 20 bits.
func pairKey(l, r uint32) uint64 { return uint64(l)<<20 | uint64(r) }

// merge is one merge, used while loading.
type merge struct{ l, r uint32 }

// readMerges reads the "merges" array, of "a b" or of ["a", "b"]. Merges of
// entries that are not byte-level keep their rank but are otherwise ignored: no
// text contains their parts.
func (m *model) readMerges(r *reader, w *words) ([]merge, error) {
	var ms []merge
	var buf []byte
	err := r.list('[', ']', func() error {
		var a int
		var ok, skip bool
		var err error
		if r.peek() == '[' {
			buf, a, ok, err = r.mergeArray(buf[:0])
		} else {
			buf, a, ok, skip, err = r.mergeText(buf[:0])
		}
		if err != nil || skip {
			return err
		}
		if len(ms) >= maxTokens-1 {
			return unsupported("merges", fmt.Sprintf("more than %d", maxTokens-1))
		}
		if !ok {
			ms, m.mergeID = append(ms, merge{none, none}), append(m.mergeID, none)
			return nil
		}
		l, ok1 := w.find(buf[:a])
		rr, ok2 := w.find(buf[a:])
		t, ok3 := w.find(buf)
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("bpe: merge %d of tokens that are not in the vocabulary", len(ms))
		}
		ms, m.mergeID = append(ms, merge{l, rr}), append(m.mergeID, t)
		return nil
	})
	return ms, err
}

// mergeArray reads ["a", "b"] into dst; a is the length of the first part.
func (r *reader) mergeArray(dst []byte) (out []byte, a int, ok bool, err error) {
	n := 0
	ok = true
	err = r.list('[', ']', func() error {
		var good bool
		if dst, _, good, err = r.byteLevel(dst); err != nil {
			return err
		}
		ok = ok && good
		if n++; n == 1 {
			a = len(dst)
		}
		return nil
	})
	if err == nil && n != 2 {
		err = r.fail("merge without exactly two tokens")
	}
	return dst, a, ok, err
}

// mergeText reads "a b" into dst. skip is set for a "#version" line.
func (r *reader) mergeText(dst []byte) (out []byte, a int, ok, skip bool, err error) {
	s, err := r.text()
	if err != nil {
		return dst, 0, false, false, err
	}
	if len(s) >= 8 && s[:8] == "#version" {
		return dst, 0, false, true, nil
	}
	sp := -1
	for i := range len(s) {
		if s[i] == ' ' {
			if sp >= 0 {
				return dst, 0, false, false, r.fail("merge without exactly two tokens")
			}
			sp = i
		}
	}
	if sp < 0 {
		return dst, 0, false, false, r.fail("merge without exactly two tokens")
	}
	out, ok = appendBytes(dst, s[:sp])
	a = len(out)
	if ok {
		out, ok = appendBytes(out, s[sp+1:])
	}
	return out, a, ok, false, nil
}

// build fills all tables. It releases the hash of w.
func (m *model) build(w *words, ms []merge) error {
	for b := range 256 {
		id, ok := w.find([]byte{byte(b)})
		if !ok {
			return unsupported("vocabulary", fmt.Sprintf("no token for byte %#02x", b))
		}
		m.byteID[b] = id
	}
	m.tlen = w.size
	for _, n := range w.size {
		m.maxLen = max(m.maxLen, int(n))
	}
	m.buildPairs(ms)
	reach := m.buildReach(w, ms)
	m.buildTrie(w, reach)
	m.buildWhole(w, reach)
	w.slots = nil
	m.pack()
	return nil
}

func (m *model) buildPairs(ms []merge) {
	n := 1 << bits.Len(uint(len(ms)*3/2))
	m.pairs = make([]uint64, n)
	m.pairShift = uint8(64 - bits.Len(uint(n-1)))
	m.filter = make([]uint64, 1<<filterBits/64)
	for i, p := range ms {
		if p.l == none {
			continue
		}
		k := pairKey(p.l, p.r)
		h := k * pairMul
		x := h >> m.pairShift
		for m.pairs[x] != 0 && m.pairs[x]>>20 != k {
			x = (x + 1) & uint64(n-1)
		}
		m.pairs[x] = k<<20 | uint64(i+1) // if a pair is listed twice, the last rank wins
		f := h >> (64 - filterBits)
		m.filter[f>>6] |= 1 << (f & 63)
	}
	m.bytePairs = make([]int32, 1<<16)
	for l := range uint32(256) {
		for r := range uint32(256) {
			m.bytePairs[l<<8|r] = m.pairHash(l, r)
		}
	}
}

// pair returns the rank of the merge of l and r, or noRank if there is none.
func (m *model) pair(l, r uint32) int32 {
	if l|r < 256 {
		return m.bytePairs[l<<8|r]
	}
	return m.pairHash(l, r)
}

func (m *model) pairHash(l, r uint32) int32 {
	k := pairKey(l, r)
	h := k * pairMul
	f := h >> (64 - filterBits)
	if m.filter[f>>6]>>(f&63)&1 == 0 {
		return noRank
	}
	return m.pairSlow(k, h)
}

func (m *model) pairSlow(k, h uint64) int32 {
	x := h >> m.pairShift
	for {
		e := m.pairs[x]
		if e>>20 == k {
			return int32(e&(1<<20-1)) - 1
		}
		if e == 0 {
			return noRank
		}
		x = (x + 1) & uint64(len(m.pairs)-1)
	}
}

// buildWhole enters the tokens that can form a whole pre-token.
func (m *model) buildWhole(w *words, reach []bool) {
	count := 0
	for _, n := range w.size {
		if n > 0 && n <= 15 {
			count++
		}
	}
	n := 1 << bits.Len(uint(count*3/2))
	m.whole = make([]entry, n)
	m.wholeM = uint64(n - 1)
	for id, size := range w.size { // low ids first: the most frequent words get the home slots
		if size == 0 || size > 15 || !m.ignoreMerges && !reach[id] {
			continue
		}
		lo, hi := load15(w.at(uint32(id)), 0, int(size))
		h := hash15(lo, hi) & m.wholeM
		for m.whole[h].hi != 0 {
			h = (h + 1) & m.wholeM
		}
		m.whole[h] = entry{lo, hi, uint32(id)}
	}
}

// pack moves the tables into one block of memory.
func (m *model) pack() {
	a := newArena(m.tableBytes())
	move(a, &m.whole)
	move(a, &m.lt)
	move(a, &m.rt)
	move(a, &m.filter)
	move(a, &m.bytePairs)
	move(a, &m.trie)
	move(a, &m.shorter)
	move(a, &m.pairs)
	move(a, &m.mergeID)
}

// tableBytes is the size of the tables in bytes.
func (m *model) tableBytes() int {
	return room[entry](len(m.whole)) + room[half](len(m.lt)) + room[half](len(m.rt)) + room[uint64](len(m.filter)) +
		room[int32](len(m.bytePairs)) +
		room[uint64](len(m.trie)) + room[uint32](len(m.shorter)) + room[uint64](len(m.pairs)) + room[uint32](len(m.mergeID))
}
