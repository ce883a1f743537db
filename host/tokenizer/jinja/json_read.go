package jinja

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
)

// ErrJSON is returned by DecodeJSON for input that Python's json.loads would
// reject, and for text that has no UTF-8 form (a lone surrogate).
var ErrJSON = errors.New("jinja: invalid JSON")

// maxJSONDepth limits nesting. Python's own limit is about 1,000 frames.
const maxJSONDepth = 500

// DecodeJSON decodes one JSON value as Python's json.loads does: mappings keep
// their order, the last of equal keys wins, integers have any size, NaN and
// Infinity are valid. b must contain nothing else except white space; the value
// does not retain b. m counts the memory of the value and may be nil. The error
// is ErrJSON, or ErrDepth for values nested deeper than 500.
func DecodeJSON(b []byte, m *Meter) (Value, error) {
	return (&jsonReader{b: b, m: m}).decode()
}

// DecodeJSONShared is DecodeJSON, but strings without an escape share the memory
// of b, which m does not count. b must not change as long as the value is in use.
func DecodeJSONShared(b []byte, m *Meter) (Value, error) {
	return (&jsonReader{b: b, m: m, shared: true}).decode()
}

func (p *jsonReader) decode() (Value, error) {
	v, ok := p.value(0)
	switch {
	case p.deep:
		return undefined, ErrDepth
	case !ok:
		return undefined, ErrJSON
	}
	if p.space(); p.i != len(p.b) {
		return undefined, ErrJSON
	}
	return v, nil
}

type jsonReader struct {
	b      []byte
	i      int
	m      *Meter
	shared bool // strings without an escape share b
	deep   bool
}

func (p *jsonReader) space() {
	for p.i < len(p.b) && (p.b[p.i] == ' ' || p.b[p.i] == '\n' || p.b[p.i] == '\t' || p.b[p.i] == '\r') {
		p.i++
	}
}

// take skips white space and consumes c if it follows.
func (p *jsonReader) take(c byte) bool {
	p.space()
	if p.i < len(p.b) && p.b[p.i] == c {
		p.i++
		return true
	}
	return false
}

func (p *jsonReader) word(s string, v Value) (Value, bool) {
	if !bytes.HasPrefix(p.b[p.i:], []byte(s)) {
		return undefined, false
	}
	p.i += len(s)
	return v, true
}

func (p *jsonReader) value(depth int) (Value, bool) {
	p.space()
	if depth > maxJSONDepth {
		p.deep = true
	}
	if p.i >= len(p.b) || p.deep {
		return undefined, false
	}
	switch p.b[p.i] {
	case '"':
		s, own, ok := p.string()
		if !ok {
			return undefined, false
		}
		if !own {
			return shared(s, p.m), true
		}
		return Own(s, p.m), true
	case 't':
		return p.word("true", Bool(true))
	case 'f':
		return p.word("false", Bool(false))
	case 'n':
		return p.word("null", None)
	case 'N':
		return p.word("NaN", Float(math.NaN()))
	case 'I':
		return p.word("Infinity", Float(math.Inf(1)))
	case '[':
		return p.list(depth)
	case '{':
		return p.dict(depth)
	}
	return p.number()
}

func (p *jsonReader) list(depth int) (Value, bool) {
	p.i++
	l := &list{}
	v := Value{k: kindList, p: l}
	p.m.add(valueBytes)
	if p.take(']') {
		return v, true
	}
	for {
		x, ok := p.value(depth + 1)
		if !ok {
			return undefined, false
		}
		l.items = append(l.items, x)
		if p.take(',') {
			continue
		}
		p.m.add(cap(l.items) * valueBytes)
		return v, p.take(']')
	}
}

func (p *jsonReader) dict(depth int) (Value, bool) {
	p.i++
	d := NewDict(4, p.m)
	if p.take('}') {
		return d.Value(), true
	}
	for {
		if p.space(); p.i >= len(p.b) || p.b[p.i] != '"' {
			return undefined, false
		}
		k, own, ok := p.string()
		if !ok || !p.take(':') {
			return undefined, false
		}
		v, ok := p.value(depth + 1)
		if !ok {
			return undefined, false
		}
		if own {
			p.m.add(len(k))
		}
		d.Set(k, v)
		if p.take(',') {
			continue
		}
		return d.Value(), p.take('}')
	}
}

func (p *jsonReader) digits() bool {
	s := p.i
	for p.i < len(p.b) && p.b[p.i] >= '0' && p.b[p.i] <= '9' {
		p.i++
	}
	return p.i > s
}

func (p *jsonReader) number() (Value, bool) {
	start := p.i
	if p.b[p.i] == '-' {
		if p.i++; p.i < len(p.b) && p.b[p.i] == 'I' {
			return p.word("Infinity", Float(math.Inf(-1)))
		}
	}
	first := p.i
	if !p.digits() || p.b[first] == '0' && p.i > first+1 {
		return undefined, false
	}
	float := false
	if p.i < len(p.b) && p.b[p.i] == '.' {
		float = true
		if p.i++; !p.digits() {
			return undefined, false
		}
	}
	if p.i < len(p.b) && (p.b[p.i] == 'e' || p.b[p.i] == 'E') {
		float = true
		p.i++
		if p.i < len(p.b) && (p.b[p.i] == '+' || p.b[p.i] == '-') {
			p.i++
		}
		if !p.digits() {
			return undefined, false
		}
	}
	s := string(p.b[start:p.i])
	if float {
		f, _ := strconv.ParseFloat(s, 64) // out of range it is an infinity, as in Python
		return Float(f), true
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		p.m.add(len(s))
		return bigInt(s), true
	}
	return Int(n), true
}

// string decodes the string at p.i with one copy, or without one if it shares p.b.
func (p *jsonReader) string() (s string, own, ok bool) {
	end, escaped, err := jsonscan.String(p.b, p.i)
	if err != nil {
		return "", false, false
	}
	raw := p.b[p.i+1 : end-1]
	p.i = end
	if !utf8.Valid(raw) {
		return "", false, false
	}
	if !escaped {
		if p.shared {
			return unsafe.String(unsafe.SliceData(raw), len(raw)), false, true
		}
		return string(raw), true, true
	}
	out := make([]byte, 0, len(raw))
	for k := bytes.IndexByte(raw, '\\'); k >= 0; k = bytes.IndexByte(raw, '\\') {
		out = append(out, raw[:k]...)
		n := 0
		if out, n = appendEscaped(out, raw[k:]); n == 0 {
			return "", false, false
		}
		raw = raw[k+n:]
	}
	out = append(out, raw...)
	return unsafe.String(unsafe.SliceData(out), len(out)), true, true
}

// appendEscaped appends the character that the escape at the start of raw
// represents and returns the escape's length, or 0 if there is none.
func appendEscaped(out, raw []byte) ([]byte, int) {
	if len(raw) < 2 {
		return out, 0
	}
	if raw[1] != 'u' {
		i := strings.IndexByte(`"\/nrtbf`, raw[1])
		if i < 0 {
			return out, 0
		}
		return append(out, "\"\\/\n\r\t\b\f"[i]), 2
	}
	r, ok := hex4(raw[2:])
	if !ok {
		return out, 0
	}
	if !utf16.IsSurrogate(r) {
		return utf8.AppendRune(out, r), 6
	}
	if len(raw) < 12 || raw[6] != '\\' || raw[7] != 'u' {
		return out, 0
	}
	low, ok := hex4(raw[8:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return out, 0
	}
	return utf8.AppendRune(out, r), 12
}

func hex4(b []byte) (rune, bool) {
	if len(b) < 4 {
		return 0, false
	}
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
