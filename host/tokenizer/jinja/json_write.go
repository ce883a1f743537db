package jinja

import (
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonOptions are the arguments of tojson; the names are those of json.dumps.
type jsonOptions struct {
	r      *run
	indent int // -1: on one line
	item   string
	key    string
	sort   bool
	ascii  bool
}

// toJSON implements transformers' tojson: json.dumps with ensure_ascii off.
func (r *run) toJSON(v Value, a []Value, kw []keyword) Value {
	o := &jsonOptions{r: r, indent: -1, item: ", ", key: ": "}
	o.ascii = argument(a, kw, 0, "ensure_ascii").Truth()
	if x := argument(a, kw, 1, "indent"); x.isInt() {
		o.indent = int(min(max(0, x.n), 1<<10))
		o.item = ","
	} else if x.IsString() {
		unsupported("tojson with a text as indent")
	}
	if x := argument(a, kw, 2, "separators"); x.k == kindList {
		l := x.items()
		if len(l) != 2 {
			fail("tojson takes two separators")
		}
		o.item, o.key = r.needText(l[0]), r.needText(l[1])
	}
	o.sort = argument(a, kw, 3, "sort_keys").Truth()
	if l, ok := v.p.(*list); ok && l.gen == isList && o.indent < 0 && len(l.items) > 0 {
		parts := []Value{Str("[")}
		for i, x := range l.items {
			if i > 0 {
				parts = append(parts, Str(o.item))
			}
			parts = append(parts, o.kept(x))
		}
		return r.concat(append(parts, Str("]")))
	}
	return o.kept(v)
}

// kept writes v. It caches the JSON of a mapping that came from a request in that
// mapping, so tools and arguments are written once.
func (o *jsonOptions) kept(v Value) Value {
	d, ok := v.p.(*Dict)
	if !ok || !d.frozen {
		return Str(o.text(v))
	}
	var buf [64]byte
	k := o.appendKey(buf[:0])
	d.mu.Lock()
	x, ok := d.json[string(k)]
	d.mu.Unlock()
	if ok {
		return x
	}
	s := o.text(v)
	d.mu.Lock()
	defer d.mu.Unlock()
	if x, ok := d.json[string(k)]; ok {
		return x
	}
	if len(d.json) >= maxDictJSON || len(k) > maxKeyBytes {
		return Str(s)
	}
	if d.json == nil {
		d.json = map[string]Value{}
	}
	d.meter.add(entryBytes + len(k))
	x = Own(s, d.meter)
	d.json[string(k)] = x
	return x
}

func (o *jsonOptions) appendKey(k []byte) []byte {
	k = strconv.AppendInt(k, int64(o.indent), 10)
	k = append(strconv.AppendBool(k, o.sort), 0)
	k = append(strconv.AppendBool(k, o.ascii), 0)
	k = strconv.AppendInt(k, int64(len(o.item)), 10)
	return append(append(append(k, 0), o.item...), o.key...)
}

func (o *jsonOptions) text(v Value) string {
	b := o.write(nil, v, 0)
	return string(b)
}

func (o *jsonOptions) write(b []byte, v Value, depth int) []byte {
	if depth > maxNesting {
		throw(ErrDepth)
	}
	switch v.k {
	case kindNone:
		return append(b, "null"...)
	case kindBool:
		return strconv.AppendBool(b, v.n != 0)
	case kindFloat:
		return appendJSONFloat(b, v.float())
	case kindInt:
		return strconv.AppendInt(b, v.n, 10)
	case kindBig:
		return append(b, v.s...)
	case kindString, kindRope:
		return o.writeString(b, o.r.str(v))
	case kindList:
		return o.writeList(b, v.p.(*list), depth)
	case kindDict:
		return o.writeDict(b, v.p.(*Dict), depth)
	}
	fail("object cannot be written as JSON")
	return b
}

func appendJSONFloat(b []byte, f float64) []byte {
	switch s := formatFloat(f); s {
	case "inf":
		return append(b, "Infinity"...)
	case "-inf":
		return append(b, "-Infinity"...)
	case "nan":
		return append(b, "NaN"...)
	default:
		return append(b, s...)
	}
}

func (o *jsonOptions) newline(b []byte, depth int) []byte {
	if o.indent < 0 {
		return b
	}
	o.r.charge(o.indent * depth)
	b = append(b, '\n')
	for range o.indent * depth {
		b = append(b, ' ')
	}
	return b
}

func (o *jsonOptions) writeList(b []byte, l *list, depth int) []byte {
	if l.gen != isList {
		fail("object cannot be written as JSON")
	}
	o.r.chargeValues(1)
	if len(l.items) == 0 {
		return append(b, "[]"...)
	}
	b = append(b, '[')
	for i, x := range l.items {
		if i > 0 {
			b = append(b, o.item...)
		}
		b = o.newline(b, depth+1)
		b = o.write(b, x, depth+1)
	}
	return append(o.newline(b, depth), ']')
}

func (o *jsonOptions) writeDict(b []byte, d *Dict, depth int) []byte {
	o.r.chargeValues(1)
	if len(d.Keys) == 0 {
		return append(b, "{}"...)
	}
	order := make([]int, len(d.Keys))
	for i := range order {
		order[i] = i
	}
	if o.sort {
		if d.ints {
			unsupported("tojson of integer keys in order")
		}
		sort.Slice(order, func(i, j int) bool { return d.Keys[order[i]] < d.Keys[order[j]] })
	}
	b = append(b, '{')
	for n, i := range order {
		if n > 0 {
			b = append(b, o.item...)
		}
		b = o.newline(b, depth+1)
		b = o.writeString(b, d.Keys[i])
		b = append(b, o.key...)
		b = o.write(b, d.Vals[i], depth+1)
	}
	return append(o.newline(b, depth), '}')
}

// writeString appends s as json.dumps writes it.
func (o *jsonOptions) writeString(b []byte, s string) []byte {
	o.r.charge(len(s))
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && (c < 0x7f || c > 0x7f && !o.ascii || c == 0x7f) {
			continue
		}
		b = append(b, s[start:i]...)
		if j := strings.IndexByte("\"\\\n\r\t\b\f", c); j >= 0 {
			b = append(b, '\\', `"\nrtbf`[j])
		} else if c < 0x20 {
			b = appendUnit(b, rune(c))
		} else {
			r, w := utf8.DecodeRuneInString(s[i:])
			if r >= 0x10000 {
				b = appendUnit(appendUnit(b, 0xd800+(r-0x10000)>>10), 0xdc00+(r-0x10000)&0x3ff)
			} else {
				b = appendUnit(b, r)
			}
			i += w - 1
		}
		start = i + 1
	}
	return append(append(b, s[start:]...), '"')
}

// appendUnit appends a UTF-16 unit as \uhhhh.
func appendUnit(b []byte, x rune) []byte {
	return append(b, '\\', 'u', hexDigits[x>>12&15], hexDigits[x>>8&15], hexDigits[x>>4&15], hexDigits[x&15])
}
