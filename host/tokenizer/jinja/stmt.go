package jinja

func (c *compiler) stmts(ns []*node, sc *scope) []stmtFunc {
	var out []stmtFunc
	for _, n := range ns {
		out = append(out, c.stmt(n, sc))
	}
	return out
}

// inner runs body in its own scope within the same frame.
func (c *compiler) inner(body []*node, sc *scope) stmtFunc {
	is := newScope(sc, sc.f, body)
	slots := is.slots()
	b := c.stmts(body, is)
	return func(f *frame) control {
		for _, i := range slots {
			f.vars[i] = Value{}
		}
		return exec(b, f)
	}
}

func (c *compiler) stmt(n *node, sc *scope) stmtFunc {
	switch n.op {
	case opText:
		s := n.s
		return func(f *frame) control { f.r.out.literal(f.r, s); return proceed }
	case opOutput:
		return c.output(n.a[0], sc)
	case opScope:
		return c.inner(n.body, sc)
	case opBreak:
		return func(*frame) control { return breaks }
	case opContinue:
		return func(*frame) control { return continues }
	case opIf:
		return c.ifStmt(n, sc)
	case opSet:
		return c.set(n, sc)
	case opSetBlock:
		return c.setBlock(n, sc)
	case opFilterBlock:
		filtered := c.filtered(n.a[0], n.body, sc)
		return func(f *frame) control { f.r.out.write(f.r, filtered(f)); return proceed }
	case opMacro:
		slot, make := sc.names[n.s], c.macro(n, sc)
		return func(f *frame) control { f.vars[slot] = make(f); return proceed }
	case opCallBlock:
		return c.callBlock(n, sc)
	case opFor:
		return c.loop(n, sc)
	}
	panic("BUG: not a statement")
}

func (c *compiler) ifStmt(n *node, sc *scope) stmtFunc {
	var conds []condFunc
	var bodies [][]stmtFunc
	for i, x := range n.a {
		conds = append(conds, c.cond(x, sc))
		bodies = append(bodies, c.stmts(n.body[i].body, sc))
	}
	els := c.stmts(n.els, sc)
	return func(f *frame) control {
		for i, cond := range conds {
			if cond(f) {
				return exec(bodies[i], f)
			}
		}
		return exec(els, f)
	}
}

// assign returns the code that assigns a value to a name or to a namespace attribute.
func (c *compiler) assign(n *node, sc *scope) func(*frame, Value) {
	if n.s == "" {
		slot := sc.names[n.names[0]]
		return func(f *frame, v Value) { f.vars[slot] = v }
	}
	object, key := c.load(n.s, sc), n.names[0]
	return func(f *frame, v Value) {
		o := object(f)
		if o.k != kindNamespace {
			fail("an attribute can be assigned on a namespace only")
		}
		f.r.chargeValues(1)
		o.p.(*namespace).Set(key, v)
	}
}

func (c *compiler) set(n *node, sc *scope) stmtFunc {
	v := c.expr(n.a[0], sc)
	if !n.flag {
		assign := c.assign(n, sc)
		return func(f *frame) control { assign(f, v(f)); return proceed }
	}
	var slots []int
	for _, x := range n.names {
		slots = append(slots, sc.names[x])
	}
	return func(f *frame) control {
		unpack(f, v(f), slots)
		return proceed
	}
}

// unpack assigns the items of v to slots.
func unpack(f *frame, v Value, slots []int) {
	items := f.r.iter(v)
	if len(items) != len(slots) {
		fail("%d values for %d names", len(items), len(slots))
	}
	for i, x := range items {
		f.vars[slots[i]] = x
	}
}

func (c *compiler) setBlock(n *node, sc *scope) stmtFunc {
	body := c.filtered(n.a[0], n.body, sc)
	assign := c.assign(n, sc)
	return func(f *frame) control { assign(f, body(f)); return proceed }
}

// filtered returns the text that body writes, passed through the filters if there
// are any. The operand of the innermost filter is bound to a hidden variable.
func (c *compiler) filtered(filters *node, body []*node, sc *scope) exprFunc {
	b := c.inner(body, sc)
	captured := func(f *frame) Value {
		outer := f.r.capture()
		b(f)
		return f.r.release(outer)
	}
	if filters == nil {
		return captured
	}
	const hidden = "\x00block"
	innermost := filters
	for innermost.a[0] != nil {
		innermost = innermost.a[0]
	}
	innermost.a[0] = &node{op: opName, s: hidden}
	hs := &scope{map[string]int{}, sc, sc.f}
	slot := hs.add(hidden)
	e := c.expr(filters, hs)
	return func(f *frame) Value {
		f.vars[slot] = captured(f)
		return e(f)
	}
}

// output prints an expression. It writes sums of strings part by part.
func (c *compiler) output(e *node, sc *scope) stmtFunc {
	// safe only affects strings that are joined to it later
	for e.op == opParen || e.op == opFilter && e.s == "safe" && len(e.a) == 1 {
		e = e.a[0]
	}
	switch e.op {
	case opLiteral:
		if e.v.k == kindString {
			s := e.v.s
			return func(f *frame) control { f.r.out.literal(f.r, s); return proceed }
		}
	case opAdd:
		if len(e.a) <= maxPrintedSum {
			return c.outputSum(e, sc)
		}
	case opConcat:
		return c.outputConcat(e, sc)
	}
	x := c.expr(e, sc)
	return func(f *frame) control { f.r.out.write(f.r, x(f)); return proceed }
}

// maxPrintedSum is the maximum length of the sums that outputSum keeps on the stack.
const maxPrintedSum = 8

func (c *compiler) outputSum(e *node, sc *scope) stmtFunc {
	ops := c.exprs(e.a, sc)
	return func(f *frame) control {
		var vs [maxPrintedSum]Value
		plain := true
		for i, o := range ops {
			vs[i] = o(f)
			plain = plain && vs[i].IsString() && !vs[i].safe
		}
		if !plain {
			f.r.out.write(f.r, f.r.plus(vs[:len(ops)]))
			return proceed
		}
		for i := range ops {
			f.r.out.write(f.r, vs[i])
		}
		return proceed
	}
}

func (c *compiler) outputConcat(e *node, sc *scope) stmtFunc {
	ops := c.exprs(e.a, sc)
	return func(f *frame) control {
		vs := make([]Value, len(ops))
		for i, o := range ops {
			vs[i] = o(f)
		}
		for _, v := range vs {
			f.r.out.write(f.r, v)
		}
		return proceed
	}
}
