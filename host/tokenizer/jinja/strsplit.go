package jinja

import (
	"strings"
	"unicode/utf8"
)

// split implements str.split and str.rsplit.
func (r *run) split(s Value, sep, maxSplit Value, right bool) Value {
	n := -1
	if maxSplit.isInt() {
		n = int(maxSplit.n)
	}
	r.charge(len(s.s))
	var out []Value
	switch {
	case sep.k != kindUndefined && sep.k != kindNone:
		p := r.needText(sep)
		if p == "" {
			fail("empty separator")
		}
		if right {
			out = splitLast(s, p, n)
		} else {
			out = splitFirst(s, p, n)
		}
	case right && n >= 0:
		unsupported("rsplit at white space with a limit")
	default:
		out = r.fields(s, n)
	}
	r.chargeValues(len(out))
	return List(out)
}

// splitFirst splits at the first n separators, or at all of them if n < 0.
func splitFirst(s Value, sep string, n int) []Value {
	var out []Value
	i := 0
	for n != 0 {
		j := strings.Index(s.s[i:], sep)
		if j < 0 {
			break
		}
		out = append(out, s.sub(i, i+j))
		i += j + len(sep)
		n--
	}
	return append(out, s.sub(i, len(s.s)))
}

// splitLast splits at the last n separators.
func splitLast(s Value, sep string, n int) []Value {
	var out []Value
	end := len(s.s)
	for n != 0 {
		j := strings.LastIndex(s.s[:end], sep)
		if j < 0 {
			break
		}
		out = append(out, s.sub(j+len(sep), end))
		end = j
		n--
	}
	out = append(out, s.sub(0, end))
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// fields splits at white space, at most n times if n >= 0.
func (r *run) fields(s Value, n int) []Value {
	var out []Value
	i := 0
	for {
		rest := r.strip(s.sub(i, len(s.s)), IsSpace, true, false)
		i = len(s.s) - len(rest.s)
		if rest.s == "" {
			return out
		}
		if n == 0 {
			return append(out, rest)
		}
		j := strings.IndexFunc(rest.s, IsSpace)
		if j < 0 {
			j = len(rest.s)
		}
		out = append(out, s.sub(i, i+j))
		i += j
		n--
	}
}

// isLineEnd reports whether str.splitlines splits at the character.
func isLineEnd(c rune) bool {
	return c >= 0x0a && c <= 0x0d || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}

func (r *run) splitLines(s Value, a []Value, kw []keyword) Value {
	if argument(a, kw, 0, "keepends").Truth() {
		unsupported("splitlines with line ends")
	}
	r.charge(len(s.s))
	var out []Value
	for i := 0; i < len(s.s); {
		j := strings.IndexFunc(s.s[i:], isLineEnd)
		if j < 0 {
			out = append(out, s.sub(i, len(s.s)))
			break
		}
		out = append(out, s.sub(i, i+j))
		i += j
		if strings.HasPrefix(s.s[i:], "\r\n") {
			i += 2
			continue
		}
		_, w := utf8.DecodeRuneInString(s.s[i:])
		i += w
	}
	r.chargeValues(len(out))
	return List(out)
}

// replace implements str.replace, n times if n >= 0. The result for a whole text
// is cached with it; any other result has no identity, because no later look-up
// would find it.
func (r *run) replace(s Value, old, new string, n int) Value {
	t := s.text()
	if t != nil && len(s.s) == len(t.S) && n < 0 && old != "" {
		if !t.contains(r, old) {
			return s
		}
		return t.replaced(r, old, new)
	}
	r.charge(len(s.s))
	if !strings.Contains(s.s, old) {
		return s
	}
	return Str(r.replaceString(s.s, old, new, n))
}

// replaceString is strings.Replace within the limits of the render.
func (r *run) replaceString(s, old, new string, n int) string {
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	if grow := int64(len(new)-len(old)) * int64(count); grow > r.bytes {
		throw(ErrBytes)
	}
	out := strings.Replace(s, old, new, n)
	r.charge(len(s) + len(out))
	return out
}
