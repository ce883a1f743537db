package bpe

// gpt2End is the scanner of ByteLevel with its own pattern:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func gpt2End(s []byte, i int) int {
	n := len(s)
	c := s[i]
	if lead[c] == 1 {
		return lettersEnd(s, i+1)
	}
	if c == ' ' && i+1 < n && lead[s[i+1]] == 1 {
		return lettersEnd(s, i+2)
	}
	if c == '\'' {
		if j := smallContractionEnd(s, i); j > i {
			return j
		}
	}
	j := i
	if c == ' ' && i+1 < n {
		j++
	}
	k, w := class(s, j)
	if k&cS != 0 {
		return blankEnd(s, i)
	}
	const kinds = cL | cN | cS
	want := k & kinds
	if want == cL {
		return lettersEnd(s, j+w)
	}
	for j += w; j < n; j += w {
		if k, w = class(s, j); k&kinds != want {
			break
		}
	}
	return j
}

// smallContractionEnd returns the end of 's|'t|'re|'ve|'m|'ll|'d at i, or i.
func smallContractionEnd(s []byte, i int) int {
	if i+1 >= len(s) {
		return i
	}
	switch s[i+1] {
	case 's', 't', 'm', 'd':
		return i + 2
	case 'r', 'v':
		if i+2 < len(s) && s[i+2] == 'e' {
			return i + 3
		}
	case 'l':
		if i+2 < len(s) && s[i+2] == 'l' {
			return i + 3
		}
	}
	return i
}

// blankEnd returns the end of \s+(?!\S)|\s+ at i, which must hold a space.
func blankEnd(s []byte, i int) int {
	last, j := i, i
	for j < len(s) {
		k, w := class(s, j)
		if k&cS == 0 {
			break
		}
		last = j
		j += w
	}
	if j == len(s) || last == i {
		return j
	}
	return last
}
