package jinja

// cond compiles n for its truth value only and so avoids passing values.
func (c *compiler) cond(n *node, sc *scope) condFunc {
	switch n.op {
	case opNot:
		a := c.cond(n.a[0], sc)
		return func(f *frame) bool { return !a(f) }
	case opAnd:
		a, b := c.cond(n.a[0], sc), c.cond(n.a[1], sc)
		return func(f *frame) bool { return a(f) && b(f) }
	case opOr:
		a, b := c.cond(n.a[0], sc), c.cond(n.a[1], sc)
		return func(f *frame) bool { return a(f) || b(f) }
	case opCompare:
		if len(n.cmps) > 1 {
			return c.chain(n, sc)
		}
		if l := n.a[1]; l.op == opLiteral && l.v.k == kindString && (n.cmps[0] == cmpEq || n.cmps[0] == cmpNe) {
			return c.equalsText(n.a[0], l.v.s, n.cmps[0] == cmpEq, sc)
		}
		return c.comparison(n, sc)
	case opTest:
		return c.testCond(n, sc)
	}
	v := c.expr(n, sc)
	return func(f *frame) bool { return v(f).Truth() }
}

// chain is a comparison of several operators, a < b < c.
func (c *compiler) chain(n *node, sc *scope) condFunc {
	a, ops := c.exprs(n.a, sc), n.cmps
	return func(f *frame) bool {
		x := a[0](f)
		for i, op := range ops {
			y := a[i+1](f)
			if !f.r.compare(op, x, y) {
				return false
			}
			x = y
		}
		return true
	}
}

func (c *compiler) comparison(n *node, sc *scope) condFunc {
	a, b, op := c.expr(n.a[0], sc), c.expr(n.a[1], sc), n.cmps[0]
	return func(f *frame) bool {
		x, y := a(f), b(f)
		if x.k == kindInt && y.k == kindInt && op <= cmpGe {
			return holds(op, order(x.n < y.n, x.n > y.n))
		}
		return f.r.compare(op, x, y)
	}
}

// isText reports whether v is the string s.
func (r *run) isText(v Value, s string) bool {
	v = r.flat(v)
	return v.k == kindString && v.s == s
}

// equalsText compiles x == 'text', most often message.role == 'text'.
func (c *compiler) equalsText(x *node, s string, want bool, sc *scope) condFunc {
	name, item := "", false
	switch {
	case x.op == opAttr && !dictMethods[x.s]:
		name = x.s
	case x.op == opItem && x.a[1].op == opLiteral && x.a[1].v.k == kindString:
		name, item = x.a[1].v.s, true
	default:
		a := c.expr(x, sc)
		return func(f *frame) bool { return f.r.isText(a(f), s) == want }
	}
	object := c.operand(x.a[0], sc)
	return func(f *frame) bool {
		o := object(f)
		if o.k == kindDict {
			d := o.p.(*Dict)
			if i := d.find(name); i >= 0 {
				v := &d.Vals[i]
				if v.k == kindRope {
					return f.r.isText(*v, s) == want
				}
				return (v.k == kindString && v.s == s) == want
			}
			if !item {
				return !want
			}
		}
		return f.r.isText(f.r.attr(*o, name), s) == want
	}
}

// operand is expr, without a copy of the value of a name.
func (c *compiler) operand(n *node, sc *scope) func(*frame) *Value {
	if n.op == opName {
		return c.ref(n.s, sc)
	}
	v := c.expr(n, sc)
	return func(f *frame) *Value {
		f.r.operand = v(f)
		return &f.r.operand
	}
}

func (c *compiler) testCond(n *node, sc *scope) condFunc {
	v, neg, name := c.expr(n.a[0], sc), n.flag, n.s
	args := c.exprs(n.a[1:], sc)
	switch name {
	case "defined":
		return func(f *frame) bool { return (v(f).k != kindUndefined) != neg }
	case "string":
		return func(f *frame) bool { return v(f).IsString() != neg }
	case "none":
		return func(f *frame) bool { return (v(f).k == kindNone) != neg }
	}
	test, ok := tests[name]
	if !ok {
		return func(*frame) bool { unsupported("test %q", name); return false }
	}
	return func(f *frame) bool {
		x := v(f)
		var y Value
		if len(args) > 0 {
			y = args[0](f)
		}
		return test(f.r, x, y) != neg
	}
}
