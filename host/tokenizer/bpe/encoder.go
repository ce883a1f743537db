package bpe

import (
	"encoding/binary"
	"math/bits"
)

const (
	shortBits = 14 // log2 of the number of sets in the short cache
	longBits  = 13 // log2 of the number of entries in the long cache
	longBytes = 48 // length of the longest cached pre-token
	shortIDs  = 4
	longIDs   = 18
	spareIDs  = 20 // room for one cached pre-token, written whole

	countShift = 60 // of shortWord.hi: number of ids
)

// shortWord caches the ids of a pre-token of at most 15 bytes that has at most
// shortIDs tokens.
type shortWord struct {
	lo, hi uint64 // as returned by load15, with the number of ids in the top four bits
	ids    [shortIDs]uint32
}

// shortSet is one cache line. The more recent entry comes first.
type shortSet [2]shortWord

// longWord is two cache lines. It caches any other pre-token of at most longBytes.
type longWord struct {
	key  [longBytes / 8]uint64
	n, k uint32 // n bytes (0: empty), k ids
	ids  [longIDs]uint32
}

// encoder holds the state that goroutines cannot share: two caches (2 MiB) and
// scratch space. The caches have a fixed size, and an entry leaves only when
// another one replaces it.
type encoder struct {
	m      *model
	family Family
	short  []shortSet
	long   []longWord
	dead   []uint64
	norm   []byte // scratch of the normalizer
}

func newEncoder(m *model, f Family) *encoder {
	a := newArena(room[shortSet](1<<shortBits) + room[longWord](1<<longBits))
	return &encoder{m: m, family: f, short: take[shortSet](a, 1<<shortBits), long: take[longWord](a, 1<<longBits)}
}

// reset empties the caches.
func (e *encoder) reset() {
	clear(e.short)
	clear(e.long)
}

// maskLo and maskHi keep the first n of 15 bytes in two words.
var maskLo, maskHi = func() (lo, hi [16]uint64) {
	for n := range 16 {
		lo[n], hi[n] = ^uint64(0), 0
		if n < 8 {
			lo[n] = 1<<(8*n) - 1
		} else {
			hi[n] = 1<<(8*(n-8)) - 1
		}
	}
	return lo, hi
}()

// load15 returns the n bytes at i (n at most 15) as two words, with the length
// in the top byte of the second.
func load15(s []byte, i, n int) (lo, hi uint64) {
	if i+16 <= len(s) {
		b := s[i : i+16]
		return binary.LittleEndian.Uint64(b) & maskLo[n&15], binary.LittleEndian.Uint64(b[8:])&maskHi[n&15] | uint64(n)<<56
	}
	var b [16]byte
	copy(b[:], s[i:i+n])
	return binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:]) | uint64(n)<<56
}

func hash15(lo, hi uint64) uint64 {
	a, b := bits.Mul64(lo^0x9E3779B97F4A7C15, hi^0xD6E8FEB86659FD93)
	return a ^ b
}

// grow returns dst with its length set to its capacity and with room for at
// least one cached pre-token after k; left is the number of bytes not yet encoded.
func grow(dst []uint32, k, left int) []uint32 {
	dst = append(dst[:k], make([]uint32, max(2*spareIDs, k/2, left/3))...)
	return dst[:cap(dst)]
}

// encode appends the ids of s, which is valid UTF-8 in the tokenizer's normal
// form, and ignores added tokens. It may write to memory of dst beyond its
// length.
func (e *encoder) encode(dst []uint32, s []byte) []uint32 {
	switch e.family {
	case Llama3:
		return e.encodeCL100k(dst, s, 3)
	case Qwen:
		return e.encodeCL100k(dst, s, 1)
	case O200k:
		return e.encodeScan(dst, s, o200kEnd)
	default:
		return e.encodeScan(dst, s, gpt2End)
	}
}

// encodeScan is encode with any scanner.
func (e *encoder) encodeScan(dst []uint32, s []byte, scan func([]byte, int) int) []uint32 {
	k := len(dst)
	dst = dst[:cap(dst)]
	for i := 0; i < len(s); {
		if len(dst)-k < spareIDs {
			dst = grow(dst, k, len(s)-i)
		}
		j := scan(s, i)
		if w := j - i; w <= 15 {
			lo, hi := load15(s, i, w)
			dst, k = e.shortToken(dst, k, s[i:j], lo, hi)
		} else {
			dst, k = e.longToken(dst, k, s[i:j])
		}
		i = j
	}
	return dst[:k]
}

// encodeCL100k is encode with cl100kEnd. It handles the most common cases
// (letters after at most one other character, punctuation) inline.
func (e *encoder) encodeCL100k(dst []uint32, s []byte, digits int) []uint32 {
	whole, mask := e.m.whole, e.m.wholeM
	n := len(s)
	k := len(dst)
	dst = dst[:cap(dst)]
	for i := 0; i < n; {
		if len(dst)-k < spareIDs {
			dst = grow(dst, k, n-i)
		}
		var j int
		c := s[i]
		if ld := lead[c]; ld != 0 && i+9 <= n {
			l := bits.TrailingZeros64(nonLetters(binary.LittleEndian.Uint64(s[i+1:]))) >> 3
			j = i + 1 + l
			if l == 8 || s[j] >= 0x80 {
				j = lettersEnd(s, j)
			}
			if ld == 2 && j == i+1 {
				if punct[c] != 0 {
					j = punctEnd(s, j)
				} else if c == ' ' && punct[s[j]] != 0 {
					j = punctEnd(s, j+1)
				} else {
					j = cl100kEnd(s, i, digits)
				}
			}
		} else {
			j = cl100kEnd(s, i, digits)
		}
		w := j - i
		if w > 15 {
			dst, k = e.longToken(dst, k, s[i:j])
			i = j
			continue
		}
		lo, hi := load15(s, i, w)
		t := &whole[hash15(lo, hi)&mask]
		if t.lo == lo && t.hi == hi { // usually the home slot
			dst[k] = t.id
			k++
		} else {
			dst, k = e.shortToken(dst, k, s[i:j], lo, hi)
		}
		i = j
	}
	return dst[:k]
}

// shortToken appends the ids of a pre-token of at most 15 bytes at dst[k]. dst
// has room for spareIDs ids there, and its length equals its capacity.
func (e *encoder) shortToken(dst []uint32, k int, w []byte, lo, hi uint64) ([]uint32, int) {
	m := e.m
	hash := hash15(lo, hi)
	h := hash & m.wholeM
	for t := &m.whole[h]; t.hi != 0; t = &m.whole[h] {
		if t.lo == lo && t.hi == hi {
			dst[k] = t.id
			return dst, k + 1
		}
		h = (h + 1) & m.wholeM
	}
	set := &e.short[hash>>(64-shortBits)]
	q := &set[0]
	if q.lo != lo || q.hi&(1<<countShift-1) != hi {
		q = &set[1]
	}
	if q.lo == lo && q.hi&(1<<countShift-1) == hi {
		*(*[shortIDs]uint32)(dst[k:]) = q.ids
		return dst, k + int(q.hi>>countShift)
	}
	l := &e.long[hash>>(64-longBits)]
	key := [longBytes / 8]uint64{lo, hi}
	if int(l.n) == len(w) && l.key == key {
		*(*[longIDs]uint32)(dst[k:]) = l.ids
		return dst, k + int(l.k)
	}
	st := k
	if (lo|hi)&0x8080808080808080 == 0 {
		dst = m.mergeShort(dst[:k], w)
	} else {
		dst = e.split(dst[:k], w)
	}
	k = len(dst)
	if k-st <= shortIDs {
		set[1] = set[0]
		set[0] = shortWord{lo: lo, hi: hi | uint64(k-st)<<countShift}
		copy(set[0].ids[:], dst[st:k])
	} else {
		l.store(&key, len(w), dst[st:k])
	}
	return dst[:cap(dst)], k
}

// store makes l the entry of a pre-token of n bytes with at most longIDs
// tokens. It does not store others.
func (l *longWord) store(key *[longBytes / 8]uint64, n int, ids []uint32) {
	if len(ids) <= longIDs {
		l.key, l.n, l.k = *key, uint32(n), uint32(len(ids))
		copy(l.ids[:], ids)
	}
}

// longToken is shortToken for more than 15 bytes.
func (e *encoder) longToken(dst []uint32, k int, w []byte) ([]uint32, int) {
	if len(w) > longBytes {
		dst = e.split(dst[:k], w)
		return dst[:cap(dst)], len(dst)
	}
	var key [longBytes / 8]uint64
	h := uint64(len(w))
	x := 0
	for ; x < len(w)>>3; x++ {
		key[x] = binary.LittleEndian.Uint64(w[8*x:])
		a, b := bits.Mul64(h^key[x], pairMul)
		h = a ^ b
	}
	if r := len(w) & 7; r != 0 {
		key[x] = binary.LittleEndian.Uint64(w[len(w)-8:]) >> (64 - 8*r)
		a, b := bits.Mul64(h^key[x], pairMul)
		h = a ^ b
	}
	l := &e.long[h>>(64-longBits)]
	if int(l.n) == len(w) && l.key == key {
		*(*[longIDs]uint32)(dst[k:]) = l.ids
		return dst, k + int(l.k)
	}
	st := k
	dst = e.split(dst[:k], w)
	l.store(&key, len(w), dst[st:])
	return dst[:cap(dst)], len(dst)
}
