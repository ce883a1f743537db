package bpe

import (
	"encoding/binary"
	"unicode/utf8"
)

// Composition data of Unicode as Hugging Face's NFC has it (Unicode 9 or
// older: later code points are left alone, see scripts/gen_unicode.py).
var (
	combining  map[rune]uint8   // canonical combining class, not 0
	decomposed map[rune]string  // full canonical decomposition but for Hangul
	composed   map[[2]rune]rune // canonical composition but for Hangul
)

// Hangul syllables are composed by arithmetic (Unicode Standard, 3.12).
const (
	hangulS, hangulL, hangulV, hangulT = 0xAC00, 0x1100, 0x1161, 0x11A7

	hangulLs, hangulVs, hangulTs = 19, 21, 28
	hangulSs                     = hangulLs * hangulVs * hangulTs
)

// fillNFC unpacks the generated tables.
func fillNFC() {
	combining = map[rune]uint8{}
	eachRun(combiningRuns, func(cp, end int, k uint8) {
		for ; k != 0 && cp < end; cp++ {
			combining[rune(cp)] = k
		}
	})
	num := func(raw *[]byte) rune {
		x, k := binary.Uvarint(*raw)
		*raw = (*raw)[k:]
		return rune(x)
	}
	decomposed = map[rune]string{}
	cp := rune(0)
	for raw := tableBytes(decompositions); len(raw) > 0; {
		cp += num(&raw)
		var to []rune
		for n := num(&raw); n > 0; n-- {
			to = append(to, num(&raw))
		}
		decomposed[cp] = string(to)
	}
	composed = map[[2]rune]rune{}
	for raw := tableBytes(compositions); len(raw) > 0; {
		a, b := num(&raw), num(&raw)
		composed[[2]rune{a, b}] = num(&raw)
	}
}

// nfcQuick reports that s is certainly in NFC.
func nfcQuick(s []byte) bool {
	i, n := 0, len(s)
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
				return false
			}
			i += 2
		case c < 0xF0:
			if i+2 >= n || nfcOK[int(c&0x0F)<<6|int(s[i+1]&0x3F)]>>(s[i+2]&0x3F)&1 == 0 {
				return false
			}
			i += 3
		default:
			if i+3 >= n {
				return false
			}
			k := int(c&7)<<12 | int(s[i+1]&0x3F)<<6 | int(s[i+2]&0x3F)
			if k >= len(nfcOK) || nfcOK[k]>>(s[i+3]&0x3F)&1 == 0 {
				return false
			}
			i += 4
		}
	}
	return true
}

// inert reports that r is in NFC whatever stands before it.
func inert(r rune) bool { return nfcOK[r>>6]>>(r&63)&1 != 0 }

// appendNFC appends the normal form of s, which is valid UTF-8, to dst.
//
// A code point that is inert begins a new stretch: nothing before it can take
// part in what follows. Stretches that hold only inert code points are copied.
func appendNFC(dst, s []byte) []byte {
	st, plain := 0, true // s[st:i] is the stretch
	var buf []rune
	for i := 0; i < len(s); {
		r, w := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, w = utf8.DecodeRune(s[i:])
		}
		if inert(r) {
			if !plain {
				dst, buf = appendStretch(dst, s[st:i], buf)
				st, plain = i, true
			} else {
				dst = append(dst, s[st:i]...)
				st = i
			}
		} else {
			plain = false
		}
		i += w
	}
	if plain {
		return append(dst, s[st:]...)
	}
	dst, _ = appendStretch(dst, s[st:], buf)
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
// equal ones; long runs, which a client may send, in linear time.
func reorder(buf []rune) {
	var sorted []rune
	for i := 0; i < len(buf); {
		j, rises := i, true
		for last := uint8(0); j < len(buf); j++ {
			c := combining[buf[j]]
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
		for k := i; k > 0 && combining[marks[k]] < combining[marks[k-1]]; k-- {
			marks[k], marks[k-1] = marks[k-1], marks[k]
		}
	}
}

func sortMarks(marks, scratch []rune) []rune {
	var at [257]int
	for _, r := range marks {
		at[int(combining[r])+1]++
	}
	for c := 1; c < len(at); c++ {
		at[c] += at[c-1]
	}
	scratch = append(scratch, marks...)
	for _, r := range scratch {
		c := combining[r]
		marks[at[c]] = r
		at[c]++
	}
	return scratch
}

// compose joins starters with what follows them, in place.
func compose(buf []rune) []rune {
	out := buf[:0]
	starter := -1    // index in out of the last starter
	last := uint8(0) // combining class of the last code point kept after it
	for _, r := range buf {
		c := combining[r]
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
