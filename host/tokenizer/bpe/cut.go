package bpe

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

func indexFrom(s []byte, i int, c byte) int {
	if k := bytes.IndexByte(s[i:], c); k >= 0 {
		return i + k
	}
	return len(s)
}

// Cut returns the greatest position c of text that it can determine such that
// for every continuation x of text
//
//	ids(text+x) = ids(text[:c]) + ids(text[c:]+x)
//
// or 0 if it finds none. text itself must begin at such a position (or be the
// whole prompt). There are two kinds of cut. One is just before the extended
// start of an added token with normalized=false and without single_word, if no
// unfinished added token before it can cover it. The other is in text between a
// letter or digit and a line end, where every family's pattern ends a pre-token
// and no normalizer composes. Cut does not modify text and is safe for
// concurrent use.
func (t *Tokenizer) Cut(text []byte) int {
	limit := t.unfinishedAt(text)
	cut, end := 0, 0
	afterWord := -1 // end of the last single_word match, including discarded ones
	f := t.raw.find(text)
	for {
		m, ok := f.match()
		if !ok || m.at > limit {
			break
		}
		// Skip a match whose start lies in space that the previous match took, and
		// a match that a single_word match examines.
		if !m.token.SingleWord && m.start >= end && m.start != afterWord {
			cut = m.start
		}
		if m.token.SingleWord {
			afterWord = m.to
		}
		end = max(end, m.end)
	}
	if p := t.lineCut(text, end, limit); p > 0 {
		return p
	}
	return cut
}

// unfinishedAt returns the earliest position at which an added token may begin
// that more text could complete or lengthen, or len(text) if there is none.
func (t *Tokenizer) unfinishedAt(text []byte) int {
	for p := max(0, len(text)-t.raw.maxLen+1); p < len(text); p++ {
		if t.raw.first[text[p]] && t.raw.unfinished(text[p:]) {
			return p
		}
	}
	return len(text)
}

// lineCut returns the last position in (end, limit) between a letter or digit
// and a line end, or 0 if there is none.
func (t *Tokenizer) lineCut(text []byte, end, limit int) int {
	if !t.lineCuts {
		return 0
	}
	for p := limit - 1; p > end; p-- {
		for p-end > 8 && !lineEnds(binary.LittleEndian.Uint64(text[p-7:])) {
			p -= 8
		}
		if c := text[p]; c != '\n' && c != '\r' {
			continue
		}
		_, w := utf8.DecodeLastRune(text[end:p])
		if k, _ := class(text[:p], p-w); k&(cL|cN) != 0 {
			return p
		}
	}
	return 0
}

// lineEnds reports whether one of the 8 bytes of x is a line feed or a carriage return.
func lineEnds(x uint64) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	a, b := x^'\n'*ones, x^'\r'*ones
	return ((a-ones)&^a|(b-ones)&^b)&highs != 0
}

// lineCutsHold reports whether the added tokens that are matched after
// normalization keep cuts at line ends exact: none may extend across a line
// end, strip space after itself or examine its neighbours.
func lineCutsHold(tokens []addedToken) bool {
	for _, t := range tokens {
		if t.RStrip || t.SingleWord {
			return false
		}
		for p := 1; p < len(t.Content); p++ {
			if c := t.Content[p]; c != '\n' && c != '\r' {
				continue
			}
			s := []byte(t.Content)
			_, w := utf8.DecodeLastRune(s[:p])
			if k, _ := class(s[:p], p-w); k&(cL|cN) != 0 {
				return false
			}
		}
	}
	return true
}

// Starts calls f with the start of every added token of text that Cut can cut
// at, in ascending order. These are the best positions to split a long text.
func (t *Tokenizer) Starts(text []byte, f func(at int)) {
	find := t.raw.find(text)
	last := -1
	for {
		m, ok := find.match()
		if !ok {
			return
		}
		if !m.token.SingleWord && m.start > last {
			f(m.start)
			last = m.start
		}
	}
}
