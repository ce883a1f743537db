package bpe

// o200kEnd is the scanner of GPT-4o and gpt-oss, with A = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}],
// B = [\p{Ll}\p{Lm}\p{Lo}\p{M}] and C = (?i:'s|'t|'re|'ve|'m|'ll|'d):
//
//	[^\r\n\p{L}\p{N}]?A*B+C?|[^\r\n\p{L}\p{N}]?A+B*C?|\p{N}{1,3}
//	| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
func o200kEnd(s []byte, i int) int {
	if j := asciiWordEnd(s, i); j > i {
		return j
	}
	k, w := class(s, i)
	if e := o200kWord(s, i, k, w); e > i {
		if e < len(s) && s[e] == '\'' {
			return contractionEnd(s, e)
		}
		return e
	}
	if k&cN != 0 {
		return digitsEnd(s, i+w, 2)
	}
	if k&cS == 0 {
		return slashEnd(s, i+w)
	}
	if j := i + w; s[i] == ' ' && j < len(s) {
		if k, w := class(s, j); k&(cL|cN|cS) == 0 {
			return slashEnd(s, j+w)
		}
	}
	return spaceEnd(s, i)
}

// asciiWordEnd returns the end of the pre-token at i if it consists of ASCII
// capital and small letters after at most one other character, and the next
// character is ASCII and not an apostrophe; otherwise it returns i.
func asciiWordEnd(s []byte, i int) int {
	j := i
	switch lead[s[i]] {
	case 0:
		return i
	case 2:
		j++
	}
	e := j
	for e < len(s) && s[e]-'A' < 26 {
		e++
	}
	for e < len(s) && s[e]-'a' < 26 {
		e++
	}
	if e == j || e < len(s) && (s[e] >= 0x80 || s[e] == '\'') {
		return i
	}
	return e
}

// o200kWord matches the first two branches without C; k and w belong to the
// first code point.
func o200kWord(s []byte, i int, k uint8, w int) int {
	for _, second := range [2]bool{false, true} {
		if k&(cL|cN|cNL) == 0 && i+w < len(s) {
			if e := capWordEnd(s, i+w, second); e > i+w {
				return e
			}
		}
		if k&(cA|cB) != 0 {
			if e := capWordEnd(s, i, second); e > i {
				return e
			}
		}
	}
	return i
}

// capWordEnd matches A*B+ at p, or A+B* if second is set; it returns p if nothing matches.
func capWordEnd(s []byte, p int, second bool) int {
	n := len(s)
	a, both := p, -1 // both: end of the last code point of the A run that is also B
	for a < n {
		k, w := class(s, a)
		if k&cA == 0 {
			break
		}
		a += w
		if k&cB != 0 {
			both = a
		}
	}
	b := a
	for b < n {
		if c := s[b]; c >= 'a' && c <= 'z' {
			b++
			continue
		}
		k, w := class(s, b)
		if k&cB == 0 {
			break
		}
		b += w
	}
	switch {
	case b > a:
		return b
	case second:
		return a
	case both > 0:
		return both
	}
	return p
}

// slashEnd returns the end of [^\s\p{L}\p{N}]*[\r\n/]* at j.
func slashEnd(s []byte, j int) int {
	j = symbolsEnd(s, j)
	for j < len(s) && (s[j] == '\r' || s[j] == '\n' || s[j] == '/') {
		j++
	}
	return j
}
