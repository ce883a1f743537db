package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// maxNesting limits recursion over nested lists and mappings, which a template
// can build step by step.
const maxNesting = 1000

// formatFloat implements Python's repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); f == 0 || a >= 1e-4 && a < 1e16 {
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}

// str implements Python's str().
func (r *run) str(v Value) string {
	switch v.k {
	case kindString:
		return v.s
	case kindRope:
		return r.flat(v).s
	case kindUndefined, kindUnset:
		return ""
	}
	b := r.repr(nil, v, 0)
	r.charge(len(b))
	return string(b)
}

// asString returns v itself if it is a string, else its str.
func (r *run) asString(v Value) Value {
	if v.IsString() {
		return v
	}
	return Str(r.str(v))
}

// repr appends Python's repr() of v.
func (r *run) repr(b []byte, v Value, depth int) []byte {
	if depth > maxNesting {
		throw(ErrDepth)
	}
	switch v.k {
	case kindNone:
		return append(b, "None"...)
	case kindBool:
		if v.n != 0 {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case kindInt:
		return strconv.AppendInt(b, v.n, 10)
	case kindBig:
		return append(b, v.s...)
	case kindFloat:
		return append(b, formatFloat(v.float())...)
	case kindString, kindRope:
		return r.reprString(b, r.str(v))
	case kindList:
		return r.reprList(b, v.p.(*list), depth)
	case kindDict:
		return r.reprDict(b, v.p.(*Dict), depth)
	case kindUndefined, kindUnset:
		return append(b, "Undefined"...)
	}
	unsupported("the text of a function, namespace or loop")
	return b
}

func (r *run) reprList(b []byte, l *list, depth int) []byte {
	if l.gen != isList {
		unsupported("the text of a generator or view")
	}
	open, end := byte('['), byte(']')
	if l.tuple {
		open, end = '(', ')'
	}
	r.chargeValues(1)
	b = append(b, open)
	for i, x := range l.items {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = r.repr(b, x, depth+1)
	}
	if l.tuple && len(l.items) == 1 {
		b = append(b, ',')
	}
	return append(b, end)
}

func (r *run) reprDict(b []byte, d *Dict, depth int) []byte {
	r.chargeValues(1)
	b = append(b, '{')
	for i, k := range d.Keys {
		if i > 0 {
			b = append(b, ", "...)
		}
		if d.ints {
			b = append(b, k...)
		} else {
			b = r.reprString(b, k)
		}
		b = append(b, ": "...)
		b = r.repr(b, d.Vals[i], depth+1)
	}
	return append(b, '}')
}

func (r *run) reprString(b []byte, s string) []byte {
	r.charge(len(s))
	q := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		q = '"'
	}
	b = append(b, q)
	for _, c := range s {
		switch {
		case c == rune(q) || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c < 0x20 || c >= 0x7f && !unicode.IsPrint(c):
			b = appendEscape(b, c)
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, q)
}

// appendEscape appends c as \xhh, \uhhhh or \Uhhhhhhhh.
func appendEscape(b []byte, c rune) []byte {
	letter, shift := byte('x'), 4
	if c >= 0x10000 {
		letter, shift = 'U', 28
	} else if c >= 0x100 {
		letter, shift = 'u', 12
	}
	b = append(b, '\\', letter)
	for ; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[c>>shift&15])
	}
	return b
}
