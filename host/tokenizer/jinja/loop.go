package jinja

// loop is the state of the variable loop.
type loop struct {
	items    []Value // nil: a range that is not materialized
	i, n     int
	lo, step int64
	changed  []Value // arguments of the last loop.changed
	asked    bool
}

func (l *loop) at(i int) Value {
	if l.items == nil {
		return Int(l.lo + l.step*int64(i))
	}
	return l.items[i]
}

// attr returns an attribute of the variable loop.
func (l *loop) attr(name string) Value {
	switch name {
	case "index":
		return Int(int64(l.i + 1))
	case "index0":
		return Int(int64(l.i))
	case "revindex":
		return Int(int64(l.n - l.i))
	case "revindex0":
		return Int(int64(l.n - l.i - 1))
	case "first":
		return Bool(l.i == 0)
	case "last":
		return Bool(l.i == l.n-1)
	case "length":
		return Int(int64(l.n))
	case "previtem":
		if l.i > 0 {
			return l.at(l.i - 1)
		}
	case "nextitem":
		if l.i+1 < l.n {
			return l.at(l.i + 1)
		}
	case "depth":
		return Int(1)
	case "depth0":
		return Int(0)
	case "cycle":
		return fn(name, func(r *run, a []Value, _ []keyword) Value {
			if len(a) == 0 {
				fail("cycle needs at least one item")
			}
			return a[l.i%len(a)]
		})
	case "changed":
		return fn(name, func(r *run, a []Value, _ []keyword) Value {
			c := !l.asked || !r.equal(List(a), List(l.changed))
			l.asked, l.changed = true, append([]Value(nil), a...)
			return Bool(c)
		})
	}
	return undefined
}

// loopCode is a compiled for statement.
type loopCode struct {
	source  exprFunc
	rng     []exprFunc // arguments, if the source is a call of range
	targets []int
	slot    int   // of the variable loop
	reset   []int // variables of the body, unset in each iteration
	filter  condFunc
	body    []stmtFunc
	els     stmtFunc
}

func (c *compiler) loop(n *node, sc *scope) stmtFunc {
	lc := &loopCode{}
	if s := n.a[0]; s.op == opCall && s.a[0].op == opName && s.a[0].s == "range" && len(s.kw) == 0 && len(s.a) > 1 &&
		n.a[1] == nil {
		lc.source, lc.rng = c.expr(s.a[0], sc), c.exprs(s.a[1:], sc)
	} else {
		lc.source = c.expr(s, sc)
	}
	ls := &scope{map[string]int{}, sc, sc.f}
	for _, x := range n.names {
		lc.targets = append(lc.targets, ls.add(x))
	}
	lc.slot = ls.add("loop")
	ls.collect(n.body)
	lc.reset = ls.slots(append([]string{"loop"}, n.names...)...)
	if n.a[1] != nil {
		lc.filter = c.cond(n.a[1], ls)
	}
	lc.body = c.stmts(n.body, ls)
	lc.els = c.inner(n.els, sc)
	return lc.run
}

func (lc *loopCode) bind(f *frame, x Value) {
	if len(lc.targets) == 1 {
		f.vars[lc.targets[0]] = x
		return
	}
	unpack(f, x, lc.targets)
}

func (lc *loopCode) run(f *frame) control {
	var items []Value
	var lo, step int64
	n := 0
	src := lc.source(f)
	if lc.rng == nil {
		items = lc.kept(f, f.r.iter(src))
		n = len(items)
	} else {
		items, lo, step, n = lc.ranged(f, src)
	}
	if n == 0 {
		return lc.els(f)
	}
	l := f.r.newLoop()
	*l = loop{items: items, n: n, lo: lo, step: step}
	lv := Value{k: kindLoop, p: l}
	for l.i = 0; l.i < l.n; l.i++ {
		f.r.step()
		for _, s := range lc.reset {
			f.vars[s] = Value{}
		}
		lc.bind(f, l.at(l.i))
		f.vars[lc.slot] = lv
		if exec(lc.body, f) == breaks {
			break
		}
	}
	return proceed
}

// ranged evaluates a call of range without materializing its numbers. Another
// function may shadow the name.
func (lc *loopCode) ranged(f *frame, src Value) (items []Value, lo, step int64, n int) {
	args := make([]Value, len(lc.rng))
	for i, x := range lc.rng {
		args[i] = x(f)
	}
	if src.k != kindFunc {
		fail("range is not callable")
	}
	if src.p == builtins["range"].p {
		lo, step, n = rangeOf(args)
		return nil, lo, step, n
	}
	items = f.r.iter(src.p.(*function).call(f.r, args, nil))
	return items, 0, 0, len(items)
}

// kept returns the items that pass the loop's filter.
func (lc *loopCode) kept(f *frame, items []Value) []Value {
	if lc.filter == nil {
		return items
	}
	var kept []Value
	for _, x := range items {
		f.r.step()
		lc.bind(f, x)
		if lc.filter(f) {
			kept = append(kept, x)
		}
	}
	return kept
}

// maxRange is the limit of Jinja2's sandbox (jinja2.sandbox.MAX_RANGE).
const maxRange = 100000

// rangeOf evaluates the arguments of range: first value, step, number of values.
func rangeOf(a []Value) (lo, step int64, n int) {
	for _, x := range a {
		if !x.isInt() || x.n > 1<<40 || x.n < -1<<40 {
			fail("range needs integers")
		}
	}
	hi := int64(0)
	step = 1
	switch len(a) {
	case 1:
		hi = a[0].n
	case 2:
		lo, hi = a[0].n, a[1].n
	case 3:
		lo, hi, step = a[0].n, a[1].n, a[2].n
	default:
		fail("range takes one to three integers")
	}
	if step == 0 {
		fail("range step is zero")
	}
	if step > 0 && hi > lo {
		n = int((hi - lo + step - 1) / step)
	} else if step < 0 && hi < lo {
		n = int((lo - hi - step - 1) / -step)
	}
	if n > maxRange {
		fail("range is longer than %d", maxRange)
	}
	return lo, step, n
}
