package jinja

// tests are the tests that may follow is: x is name, x is name y.
var tests map[string]func(r *run, x, y Value) bool

func init() {
	equal := func(r *run, x, y Value) bool { return r.equal(x, y) }
	unequal := func(r *run, x, y Value) bool { return !r.equal(x, y) }
	compare := func(op comparison) func(*run, Value, Value) bool {
		return func(r *run, x, y Value) bool { return r.compare(op, x, y) }
	}
	lt, gt, le, ge := compare(cmpLt), compare(cmpGt), compare(cmpLe), compare(cmpGe)
	tests = map[string]func(r *run, x, y Value) bool{
		"defined":     func(_ *run, x, _ Value) bool { return x.k != kindUndefined },
		"undefined":   func(_ *run, x, _ Value) bool { return x.k == kindUndefined },
		"none":        func(_ *run, x, _ Value) bool { return x.k == kindNone },
		"string":      func(_ *run, x, _ Value) bool { return x.IsString() },
		"mapping":     func(_ *run, x, _ Value) bool { return x.k == kindDict },
		"iterable":    iterable,
		"sequence":    sequence,
		"number":      func(_ *run, x, _ Value) bool { return x.isInt() || x.k == kindFloat || x.k == kindBig },
		"integer":     func(_ *run, x, _ Value) bool { return x.k == kindInt || x.k == kindBig },
		"float":       func(_ *run, x, _ Value) bool { return x.k == kindFloat },
		"boolean":     func(_ *run, x, _ Value) bool { return x.k == kindBool },
		"true":        func(_ *run, x, _ Value) bool { return x.k == kindBool && x.n == 1 },
		"false":       func(_ *run, x, _ Value) bool { return x.k == kindBool && x.n == 0 },
		"callable":    func(_ *run, x, _ Value) bool { return x.k == kindFunc },
		"in":          func(r *run, x, y Value) bool { return r.contains(y, x) },
		"eq":          equal,
		"equalto":     equal,
		"==":          equal,
		"ne":          unequal,
		"!=":          unequal,
		"lt":          lt,
		"lessthan":    lt,
		"<":           lt,
		"gt":          gt,
		"greaterthan": gt,
		">":           gt,
		"le":          le,
		"<=":          le,
		"ge":          ge,
		">=":          ge,
		"odd":         func(_ *run, x, _ Value) bool { return modulo(x, Int(2)) == 1 },
		"even":        func(_ *run, x, _ Value) bool { return modulo(x, Int(2)) == 0 },
		"divisibleby": func(_ *run, x, y Value) bool { return modulo(x, y) == 0 },
	}
}

func iterable(_ *run, x, _ Value) bool {
	return x.IsString() || x.k == kindList || x.k == kindDict || x.k == kindUndefined
}

// sequence checks for a length and for items by index, as Jinja2's test does.
func sequence(_ *run, x, _ Value) bool {
	if l, ok := x.p.(*list); ok {
		return l.gen == isList
	}
	return x.IsString() || x.k == kindDict || x.k == kindUndefined
}

func modulo(x, y Value) int64 {
	if !x.isInt() || !y.isInt() {
		fail("invalid operands for operator %%")
	}
	return divInt(opMod, x.n, y.n)
}
