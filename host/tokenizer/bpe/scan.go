package bpe

import (
	"encoding/binary"
	"math/bits"
)

// Scanners return the end of the pre-token at a position, which is the end of
// the leftmost match of the family's pattern. They expect valid UTF-8.

// lead classifies an ASCII byte: 1 a letter, 2 a character that may precede
// letters in one pre-token, 0 decided in the slow scanner. punct: neither
// letter, digit nor space.
var lead, punct, space, digit [256]uint8

func fillLeads() {
	for c := range 128 {
		k := ascii[c]
		switch {
		case k&cL != 0:
			lead[c] = 1
		case k&(cN|cNL) == 0 && c != '\'':
			lead[c] = 2
		}
		if k&(cL|cN|cS) == 0 {
			punct[c] = 1
		}
		if k&cS != 0 {
			space[c] = 1
		}
		if k&cN != 0 {
			digit[c] = 1
		}
	}
}

// nonLetters sets the high bit of every byte of x that is not an ASCII letter.
func nonLetters(x uint64) uint64 {
	const hi = 0x8080808080808080
	y := (x | 0x2020202020202020) &^ hi
	return ((y + 0x1F1F1F1F1F1F1F1F) &^ (y + 0x0505050505050505) &^ x & hi) ^ hi
}

// lettersEnd returns the end of the run of \p{L} at j.
func lettersEnd(s []byte, j int) int {
	n := len(s)
	for j < n {
		c := s[j]
		switch {
		case c < 0x80:
			if j+8 <= n {
				l := bits.TrailingZeros64(nonLetters(binary.LittleEndian.Uint64(s[j:]))) >> 3
				j += l
				if l == 8 {
					continue
				}
				if s[j] < 0x80 {
					return j
				}
				continue
			}
			if lead[c] != 1 {
				return j
			}
			j++
		case c < 0xE0:
			if j+1 >= n || blocks[int(stage1[c&0x1F])<<6|int(s[j+1]&0x3F)]&cL == 0 {
				return j
			}
			j += 2
		case c < 0xF0:
			if j+2 >= n || blocks[int(stage1[int(c&0x0F)<<6|int(s[j+1]&0x3F)])<<6|int(s[j+2]&0x3F)]&cL == 0 {
				return j
			}
			j += 3
		default:
			k, w := class(s, j)
			if k&cL == 0 {
				return j
			}
			j += w
		}
	}
	return j
}

// lower returns the byte at i in lower case if it is an ASCII letter, 0 at the end.
func lower(s []byte, i int) byte {
	if i >= len(s) {
		return 0
	}
	c := s[i]
	if c >= 'A' && c <= 'Z' {
		c += 32
	}
	return c
}

// contractionEnd returns the end of (?i:'s|'t|'re|'ve|'m|'ll|'d) at i, or i.
func contractionEnd(s []byte, i int) int {
	switch lower(s, i+1) {
	case 's', 't', 'm', 'd':
		return i + 2
	case 0xC5: // U+017F folds to s
		if i+2 < len(s) && s[i+2] == 0xBF {
			return i + 3
		}
	case 'r', 'v':
		if lower(s, i+2) == 'e' {
			return i + 3
		}
	case 'l':
		if lower(s, i+2) == 'l' {
			return i + 3
		}
	}
	return i
}

// punctEnd returns the end of [^\s\p{L}\p{N}]*[\r\n]* at j.
func punctEnd(s []byte, j int) int {
	n := len(s)
	j = symbolsEnd(s, j)
	for j < n && (s[j] == '\n' || s[j] == '\r') {
		j++
	}
	return j
}

// symbolsEnd returns the end of [^\s\p{L}\p{N}]* at j.
func symbolsEnd(s []byte, j int) int {
	for j < len(s) {
		if c := s[j]; c < 0x80 {
			if punct[c] == 0 {
				break
			}
			j++
			continue
		}
		k, w := class(s, j)
		if k&(cL|cN|cS) != 0 {
			break
		}
		j += w
	}
	return j
}

// spaceEnd returns the end of \s*[\r\n]+|\s+(?!\S)|\s+ at i, which must hold a
// space.
func spaceEnd(s []byte, i int) int {
	n := len(s)
	j, lastNL, last := i, -1, i
	for j < n {
		c := s[j]
		if c < 0x80 {
			if space[c] == 0 {
				break
			}
			last = j
			j++
			if c == '\n' || c == '\r' {
				lastNL = j
			}
			continue
		}
		k, w := class(s, j)
		if k&cS == 0 {
			break
		}
		last = j
		j += w
	}
	if lastNL > 0 {
		return lastNL
	}
	if j == n || last == i {
		return j
	}
	return last
}

// digitsEnd returns the end of \p{N}{0,most} at j.
func digitsEnd(s []byte, j, most int) int {
	for d := 0; d < most && j < len(s); d++ {
		if s[j] < 0x80 {
			if digit[s[j]] == 0 {
				break
			}
			j++
			continue
		}
		k, w := class(s, j)
		if k&cN == 0 {
			break
		}
		j += w
	}
	return j
}

// cl100kEnd is the scanner of Llama-3 (digits 3) and Qwen (digits 1):
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}
//	| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func cl100kEnd(s []byte, i, digits int) int {
	n := len(s)
	c := s[i]
	if c == '\'' {
		if j := contractionEnd(s, i); j > i {
			return j
		}
	}
	k, w := class(s, i)
	j := i + w
	if k&cL != 0 {
		return lettersEnd(s, j)
	}
	if k&cN != 0 {
		return digitsEnd(s, j, digits-1)
	}
	if k&cNL == 0 && j < n {
		if l := lettersEnd(s, j); l > j {
			return l
		}
	}
	if k&cS == 0 {
		return punctEnd(s, j)
	}
	if c == ' ' && j < n {
		if c := s[j]; c < 0x80 {
			if punct[c] != 0 {
				return punctEnd(s, j+1)
			}
		} else if k, w := class(s, j); k&(cL|cN|cS) == 0 {
			return punctEnd(s, j+w)
		}
	}
	return spaceEnd(s, i)
}
