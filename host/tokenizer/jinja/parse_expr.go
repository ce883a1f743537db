package jinja

import "strconv"

func (p *parser) tupleExpr() *node { return p.tuple(p.expr) }

// tuple parses expressions separated by commas.
func (p *parser) tuple(f func() *node) *node {
	e := f()
	if !p.isOp(",") {
		return e
	}
	n := &node{op: opTuple, a: []*node{e}}
	for p.takeOp(",") {
		if k := p.cur().kind; k == tokBlockEnd || k == tokVarEnd || p.isOp(")") || p.isOp("]") || p.isName("in") {
			break
		}
		n.a = append(n.a, f())
	}
	return n
}

func (p *parser) expr() *node {
	defer p.enter()()
	e := p.or()
	for p.takeName("if") {
		n := &node{op: opCond, a: []*node{p.or(), e, nil}}
		if p.takeName("else") {
			n.a[2] = p.expr()
		}
		e = n
	}
	return e
}

func (p *parser) or() *node {
	e := p.and()
	for p.takeName("or") {
		e = &node{op: opOr, a: []*node{e, p.and()}}
	}
	return e
}

func (p *parser) and() *node {
	e := p.not()
	for p.takeName("and") {
		e = &node{op: opAnd, a: []*node{e, p.not()}}
	}
	return e
}

func (p *parser) not() *node {
	if p.takeName("not") {
		defer p.enter()()
		return &node{op: opNot, a: []*node{p.not()}}
	}
	return p.compare()
}

// comparison consumes a comparison operator, if there is one.
func (p *parser) comparison() (comparison, bool) {
	t := p.cur()
	if t.kind == tokOp {
		if op, ok := comparisons[t.s]; ok {
			p.i++
			return op, true
		}
	}
	if p.takeName("in") {
		return cmpIn, true
	}
	if n := &p.toks[min(p.i+1, len(p.toks)-1)]; p.isName("not") && n.kind == tokName && n.s == "in" {
		p.i += 2
		return cmpNotIn, true
	}
	return 0, false
}

func (p *parser) compare() *node {
	n := &node{op: opCompare, a: []*node{p.add()}}
	for {
		op, ok := p.comparison()
		if !ok {
			break
		}
		n.cmps = append(n.cmps, op)
		n.a = append(n.a, p.add())
	}
	if n.cmps == nil {
		return n.a[0]
	}
	return n
}

// add joins a sequence of + into one node, so that strings are concatenated once.
func (p *parser) add() *node {
	e := p.concat()
	for p.isOp("+") || p.isOp("-") {
		op := opAdd
		if p.next().s == "-" {
			op = opSub
		}
		right := p.concat()
		if op == opAdd && e.op == opAdd {
			e.a = append(e.a, right)
		} else {
			e = &node{op: op, a: []*node{e, right}}
		}
	}
	return e
}

func (p *parser) concat() *node {
	e := p.mul()
	if !p.isOp("~") {
		return e
	}
	n := &node{op: opConcat, a: []*node{e}}
	for p.takeOp("~") {
		n.a = append(n.a, p.mul())
	}
	return n
}

func (p *parser) mul() *node {
	e := p.pow()
	for {
		var op operation
		switch {
		case p.isOp("*"):
			op = opMul
		case p.isOp("/"):
			op = opDiv
		case p.isOp("//"):
			op = opFloorDiv
		case p.isOp("%"):
			op = opMod
		default:
			return e
		}
		p.i++
		e = &node{op: op, a: []*node{e, p.pow()}}
	}
}

func (p *parser) pow() *node {
	e := p.unary(true)
	for p.takeOp("**") {
		e = &node{op: opPow, a: []*node{e, p.unary(true)}}
	}
	return e
}

func (p *parser) unary(filters bool) *node {
	defer p.enter()()
	var e *node
	switch {
	case p.takeOp("-"):
		e = &node{op: opNeg, a: []*node{p.unary(false)}}
	case p.takeOp("+"):
		e = p.unary(false)
	default:
		e = p.primary()
	}
	e = p.postfix(e)
	if filters {
		e = p.filters(e)
	}
	return e
}

func (p *parser) primary() *node {
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.s {
		case "true", "True":
			return literal(Bool(true))
		case "false", "False":
			return literal(Bool(false))
		case "none", "None":
			return literal(None)
		}
		return &node{op: opName, s: t.s}
	case tokString:
		s := t.s
		for p.cur().kind == tokString {
			s += p.next().s
		}
		return literal(Str(s))
	case tokInt:
		n, err := strconv.ParseInt(t.s, 10, 64)
		if err != nil {
			return literal(bigInt(t.s))
		}
		return literal(Int(n))
	case tokFloat:
		f, err := strconv.ParseFloat(t.s, 64)
		if err != nil {
			syntax(t.pos, "bad number")
		}
		return literal(Float(f))
	case tokOp:
		switch t.s {
		case "(":
			return p.paren()
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	syntax(t.pos, "expected an expression")
	return nil
}

func (p *parser) paren() *node {
	if p.takeOp(")") {
		return &node{op: opTuple}
	}
	e := p.tupleExpr()
	p.expect(")")
	if e.op == opAdd {
		e = &node{op: opParen, a: []*node{e}}
	}
	return e
}

func (p *parser) list() *node {
	n := &node{op: opList}
	for !p.takeOp("]") {
		n.a = append(n.a, p.expr())
		if !p.takeOp(",") {
			p.expect("]")
			break
		}
	}
	return n
}

func (p *parser) dict() *node {
	n := &node{op: opDict}
	for !p.takeOp("}") {
		k := p.expr()
		p.expect(":")
		n.a = append(n.a, k, p.expr())
		if !p.takeOp(",") {
			p.expect("}")
			break
		}
	}
	return n
}

// postfix parses attributes, subscripts and calls.
func (p *parser) postfix(e *node) *node {
	for {
		switch {
		case p.takeOp("."):
			switch t := p.next(); t.kind {
			case tokName:
				e = &node{op: opAttr, s: t.s, a: []*node{e}}
			case tokInt:
				n, _ := strconv.ParseInt(t.s, 10, 64)
				e = &node{op: opItem, a: []*node{e, literal(Int(n))}}
			default:
				syntax(t.pos, "expected an attribute")
			}
		case p.takeOp("["):
			e = p.subscript(e)
		case p.takeOp("("):
			e = &node{op: opCall, a: []*node{e}}
			p.args(e)
		default:
			return e
		}
	}
}

func (p *parser) subscript(e *node) *node {
	var x [3]*node
	k, slice := 0, false
	for !p.isOp("]") {
		if p.takeOp(":") {
			if k++; k > 2 {
				syntax(p.cur().pos, "too many parts of a slice")
			}
			slice = true
			continue
		}
		if x[k] != nil {
			syntax(p.cur().pos, "expected ]")
		}
		x[k] = p.expr()
	}
	p.expect("]")
	if slice {
		return &node{op: opSlice, a: []*node{e, x[0], x[1], x[2]}}
	}
	if x[0] == nil {
		syntax(p.cur().pos, "empty subscript")
	}
	return &node{op: opItem, a: []*node{e, x[0]}}
}

// args parses the arguments of a call up to its closing parenthesis. Arguments
// given as * and ** are keywords with these names.
func (p *parser) args(n *node) {
	for !p.takeOp(")") {
		t, after := p.cur(), &p.toks[min(p.i+1, len(p.toks)-1)]
		switch {
		case t.kind == tokName && after.kind == tokOp && after.s == "=":
			p.i += 2
			n.kw = append(n.kw, &node{op: opKeyword, s: t.s, a: []*node{p.expr()}})
		case p.isOp("*") || p.isOp("**"):
			p.i++
			n.kw = append(n.kw, &node{op: opKeyword, s: t.s, a: []*node{p.expr()}})
		default:
			n.a = append(n.a, p.expr())
		}
		if !p.takeOp(",") {
			p.expect(")")
			return
		}
	}
}

// filters parses filters, tests and calls of their results; e is nil before the
// filters of a filter block.
func (p *parser) filters(e *node) *node {
	for {
		switch {
		case p.takeOp("|"):
			e = &node{op: opFilter, s: p.ident(), a: []*node{e}}
			if p.takeOp("(") {
				p.args(e)
			}
		case e != nil && p.takeName("is"):
			e = p.test(e)
		case e != nil && p.takeOp("("):
			e = &node{op: opCall, a: []*node{e}}
			p.args(e)
		default:
			return e
		}
	}
}

func (p *parser) test(e *node) *node {
	neg := p.takeName("not")
	n := &node{op: opTest, s: p.ident(), a: []*node{e}, flag: neg}
	t := p.cur()
	switch {
	case p.takeOp("("):
		p.args(n)
	case t.kind == tokString, t.kind == tokInt, t.kind == tokFloat, p.isOp("["), p.isOp("{"),
		t.kind == tokName && !endsTest[t.s]:
		n.a = append(n.a, p.postfix(p.primary()))
	}
	if len(n.kw) > 0 {
		unsupported("a keyword argument of test %q", n.s)
	}
	return n
}

// endsTest are the words that cannot begin the argument of a test.
var endsTest = map[string]bool{"else": true, "or": true, "and": true, "is": true, "if": true, "not": true, "in": true}
