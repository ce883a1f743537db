package kvindex

import (
	"iter"
	"math/bits"
	"sync/atomic"
)

const (
	singles  = MaxHolders
	maxWords = singles / 64
	setChunk = 128
	setDir   = 1 << 14 // 2 Mi sets
)

// sets interns holder sets. Id 0 is the empty set, 1..singles are sets of one
// holder (no storage), larger ids are bit sets kept once and counted. Readers
// read the words and confirm the run's version afterwards: a set is reused only
// after every run left it.
type sets struct {
	words  int
	zob    []uint64                                // [holders] random words; a set's key is the xor of its holders'
	chunks [setDir]atomic.Pointer[[]atomic.Uint64] // [setChunk × words] bits; readers
	meta   []setMeta                               // [set id - singles - 1]
	free   []uint32
	ids    map[uint64]uint32 // key → id
	bytes  int64
}

type setMeta struct {
	key  uint64
	refs uint32
	n    uint32 // holders
}

// setBytes is what a set takes beside its words: meta, free list, map entry.
const setBytes = 16 + 4 + 40

func (s *sets) init(holders int) {
	s.words = (holders + 63) / 64
	s.ids = make(map[uint64]uint32)
	s.zob = make([]uint64, holders)
	z := uint64(1)
	for i := range s.zob { // splitmix64 (Steele, Lea and Flood, 2014)
		z += 0x9E3779B97F4A7C15
		v := (z ^ z>>30) * 0xBF58476D1CE4E5B9
		v = (v ^ v>>27) * 0x94D049BB133111EB
		s.zob[i] = v ^ v>>31
	}
}

// single is the set of one holder.
func single(h int) uint32 { return uint32(h) + 1 }

// get returns the words of a set of two or more.
func (s *sets) get(id uint32) []atomic.Uint64 {
	i := int(id - singles - 1)
	c := *s.chunks[i/setChunk].Load()
	o := i % setChunk * s.words
	return c[o : o+s.words]
}

// count is the number of holders of a set.
func (s *sets) count(id uint32) int {
	switch {
	case id == 0:
		return 0
	case id <= singles:
		return 1
	}
	return int(s.meta[id-singles-1].n)
}

// has reports whether h is in the set.
func (s *sets) has(id uint32, h int) bool {
	if id <= singles {
		return id == single(h)
	}
	return s.get(id)[h>>6].Load()>>(h&63)&1 != 0
}

// all yields the holders of a set.
func (s *sets) all(id uint32) iter.Seq[int] {
	return func(yield func(int) bool) {
		if id <= singles {
			if id != 0 {
				yield(int(id - 1))
			}
			return
		}
		words := s.get(id)
		for i := range words {
			for w := words[i].Load(); w != 0; w &= w - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// with returns the set that also has h.
func (s *sets) with(id uint32, h int) uint32 {
	switch {
	case s.has(id, h):
		return id
	case id == 0:
		return single(h)
	}
	return s.change(id, h, s.count(id)+1)
}

// without returns the set that does not have h.
func (s *sets) without(id uint32, h int) uint32 {
	if !s.has(id, h) {
		return id
	}
	return s.change(id, h, s.count(id)-1)
}

// change returns the set that differs from id, which is not empty, in holder h
// and has n holders. A set that is new has no references yet.
func (s *sets) change(id uint32, h int, n int) uint32 {
	if n == 0 {
		return 0
	}
	var buf [maxWords]uint64
	w := buf[:s.words]
	key := s.zob[h]
	if id <= singles {
		w[(id-1)>>6] = 1 << ((id - 1) & 63)
		key ^= s.zob[id-1]
	} else {
		for i, words := 0, s.get(id); i < len(w); i++ {
			w[i] = words[i].Load()
		}
		key ^= s.meta[id-singles-1].key
	}
	w[h>>6] ^= 1 << (h & 63)
	if n == 1 {
		for i := range w {
			if w[i] != 0 {
				return single(i<<6 + bits.TrailingZeros64(w[i]))
			}
		}
	}
	got, taken := s.ids[key]
	if taken && s.equal(got, w) {
		return got
	}
	nid := s.add(key, n, w)
	if !taken { // else: two sets, one key; the later one is not shared
		s.ids[key] = nid
	}
	return nid
}

func (s *sets) equal(id uint32, w []uint64) bool {
	for i, words := 0, s.get(id); i < len(w); i++ {
		if words[i].Load() != w[i] {
			return false
		}
	}
	return true
}

// add stores a set of n holders.
func (s *sets) add(key uint64, n int, w []uint64) (id uint32) {
	if k := len(s.free); k > 0 {
		id = s.free[k-1]
		s.free = s.free[:k-1]
	} else {
		if i := len(s.meta); i%setChunk == 0 {
			c := make([]atomic.Uint64, setChunk*s.words)
			s.chunks[i/setChunk].Store(&c)
			s.bytes += setChunk * (int64(s.words)*8 + setBytes)
		}
		s.meta = append(s.meta, setMeta{})
		id = uint32(len(s.meta)) + singles
	}
	s.meta[id-singles-1] = setMeta{key: key, n: uint32(n)}
	for i, words := 0, s.get(id); i < len(w); i++ {
		words[i].Store(w[i])
	}
	return id
}

// spare is how many sets can be added without more memory.
func (s *sets) spare() int { return len(s.free) + (setChunk-len(s.meta)%setChunk)%setChunk }

// retain counts one more user of a set and returns it.
func (s *sets) retain(id uint32) uint32 {
	if id > singles {
		s.meta[id-singles-1].refs++
	}
	return id
}

// release counts one user less. A set without users may be reused at once.
func (s *sets) release(id uint32) {
	if id <= singles {
		return
	}
	m := &s.meta[id-singles-1]
	if m.refs--; m.refs == 0 {
		if s.ids[m.key] == id {
			delete(s.ids, m.key)
		}
		s.free = append(s.free, id)
	}
}
