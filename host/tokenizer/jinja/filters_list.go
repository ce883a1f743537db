package jinja

import (
	"sort"
	"strconv"
	"strings"
)

// path resolves a dotted attribute of a filter; digits are indices.
func (r *run) path(v, attribute Value) Value {
	if attribute.isInt() {
		return r.item(v, attribute)
	}
	for _, p := range strings.Split(r.needText(attribute), ".") {
		if n, err := strconv.Atoi(p); err == nil {
			v = r.item(v, Int(int64(n)))
		} else {
			v = r.item(v, Str(p))
		}
	}
	return v
}

func filterList(r *run, v Value, _ []Value, _ []keyword) Value {
	items := r.iter(v)
	r.chargeValues(len(items))
	return List(append([]Value(nil), items...))
}

func filterItems(r *run, v Value, _ []Value, _ []keyword) Value {
	if v.k == kindUndefined {
		return generator(nil)
	}
	d := v.Dict()
	if d == nil {
		fail("only a mapping has items")
	}
	return generator(r.pairs(d))
}

func filterFirst(r *run, v Value, _ []Value, _ []keyword) Value {
	if l := r.iter(v); len(l) > 0 {
		return l[0]
	}
	return undefined
}

func filterLast(r *run, v Value, _ []Value, _ []keyword) Value {
	if l, ok := v.p.(*list); ok && l.gen == isGenerator {
		fail("a generator cannot be reversed")
	}
	if l := r.iter(v); len(l) > 0 {
		return l[len(l)-1]
	}
	return undefined
}

func filterReverse(r *run, v Value, _ []Value, _ []keyword) Value {
	switch v.k {
	case kindString, kindRope:
		return r.slice(v, [3]Value{None, None, Int(-1)})
	case kindList, kindDict:
		items := r.iter(v)
		r.chargeValues(len(items))
		out := make([]Value, len(items))
		for i, x := range items {
			out[len(items)-1-i] = x
		}
		if l, ok := v.p.(*list); ok && l.gen == isGenerator {
			return List(out)
		}
		return generator(out)
	}
	fail("object cannot be reversed")
	return undefined
}

// selection implements select, reject, selectattr and rejectattr.
func selection(byAttribute, want bool) filterFunc {
	return func(r *run, v Value, a []Value, _ []keyword) Value {
		var out []Value
		if !v.Truth() {
			return generator(nil)
		}
		for _, x := range r.iter(v) {
			r.step()
			y, rest := x, a
			if byAttribute {
				if len(a) == 0 {
					fail("missing attribute")
				}
				y, rest = r.path(x, a[0]), a[1:]
			}
			if r.passes(y, rest) == want {
				out = append(out, x)
			}
		}
		return generator(out)
	}
}

// passes applies the test named by a[0], or evaluates v's truth if there is none.
func (r *run) passes(v Value, a []Value) bool {
	if len(a) == 0 {
		return v.Truth()
	}
	name := r.needText(a[0])
	test, ok := tests[name]
	if !ok {
		unsupported("test %q", name)
	}
	var arg Value
	if len(a) > 1 {
		arg = a[1]
	}
	return test(r, v, arg)
}

func filterMap(r *run, v Value, a []Value, kw []keyword) Value {
	if !v.Truth() {
		return generator(nil)
	}
	attribute, def := argument(nil, kw, -1, "attribute"), argument(nil, kw, -1, "default")
	var filter filterFunc
	if attribute.k == kindUndefined {
		if len(a) == 0 {
			fail("map needs a filter")
		}
		name := r.needText(a[0])
		if filter = filters[name]; filter == nil {
			unsupported("filter %q", name)
		}
	}
	items := r.iter(v)
	r.chargeValues(len(items))
	out := make([]Value, 0, len(items))
	for _, x := range items {
		r.step()
		if filter != nil {
			x = filter(r, x, a[1:], kw)
		} else if x = r.path(x, attribute); x.k == kindUndefined && def.k != kindUndefined {
			x = def
		}
		out = append(out, x)
	}
	return generator(out)
}

// caseless returns the key by which strings are ordered unless the order is case-sensitive.
func (r *run) caseless(v Value) Value {
	if v.IsString() {
		return Str(r.lower(r.str(v)))
	}
	return v
}

// sorted sorts items by key with a stable sort.
func (r *run) sorted(items []Value, reverse bool, key func(Value) Value) []Value {
	r.chargeValues(2 * len(items))
	type keyed struct{ k, v Value }
	l := make([]keyed, len(items))
	for i, x := range items {
		r.step()
		l[i] = keyed{key(x), x}
	}
	sort.SliceStable(l, func(i, j int) bool {
		r.step()
		if reverse {
			i, j = j, i
		}
		return r.less(l[i].k, l[j].k) < 0
	})
	out := make([]Value, len(l))
	for i := range l {
		out[i] = l[i].v
	}
	return out
}

func filterSort(r *run, v Value, a []Value, kw []keyword) Value {
	attribute, caseSensitive := argument(a, kw, 2, "attribute"), argument(a, kw, 1, "case_sensitive").Truth()
	if attribute.IsString() && strings.Contains(r.str(attribute), ",") {
		unsupported("sort by several attributes")
	}
	return List(r.sorted(r.iter(v), argument(a, kw, 0, "reverse").Truth(), func(x Value) Value {
		if attribute.k != kindUndefined && attribute.k != kindNone {
			x = r.path(x, attribute)
		}
		if caseSensitive {
			return x
		}
		return r.caseless(x)
	}))
}

func filterDictSort(r *run, v Value, a []Value, kw []keyword) Value {
	d := v.Dict()
	if d == nil {
		fail("only a mapping can be sorted by key")
	}
	at := 0
	switch by := argument(a, kw, 1, "by"); {
	case by.k == kindUndefined || r.str(by) == "key":
	case r.str(by) == "value":
		at = 1
	default:
		fail("dictsort sorts by key or value")
	}
	caseSensitive := argument(a, kw, 0, "case_sensitive").Truth()
	return List(r.sorted(r.pairs(d), argument(a, kw, 2, "reverse").Truth(), func(x Value) Value {
		x = x.items()[at]
		if caseSensitive {
			return x
		}
		return r.caseless(x)
	}))
}

func filterUnique(r *run, v Value, a []Value, kw []keyword) Value {
	attribute, caseSensitive := argument(a, kw, 1, "attribute"), argument(a, kw, 0, "case_sensitive").Truth()
	var out, keys []Value
next:
	for _, x := range r.iter(v) {
		k := x
		if attribute.k != kindUndefined && attribute.k != kindNone {
			k = r.path(x, attribute)
		}
		if !caseSensitive {
			k = r.caseless(k)
		}
		for _, y := range keys {
			r.step()
			if r.equal(k, y) {
				continue next
			}
		}
		out, keys = append(out, x), append(keys, k)
	}
	return generator(out)
}

// extreme implements min and max.
func extreme(better func(int) bool) filterFunc {
	return func(r *run, v Value, a []Value, kw []keyword) Value {
		attribute, caseSensitive := argument(a, kw, 1, "attribute"), argument(a, kw, 0, "case_sensitive").Truth()
		key := func(x Value) Value {
			if attribute.k != kindUndefined && attribute.k != kindNone {
				x = r.path(x, attribute)
			}
			if caseSensitive {
				return x
			}
			return r.caseless(x)
		}
		items := r.iter(v)
		if len(items) == 0 {
			return undefined
		}
		best := items[0]
		for _, x := range items[1:] {
			r.step()
			if better(r.less(key(x), key(best))) {
				best = x
			}
		}
		return best
	}
}
