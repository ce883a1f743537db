package chat

import "bytes"

// The body was validated by llmapi, so these find extents only.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string at b[i] == '"', or -1.
func skipString(b []byte, i int) int {
	for j := i + 1; ; j++ {
		k := bytes.IndexByte(b[j:], '"')
		if k < 0 {
			return -1
		}
		j += k
		e := j
		for b[e-1] == '\\' {
			e--
		}
		if (j-e)&1 == 0 {
			return j + 1
		}
	}
}

// skipValue returns the end of the value at b[i], or -1.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 || depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	if depth > 0 {
		return -1
	}
	return i
}

// eachItem calls f with the start of every item of the array b; f returns the
// item's end, -1 to stop. It returns whether all went well.
func eachItem(b []byte, f func(i int) int) bool {
	i := skipSpace(b, 1)
	if i < len(b) && b[i] == ']' {
		return true
	}
	for i < len(b) {
		e := f(i)
		if e < 0 {
			return false
		}
		if i = skipSpace(b, e); i >= len(b) {
			return false
		}
		if b[i] == ']' {
			return true
		}
		if b[i] != ',' {
			return false
		}
		i = skipSpace(b, i+1)
	}
	return false
}

// isEmptyList reports whether raw, a JSON value, is a list without items.
func isEmptyList(raw []byte) bool { return raw[0] == '[' && raw[skipSpace(raw, 1)] == ']' }

func isNull(raw []byte) bool { return string(raw) == "null" }
