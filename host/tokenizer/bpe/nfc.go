package bpe

import (
	"encoding/binary"
	"unicode/utf8"
)

// Composition data of Unicode as Hugging Face's NFC uses it (Unicode 9 or
// older: later code points are unchanged, see scripts/gen_unicode.py).
var (
	decomposed map[rune]string  // full canonical decomposition except Hangul
	composed   map[[2]rune]rune // canonical composition except Hangul

	nfcStage  [codePoints >> 6]uint8 // number of the block
	nfcBlocks [][64]uint16           // canonical combining class and the bits defined below
)

// Bits in addition to the combining class, which is the low byte.
const (
	nfcSecond = 1 << 8  // may compose with a preceding code point
	nfcParts  = 1 << 9  // has a decomposition
	nfcNever  = 1 << 10 // does not occur in NFC
)

// nfcProps returns combining class and bits of r.
func nfcProps(r rune) uint16 { return nfcBlocks[nfcStage[r>>6]][r&63] }

func combining(r rune) uint8 { return uint8(nfcProps(r)) }

// Hangul syllables are composed by arithmetic (Unicode Standard, 3.12).
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7

	hangulLs, hangulVs, hangulTs = 19, 21, 28
	hangulSs                     = hangulLs * hangulVs * hangulTs
)

// fillNFC unpacks the generated tables.
func fillNFC() {
	num := func(raw *[]byte) rune {
		x, k := binary.Uvarint(*raw)
		*raw = (*raw)[k:]
		return rune(x)
	}
	props := map[rune]uint16{}
	eachRun(combiningRuns, func(cp, end int, k uint8) {
		for ; k != 0 && cp < end; cp++ {
			props[rune(cp)] = uint16(k)
		}
	})
	decomposed = map[rune]string{}
	cp := rune(0)
	for raw := tableBytes(decompositions); len(raw) > 0; {
		cp += num(&raw)
		var to []rune
		for n := num(&raw); n > 0; n-- {
			to = append(to, num(&raw))
		}
		decomposed[cp] = string(to)
		props[cp] |= nfcParts | nfcNever
	}
	composed = map[[2]rune]rune{}
	for raw := tableBytes(compositions); len(raw) > 0; {
		a, b := num(&raw), num(&raw)
		c := num(&raw)
		composed[[2]rune{a, b}] = c
		props[b] |= nfcSecond
		props[c] &^= nfcNever
	}
	for c := rune(hangulS); c < hangulS+hangulSs; c++ {
		props[c] |= nfcParts
	}
	for c := rune(hangulV); c < hangulV+hangulVs; c++ {
		props[c] |= nfcSecond
	}
	for c := rune(hangulT + 1); c < hangulT+hangulTs; c++ {
		props[c] |= nfcSecond
	}
	packNFC(props)
}

// packNFC fills the two-stage table.
func packNFC(props map[rune]uint16) {
	blocks := map[rune]*[64]uint16{}
	for c, p := range props {
		b := blocks[c>>6]
		if b == nil {
			b = new([64]uint16)
			blocks[c>>6] = b
		}
		b[c&63] = p
	}
	nfcBlocks = make([][64]uint16, 1, 256)
	seen := map[[64]uint16]uint8{nfcBlocks[0]: 0}
	for i, b := range blocks {
		id, ok := seen[*b]
		if !ok {
			if len(nfcBlocks) > 255 {
				panic("BUG: bpe: too many blocks of composition data")
			}
			id = uint8(len(nfcBlocks))
			seen[*b] = id
			nfcBlocks = append(nfcBlocks, *b)
		}
		nfcStage[i] = id
	}
}

// inertEnd returns the end of the run of code points at i that are in NFC
// regardless of what precedes them.
func inertEnd(s []byte, i int) int {
	n := len(s)
	for i < n {
		if i+8 <= n && binary.LittleEndian.Uint64(s[i:])&0x8080808080808080 == 0 {
			i += 8
			continue
		}
		c := s[i]
		switch {
		case c < 0xCC: // below U+0300
			i++
		case c < 0xE0:
			if i+1 >= n || nfcOK[c&0x1F]>>(s[i+1]&0x3F)&1 == 0 {
				return i
			}
			i += 2
		case c < 0xF0:
			if i+2 >= n || nfcOK[int(c&0x0F)<<6|int(s[i+1]&0x3F)]>>(s[i+2]&0x3F)&1 == 0 {
				return i
			}
			i += 3
		default:
			if i+3 >= n {
				return i
			}
			k := int(c&7)<<12 | int(s[i+1]&0x3F)<<6 | int(s[i+2]&0x3F)
			if k >= len(nfcOK) || nfcOK[k]>>(s[i+3]&0x3F)&1 == 0 {
				return i
			}
			i += 4
		}
	}
	return n
}

// inert reports whether r is in NFC regardless of what precedes it.
func inert(r rune) bool { return nfcOK[r>>6]>>(r&63)&1 != 0 }

// nfcPrefix returns a position at or after i up to which s is in NFC, provided
// it is in NFC up to i: the end of s, or the last inert code point before one
// that is not in NFC.
func nfcPrefix(s []byte, i int) int {
	for {
		e := inertEnd(s, i)
		if e == len(s) {
			return e
		}
		starter, w := utf8.DecodeLastRune(s[:e])
		st := e - w
		if st < i { // no inert code point before it
			starter, st = utf8.RuneError, e
		}
		if i = stretchEnd(s, e, starter); i < 0 {
			return st
		}
	}
}

// stretchEnd returns the end of the code points at i that are not inert and
// follow starter, or -1 if they may not be in NFC.
func stretchEnd(s []byte, i int, starter rune) int {
	last := uint8(0)
	adjacent := true // nothing lies between the starter and s[i:]
	for i < len(s) {
		r, w := utf8.DecodeRune(s[i:])
		if inert(r) {
			return i
		}
		p := nfcProps(r)
		c := uint8(p)
		if p&nfcNever != 0 || c != 0 && c < last {
			return -1
		}
		if p&nfcSecond != 0 && (adjacent || last < c) {
			if nfcProps(starter)&nfcParts != 0 {
				return -1
			}
			if _, ok := compositeOf(starter, r); ok {
				return -1
			}
		}
		if adjacent = c == 0; adjacent {
			starter = r
		}
		last = c
		i += w
	}
	return i
}

// isNFC reports whether s, which is valid UTF-8, is certainly in NFC. It
// returns false for few texts that are in NFC.
func isNFC(s []byte) bool { return nfcPrefix(s, 0) == len(s) }

// appendNFC appends the normal form of s, which is valid UTF-8, to dst. An inert
// code point begins a new stretch, because nothing before it can combine with
// what follows.
func appendNFC(dst, s []byte) []byte {
	var buf []rune
	for i := 0; i < len(s); {
		e := nfcPrefix(s, i)
		dst = append(dst, s[i:e]...)
		if i = e; i == len(s) {
			break
		}
		_, w := utf8.DecodeRune(s[e:])
		for e += w; e < len(s); e += w {
			var r rune
			if r, w = utf8.DecodeRune(s[e:]); inert(r) {
				break
			}
		}
		dst, buf = appendStretch(dst, s[i:e], buf)
		i = e
	}
	return dst
}

// appendStretch decomposes, reorders and composes one stretch; buf is scratch.
func appendStretch(dst, s []byte, buf []rune) ([]byte, []rune) {
	buf = buf[:0]
	for len(s) > 0 {
		r, w := utf8.DecodeRune(s)
		buf = appendDecomposed(buf, r)
		s = s[w:]
	}
	reorder(buf)
	buf = compose(buf)
	for _, r := range buf {
		dst = utf8.AppendRune(dst, r)
	}
	return dst, buf
}

func appendDecomposed(buf []rune, r rune) []rune {
	if i := r - hangulS; i >= 0 && i < hangulSs {
		buf = append(buf, hangulL+i/(hangulVs*hangulTs), hangulV+i%(hangulVs*hangulTs)/hangulTs)
		if t := i % hangulTs; t != 0 {
			buf = append(buf, hangulT+t)
		}
		return buf
	}
	if d, ok := decomposed[r]; ok {
		for _, x := range d {
			buf = append(buf, x)
		}
		return buf
	}
	return append(buf, r)
}

// reorder sorts every run of marks by combining class and keeps the order of
// equal ones. It sorts long runs, which a client may send, in linear time.
func reorder(buf []rune) {
	var sorted []rune
	for i := 0; i < len(buf); {
		j, rises := i, true
		for last := uint8(0); j < len(buf); j++ {
			c := combining(buf[j])
			if c == 0 {
				break
			}
			rises = rises && c >= last
			last = c
		}
		switch {
		case rises:
		case j-i <= 16:
			insertMarks(buf[i:j])
		default:
			sorted = sortMarks(buf[i:j], sorted[:0])
		}
		i = max(j, i+1)
	}
}

func insertMarks(marks []rune) {
	for i := 1; i < len(marks); i++ {
		for k := i; k > 0 && combining(marks[k]) < combining(marks[k-1]); k-- {
			marks[k], marks[k-1] = marks[k-1], marks[k]
		}
	}
}

func sortMarks(marks, scratch []rune) []rune {
	var at [257]int
	for _, r := range marks {
		at[int(combining(r))+1]++
	}
	for c := 1; c < len(at); c++ {
		at[c] += at[c-1]
	}
	scratch = append(scratch, marks...)
	for _, r := range scratch {
		c := combining(r)
		marks[at[c]] = r
		at[c]++
	}
	return scratch
}

// compose combines starters with what follows them, in place.
func compose(buf []rune) []rune {
	out := buf[:0]
	starter := -1    // index in out of the last starter
	last := uint8(0) // combining class of the last code point kept after it
	for _, r := range buf {
		c := combining(r)
		if starter >= 0 && (last < c || last == 0 && starter == len(out)-1) {
			if x, ok := compositeOf(out[starter], r); ok {
				out[starter] = x
				continue
			}
		}
		if c == 0 {
			starter = len(out)
		}
		last = c
		out = append(out, r)
	}
	return out
}

func compositeOf(a, b rune) (rune, bool) {
	if l, v := a-hangulL, b-hangulV; l >= 0 && l < hangulLs && v >= 0 && v < hangulVs {
		return hangulS + (l*hangulVs+v)*hangulTs, true
	}
	if s, t := a-hangulS, b-hangulT; s >= 0 && s < hangulSs && s%hangulTs == 0 && t > 0 && t < hangulTs {
		return a + t, true
	}
	x, ok := composed[[2]rune{a, b}]
	return x, ok
}
