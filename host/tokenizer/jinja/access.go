package jinja

import "unicode/utf8"

// walkCost is the cost of reading a character relative to copying a byte.
const walkCost = 4

// dictMethods are the attributes that a mapping has besides its keys.
var dictMethods = map[string]bool{"items": true, "keys": true, "values": true, "get": true, "copy": true, "pop": true,
	"update": true, "clear": true, "setdefault": true, "popitem": true, "fromkeys": true}

// bound returns method name of o as a function.
func bound(o Value, name string) Value {
	return fn(name, func(r *run, a []Value, kw []keyword) Value { return r.method(o, name, a, kw) })
}

func failUndefined(v Value) {
	if v.s == "" {
		fail("an undefined value is used")
	}
	fail("%q is undefined", v.s)
}

// attr evaluates o.name: an attribute, else an item.
func (r *run) attr(o Value, name string) Value {
	switch o.k {
	case kindDict:
		if dictMethods[name] {
			return bound(o, name)
		}
		if v, ok := o.p.(*Dict).Get(name); ok {
			return v
		}
	case kindNamespace:
		if v, ok := o.p.(*namespace).Get(name); ok {
			return v
		}
	case kindLoop:
		return o.p.(*loop).attr(name)
	case kindUndefined:
		failUndefined(o)
	case kindString, kindRope:
		if stringMethods[name] {
			return bound(o, name)
		}
	}
	return undefined
}

// item evaluates o[k]: an item, else an attribute.
func (r *run) item(o, k Value) Value {
	switch o.k {
	case kindDict:
		d := o.p.(*Dict)
		if k.IsString() != d.ints && (k.IsString() || k.isInt()) {
			if v, ok := d.Get(r.str(k)); ok {
				return v
			}
		}
	case kindList:
		if l := o.p.(*list); k.isInt() && l.gen == isList {
			i := k.n
			if i < 0 {
				i += int64(len(l.items))
			}
			if i >= 0 && i < int64(len(l.items)) {
				return l.items[i]
			}
		}
	case kindString, kindRope:
		if k.isInt() {
			return r.character(r.flat(o), int(k.n))
		}
	case kindUndefined:
		failUndefined(o)
	}
	if k.IsString() {
		return r.attr(o, r.str(k))
	}
	return undefined
}

// character evaluates v[i] of a string.
func (r *run) character(v Value, i int) Value {
	n := r.length(v)
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return undefined
	}
	at := i
	if n != len(v.s) {
		at = r.offset(v.s, i)
	}
	_, w := utf8.DecodeRuneInString(v.s[at:])
	c := Str(v.s[at : at+w])
	c.safe = v.safe
	return c
}

// offset returns the byte offset of the i-th character of s.
func (r *run) offset(s string, i int) int {
	r.charge(walkCost * i)
	for at := range s {
		if i == 0 {
			return at
		}
		i--
	}
	return len(s)
}

// slice evaluates o[x[0]:x[1]:x[2]].
func (r *run) slice(o Value, x [3]Value) Value {
	step := 1
	if x[2].k != kindNone {
		if !x[2].isInt() || x[2].n == 0 {
			fail("bad slice step")
		}
		step = int(max(-1<<40, min(x[2].n, 1<<40)))
	}
	switch o.k {
	case kindList:
		return r.sliceList(o.p.(*list), x, step)
	case kindString, kindRope:
		return r.sliceString(r.flat(o), x, step)
	case kindUndefined:
		failUndefined(o)
	}
	fail("object cannot be sliced")
	return undefined
}

// bounds returns the first index of a slice and the one at which it stops, as
// Python's slice.indices does.
func bounds(x [3]Value, n, step int) (i, j int) {
	lo, hi := 0, n
	if step < 0 {
		lo, hi = -1, n-1
	}
	bound := func(v Value, def int) int {
		if v.k == kindNone {
			return def
		}
		if !v.isInt() {
			fail("slice indices must be integers")
		}
		i := v.n
		if i < 0 {
			i += int64(n)
		}
		return int(min(max(i, int64(lo)), int64(hi)))
	}
	if step < 0 {
		return bound(x[0], hi), bound(x[1], lo)
	}
	return bound(x[0], lo), bound(x[1], hi)
}

func (r *run) sliceList(l *list, x [3]Value, step int) Value {
	if l.gen != isList {
		fail("object cannot be sliced")
	}
	i, j := bounds(x, len(l.items), step)
	out := &list{tuple: l.tuple}
	if step == 1 {
		j = max(i, j)
		out.items = l.items[i:j:j]
		return Value{k: kindList, p: out}
	}
	r.chargeValues(len(l.items))
	if n := (j - i + step) / step; n > 0 {
		out.items = make([]Value, 0, min(n, len(l.items)))
	}
	for ; step > 0 && i < j || step < 0 && i > j; i += step {
		out.items = append(out.items, l.items[i])
	}
	return Value{k: kindList, p: out}
}

func (r *run) sliceString(v Value, x [3]Value, step int) Value {
	n := r.length(v)
	i, j := bounds(x, n, step)
	if step != 1 {
		r.charge(4 * walkCost * len(v.s))
		chars := []rune(v.s)
		var b []rune
		for ; step > 0 && i < j || step < 0 && i > j; i += step {
			b = append(b, chars[i])
		}
		s := Str(string(b))
		s.safe = v.safe
		return s
	}
	if j <= i {
		return Str("")
	}
	if n == len(v.s) {
		return v.sub(i, j)
	}
	at := r.offset(v.s, i)
	return v.sub(at, at+r.offset(v.s[at:], j-i))
}
