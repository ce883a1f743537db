package jinja

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// rope is a concatenation that is not flattened, because one of its parts keeps
// its identity. A rope belongs to one render.
type rope struct {
	parts []Value // strings, none a rope, none safe
	n     int     // bytes
	flat  string  // the joined parts, computed on first use
}

func (o *rope) join() string {
	if o.flat == "" && o.n > 0 {
		b := make([]byte, 0, o.n)
		for _, p := range o.parts {
			b = append(b, p.s...)
		}
		o.flat = unsafe.String(unsafe.SliceData(b), len(b))
	}
	return o.flat
}

// flat flattens a rope into one string and returns other values unchanged.
func (r *run) flat(v Value) Value {
	if v.k != kindRope {
		return v
	}
	o := v.p.(*rope)
	if o.flat == "" {
		r.charge(o.n)
	}
	s := Str(o.join())
	s.safe = v.safe
	return s
}

// size is the length in bytes of a string value.
func (v Value) size() int {
	if v.k == kindRope {
		return v.p.(*rope).n
	}
	return len(v.s)
}

// sub returns v.s[i:j] of a string that is not a rope, and keeps its identity.
func (v Value) sub(i, j int) Value {
	return Value{k: kindString, safe: v.safe, n: v.n + int64(i), s: v.s[i:j], p: v.p}
}

// concat joins strings. The result is never safe.
func (r *run) concat(parts []Value) Value {
	n, identity := 0, false
	for _, p := range parts {
		n += p.size()
		identity = identity || p.k == kindRope || p.p != nil
	}
	if !identity || n < SpanMin {
		r.charge(n)
		b := make([]byte, 0, n)
		for _, p := range parts {
			b = append(b, r.flat(p).s...)
		}
		return Str(unsafe.String(unsafe.SliceData(b), len(b)))
	}
	o := &rope{n: n, parts: make([]Value, 0, len(parts)+4)}
	for _, p := range parts {
		if p.k == kindRope {
			o.parts = append(o.parts, p.p.(*rope).parts...)
		} else if len(p.s) > 0 {
			o.parts = append(o.parts, p)
		}
	}
	r.chargeValues(len(o.parts))
	for i := range o.parts {
		o.parts[i].safe = false
	}
	if len(o.parts) == 1 {
		return o.parts[0]
	}
	return Value{k: kindRope, p: o}
}

// Concat joins string values without flattening them: spans remain spans. The
// result may be used in one render only.
func Concat(parts ...Value) Value {
	r := &run{bytes: 1 << 62}
	return r.concat(parts)
}

var htmlEscaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", "\"", "&#34;")

// concatSafe joins strings of which at least one is safe. It escapes the others.
func (r *run) concatSafe(vs []Value) Value {
	parts := make([]Value, len(vs))
	for i, v := range vs {
		if !v.IsString() {
			unsupported("an operator on a safe string")
		}
		if parts[i] = r.flat(v); !v.safe {
			r.charge(len(parts[i].s))
			parts[i] = Str(htmlEscaper.Replace(parts[i].s))
		}
		parts[i].safe = false
	}
	v := r.concat(parts)
	v.safe = true
	return v
}

// characters returns the characters of a string.
func (r *run) characters(v Value) []Value {
	s := r.flat(v).s
	r.chargeValues(len(s))
	items := make([]Value, 0, len(s))
	for i := 0; i < len(s); {
		_, w := utf8.DecodeRuneInString(s[i:])
		items = append(items, Str(s[i:i+w]))
		i += w
	}
	return items
}

// length returns the number of characters of a string.
func (r *run) length(v Value) int {
	v = r.flat(v)
	if t := v.text(); t != nil && len(v.s) == len(t.S) {
		return t.length(r)
	}
	r.charge(len(v.s))
	return utf8.RuneCountInString(v.s)
}

// has reports whether string v contains x.
func (r *run) has(v Value, x string) bool {
	if t := v.text(); t != nil && len(v.s) == len(t.S) {
		return t.contains(r, x)
	}
	s := r.flat(v).s
	r.charge(len(s))
	return strings.Contains(s, x)
}
