package jinja

import "strings"

// filterFunc is a filter: v | name(a, kw).
type filterFunc func(r *run, v Value, a []Value, kw []keyword) Value

var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"abs":        filterAbs,
		"capitalize": mapText((*run).capitalize),
		"count":      filterLength,
		"d":          filterDefault,
		"default":    filterDefault,
		"dictsort":   filterDictSort,
		"first":      filterFirst,
		"float":      filterFloat,
		"format":     func(r *run, v Value, a []Value, kw []keyword) Value { return r.formatPercent(v, tuple(a...)) },
		"indent":     filterIndent,
		"int":        filterInt,
		"items":      filterItems,
		"join":       filterJoin,
		"last":       filterLast,
		"length":     filterLength,
		"list":       filterList,
		"lower":      mapText((*run).lower),
		"map":        filterMap,
		"max":        extreme(func(c int) bool { return c == 1 }),
		"min":        extreme(func(c int) bool { return c < 0 }),
		"reject":     selection(false, false),
		"rejectattr": selection(true, false),
		"replace":    filterReplace,
		"reverse":    filterReverse,
		"safe":       filterSafe,
		"select":     selection(false, true),
		"selectattr": selection(true, true),
		"sort":       filterSort,
		"string":     func(r *run, v Value, _ []Value, _ []keyword) Value { return r.asString(v) },
		"title":      mapText((*run).title),
		"tojson":     func(r *run, v Value, a []Value, kw []keyword) Value { return r.toJSON(v, a, kw) },
		"trim":       filterTrim,
		"unique":     filterUnique,
		"upper":      mapText((*run).upper),
	}
}

func mapText(f func(*run, string) string) filterFunc {
	return func(r *run, v Value, _ []Value, _ []keyword) Value {
		s := Str(f(r, r.str(v)))
		s.safe = v.safe
		return s
	}
}

func filterLength(r *run, v Value, _ []Value, _ []keyword) Value {
	switch v.k {
	case kindList:
		if v.p.(*list).gen == isGenerator {
			fail("a generator has no length")
		}
		return Int(int64(len(v.items())))
	case kindDict:
		return Int(int64(len(v.p.(*Dict).Keys)))
	case kindString, kindRope:
		return Int(int64(r.length(v)))
	case kindUndefined:
		return Int(0)
	}
	fail("object has no length")
	return undefined
}

func filterDefault(_ *run, v Value, a []Value, kw []keyword) Value {
	if v.k == kindUndefined || argument(a, kw, 1, "boolean").Truth() && !v.Truth() {
		if len(a) == 0 && argument(a, kw, 0, "default_value").k == kindUndefined {
			return Str("")
		}
		return argument(a, kw, 0, "default_value")
	}
	return v
}

func filterTrim(r *run, v Value, a []Value, kw []keyword) Value {
	return r.stripMethod(r.flat(r.asString(v)), "strip", argument(a, kw, 0, "chars"))
}

func filterSafe(r *run, v Value, _ []Value, _ []keyword) Value {
	v = r.asString(v)
	v.safe = true
	return v
}

func filterReplace(r *run, v Value, a []Value, kw []keyword) Value {
	n := -1
	if c := argument(a, kw, 2, "count"); c.isInt() {
		n = int(c.n)
	}
	v = r.flat(r.asString(v))
	v.safe = false
	return r.replace(v, r.str(argument(a, kw, 0, "old")), r.str(argument(a, kw, 1, "new")), n)
}

func filterJoin(r *run, v Value, a []Value, kw []keyword) Value {
	sep := argument(a, kw, 0, "d")
	if sep.k == kindUndefined {
		sep = Str("")
	}
	return r.join(v, r.flat(r.asString(sep)), argument(a, kw, 1, "attribute"))
}

// join joins the items of v, or an attribute of them.
func (r *run) join(v, sep, attribute Value) Value {
	items := r.iter(v)
	r.chargeValues(2 * len(items))
	parts := make([]Value, 0, 2*len(items))
	for i, x := range items {
		if i > 0 {
			parts = append(parts, sep)
		}
		if attribute.k != kindUndefined && attribute.k != kindNone {
			x = r.path(x, attribute)
		}
		parts = append(parts, r.asString(x))
	}
	return r.concat(parts)
}

func filterIndent(r *run, v Value, a []Value, kw []keyword) Value {
	width := "    "
	if x := argument(a, kw, 0, "width"); x.isInt() {
		width = strings.Repeat(" ", int(min(max(0, x.n), 1<<16)))
	} else if x.IsString() {
		width = r.str(x)
	}
	first, blank := argument(a, kw, 1, "first").Truth(), argument(a, kw, 2, "blank").Truth()
	lines := r.splitLines(Str(r.str(v)+"\n"), nil, nil).items()
	r.charge(len(lines) * len(width))
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		// the first line, if requested, is indented even if it is blank
		if i == 0 && first || i > 0 && (l.s != "" || blank) {
			b.WriteString(width)
		}
		b.WriteString(l.s)
	}
	r.charge(b.Len())
	return Str(b.String())
}
