package kvindex

import (
	"math/bits"
	"sync/atomic"
)

const (
	singles  = 4096 // holders at most: 1,024 endpoints in four tiers
	maxWords = singles / 64
	setChunk = 1024
	setDir   = 1 << 12
)

// sets interns holder sets. Id 0 is the empty set, 1..singles are sets of one holder (no storage),
// larger ids are bit sets kept once and counted. Words are read by readers, who confirm the run's
// version afterwards: a set can only be reused after every run left it.
type sets struct {
	words  int
	zob    []uint64 // [holders] random words; a set's key is the xor of its holders'
	chunks [setDir]atomic.Pointer[[]atomic.Uint64]
	meta   []setMeta // [set id - singles - 1]
	free   []uint32
	ids    map[uint64]uint32 // key → id
	bytes  int64
}

type setMeta struct {
	key  uint64
	refs uint32
	n    uint32 // holders
}

func (s *sets) init(holders int) {
	if holders > singles {
		panic("kvindex: too many holders")
	}
	s.words = (holders + 63) / 64
	s.ids = make(map[uint64]uint32)
	s.zob = make([]uint64, holders)
	z := uint64(1)
	for i := range s.zob {
		z += 0x9E3779B97F4A7C15
		v := (z ^ z>>30) * 0xBF58476D1CE4E5B9
		v = (v ^ v>>27) * 0x94D049BB133111EB
		s.zob[i] = v ^ v>>31
	}
}

func (s *sets) single(h int) uint32 { return uint32(h) + 1 }

func (s *sets) get(id uint32) []atomic.Uint64 {
	i := int(id - singles - 1)
	c := *s.chunks[i/setChunk].Load()
	o := i % setChunk * s.words
	return c[o : o+s.words]
}

func (s *sets) count(id uint32) int {
	switch {
	case id == 0:
		return 0
	case id <= singles:
		return 1
	}
	return int(s.meta[id-singles-1].n)
}

func (s *sets) has(id uint32, h int) bool {
	if id <= singles {
		return id == uint32(h)+1
	}
	return s.get(id)[h>>6].Load()>>(h&63)&1 != 0
}

func (s *sets) with(id uint32, h int) uint32 {
	if s.has(id, h) {
		return id
	}
	if id == 0 {
		return s.single(h)
	}
	return s.change(id, h, s.count(id)+1)
}

func (s *sets) without(id uint32, h int) uint32 {
	if !s.has(id, h) {
		return id
	}
	return s.change(id, h, s.count(id)-1)
}

// change returns the set that differs from id in holder h and has n holders.
func (s *sets) change(id uint32, h int, n int) uint32 {
	var w [maxWords]uint64
	key := s.zob[h]
	if id <= singles {
		w[(id-1)>>6] = 1 << ((id - 1) & 63)
		key ^= s.zob[id-1]
	} else {
		for i, words := 0, s.get(id); i < s.words; i++ {
			w[i] = words[i].Load()
		}
		key ^= s.meta[id-singles-1].key
	}
	w[h>>6] ^= 1 << (h & 63)
	if n == 0 {
		return 0
	}
	if n == 1 {
		for i := range w {
			if w[i] != 0 {
				return uint32(i<<6+bits.TrailingZeros64(w[i])) + 1
			}
		}
	}
	if got, ok := s.ids[key]; ok {
		same := true
		for i, words := 0, s.get(got); i < s.words; i++ {
			same = same && words[i].Load() == w[i]
		}
		if same {
			return got
		}
	}
	var nid uint32
	if k := len(s.free); k > 0 {
		nid = s.free[k-1]
		s.free = s.free[:k-1]
	} else {
		if i := len(s.meta); i%setChunk == 0 {
			c := make([]atomic.Uint64, setChunk*s.words)
			s.chunks[i/setChunk].Store(&c)
			s.bytes += int64(setChunk) * (int64(s.words)*8 + 16 + 4 + 40)
		}
		s.meta = append(s.meta, setMeta{})
		nid = uint32(len(s.meta)) + singles
	}
	s.meta[nid-singles-1] = setMeta{key: key, n: uint32(n)}
	words := s.get(nid)
	for i := range s.words {
		words[i].Store(w[i])
	}
	if _, taken := s.ids[key]; !taken { // else: two sets, one key; the later one is not shared
		s.ids[key] = nid
	}
	return nid
}

func (s *sets) retain(id uint32) uint32 {
	if id > singles {
		s.meta[id-singles-1].refs++
	}
	return id
}

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
