package jinja

func (c *compiler) exprs(ns []*node, sc *scope) []exprFunc {
	out := make([]exprFunc, len(ns))
	for i, n := range ns {
		if n != nil {
			out[i] = c.expr(n, sc)
		}
	}
	return out
}

func (c *compiler) expr(n *node, sc *scope) exprFunc {
	switch n.op {
	case opLiteral:
		v := n.v
		return func(*frame) Value { return v }
	case opName:
		return c.load(n.s, sc)
	case opParen:
		return c.expr(n.a[0], sc)
	case opList, opTuple:
		return c.listExpr(n, sc)
	case opDict:
		return c.dictExpr(n, sc)
	case opOr, opAnd:
		return c.shortCircuit(n, sc)
	case opNot, opCompare:
		cond := c.cond(n, sc)
		return func(f *frame) Value { return Bool(cond(f)) }
	case opNeg:
		a := c.expr(n.a[0], sc)
		return func(f *frame) Value { return negate(a(f)) }
	case opCond:
		return c.condExpr(n, sc)
	case opAdd:
		return c.sum(n, sc)
	case opConcat:
		return c.concatExpr(n, sc)
	case opSub, opMul, opDiv, opFloorDiv, opMod, opPow:
		a, b, op := c.expr(n.a[0], sc), c.expr(n.a[1], sc), n.op
		return func(f *frame) Value { x := a(f); return f.r.arith(op, x, b(f)) }
	case opAttr:
		return c.attr(n, sc)
	case opItem:
		return c.item(n, sc)
	case opSlice:
		return c.sliceExpr(n, sc)
	case opCall:
		return c.call(n, sc)
	case opFilter:
		return c.filter(n, sc)
	case opTest:
		return c.test(n, sc)
	}
	panic("BUG: not an expression")
}

func (c *compiler) listExpr(n *node, sc *scope) exprFunc {
	a := c.exprs(n.a, sc)
	isTuple := n.op == opTuple
	if v, ok := constantList(n); ok {
		return func(*frame) Value { return v }
	}
	return func(f *frame) Value {
		f.r.chargeValues(1 + len(a))
		l := &list{items: make([]Value, len(a)), tuple: isTuple}
		for i, x := range a {
			l.items[i] = x(f)
		}
		return Value{k: kindList, p: l}
	}
}

// constantList returns a list of literals. The list is created once, because
// values are immutable.
func constantList(n *node) (Value, bool) {
	l := &list{items: make([]Value, len(n.a)), tuple: n.op == opTuple}
	for i, x := range n.a {
		if x.op != opLiteral {
			return undefined, false
		}
		l.items[i] = x.v
	}
	return Value{k: kindList, p: l}, true
}

func (c *compiler) dictExpr(n *node, sc *scope) exprFunc {
	a := c.exprs(n.a, sc)
	return func(f *frame) Value {
		f.r.chargeValues(4 + len(a))
		d := &Dict{Keys: make([]string, 0, len(a)/2), Vals: make([]Value, 0, len(a)/2)}
		for i := 0; i < len(a); i += 2 {
			k := a[i](f)
			if !k.IsString() && k.k != kindInt {
				unsupported("a mapping whose keys are neither text nor integers")
			}
			if i == 0 {
				d.ints = k.k == kindInt
			} else if d.ints != (k.k == kindInt) {
				unsupported("a mapping with keys of several types")
			}
			d.Set(f.r.str(k), a[i+1](f))
		}
		return d.Value()
	}
}

func (c *compiler) shortCircuit(n *node, sc *scope) exprFunc {
	a, b, stop := c.expr(n.a[0], sc), c.expr(n.a[1], sc), n.op == opOr
	return func(f *frame) Value {
		if v := a(f); v.Truth() == stop {
			return v
		}
		return b(f)
	}
}

func (c *compiler) condExpr(n *node, sc *scope) exprFunc {
	cond, then := c.cond(n.a[0], sc), c.expr(n.a[1], sc)
	els := func(*frame) Value { return undefined }
	if n.a[2] != nil {
		els = c.expr(n.a[2], sc)
	}
	return func(f *frame) Value {
		if cond(f) {
			return then(f)
		}
		return els(f)
	}
}

func (c *compiler) sum(n *node, sc *scope) exprFunc {
	a := c.exprs(n.a, sc)
	return func(f *frame) Value {
		var buf [8]Value
		vs := buf[:0]
		for _, x := range a {
			vs = append(vs, x(f))
		}
		return f.r.plus(vs)
	}
}

func (c *compiler) concatExpr(n *node, sc *scope) exprFunc {
	a := c.exprs(n.a, sc)
	return func(f *frame) Value {
		vs := make([]Value, len(a))
		for i, x := range a {
			vs[i] = f.r.asString(x(f))
		}
		return f.r.concat(vs)
	}
}

// attr compiles object.name, most often message.content.
func (c *compiler) attr(n *node, sc *scope) exprFunc {
	s, method := n.s, dictMethods[n.s]
	if n.a[0].op != opName || method {
		a := c.expr(n.a[0], sc)
		return func(f *frame) Value { return f.r.attr(a(f), s) }
	}
	object := c.ref(n.a[0].s, sc)
	return func(f *frame) Value {
		o := object(f)
		if o.k != kindDict {
			return f.r.attr(*o, s)
		}
		d := o.p.(*Dict)
		if i := d.find(s); i >= 0 {
			return d.Vals[i]
		}
		return undefined
	}
}

func (c *compiler) item(n *node, sc *scope) exprFunc {
	a := c.expr(n.a[0], sc)
	if k := n.a[1]; k.op == opLiteral && k.v.k == kindString {
		s := k.v.s
		return func(f *frame) Value {
			o := a(f)
			if o.k == kindDict {
				if v, ok := o.p.(*Dict).Get(s); ok {
					return v
				}
			}
			return f.r.attr(o, s)
		}
	}
	b := c.expr(n.a[1], sc)
	return func(f *frame) Value { o := a(f); return f.r.item(o, b(f)) }
}

func (c *compiler) sliceExpr(n *node, sc *scope) exprFunc {
	a := c.exprs(n.a, sc)
	return func(f *frame) Value {
		o := a[0](f)
		var x [3]Value
		for i := range x {
			x[i] = None
			if a[i+1] != nil {
				x[i] = a[i+1](f)
			}
		}
		return f.r.slice(o, x)
	}
}

func (c *compiler) call(n *node, sc *scope) exprFunc {
	args := c.arguments(n.a[1:], n.kw, sc)
	if m := n.a[0]; m.op == opAttr {
		return c.methodCall(m, args, sc)
	}
	callee := c.expr(n.a[0], sc)
	return func(f *frame) Value {
		o := callee(f)
		if o.k != kindFunc {
			fail("object is not callable")
		}
		a, kw := args.eval(f)
		return o.p.(*function).call(f.r, a, kw)
	}
}

// methodCall calls an attribute without creating a bound method.
func (c *compiler) methodCall(m *node, args *arguments, sc *scope) exprFunc {
	object, name := c.expr(m.a[0], sc), m.s
	return func(f *frame) Value {
		o := object(f)
		if o.k == kindNamespace || o.k == kindLoop || o.k == kindUndefined {
			callee := f.r.attr(o, name)
			if callee.k != kindFunc {
				fail("%q is not callable", name)
			}
			a, kw := args.eval(f)
			return callee.p.(*function).call(f.r, a, kw)
		}
		if len(args.kw) > 0 {
			a, kw := args.eval(f)
			return f.r.method(o, name, a, kw)
		}
		var buf [3]Value
		a := buf[:0]
		for _, x := range args.args {
			a = append(a, x(f))
		}
		return f.r.method(o, name, a, nil)
	}
}

func (c *compiler) filter(n *node, sc *scope) exprFunc {
	name := n.s
	v := c.expr(n.a[0], sc)
	filter, ok := filters[name]
	if !ok {
		return func(*frame) Value { unsupported("filter %q", name); return undefined }
	}
	args := c.arguments(n.a[1:], n.kw, sc)
	if len(args.args) == 0 && len(args.kw) == 0 {
		return func(f *frame) Value { return filter(f.r, v(f), nil, nil) }
	}
	return func(f *frame) Value {
		x := v(f)
		a, kw := args.eval(f)
		return filter(f.r, x, a, kw)
	}
}

func (c *compiler) test(n *node, sc *scope) exprFunc {
	cond := c.testCond(n, sc)
	return func(f *frame) Value { return Bool(cond(f)) }
}
