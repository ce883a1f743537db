package jinja

import "fmt"

// maxParseDepth limits recursion over nested syntax.
const maxParseDepth = 500

// parser is a recursive descent parser over tokens. Its methods throw errors.
type parser struct {
	toks  []token
	i     int
	depth int
}

func (p *parser) cur() *token        { return &p.toks[p.i] }
func (p *parser) isOp(s string) bool { return p.cur().kind == tokOp && p.cur().s == s }
func (p *parser) isName(s string) bool {
	return p.cur().kind == tokName && p.cur().s == s
}

// next returns the current token and advances, but never past the end.
func (p *parser) next() *token {
	t := p.cur()
	if t.kind != tokEnd {
		p.i++
	}
	return t
}

func (p *parser) enter() func() {
	if p.depth++; p.depth > maxParseDepth {
		throw(ErrDepth)
	}
	return func() { p.depth-- }
}

func (p *parser) takeOp(s string) bool {
	if p.isOp(s) {
		p.i++
		return true
	}
	return false
}

func (p *parser) takeName(s string) bool {
	if p.isName(s) {
		p.i++
		return true
	}
	return false
}

func (p *parser) expect(op string) {
	if !p.takeOp(op) {
		syntax(p.cur().pos, fmt.Sprintf("expected %q", op))
	}
}

func (p *parser) ident() string {
	if p.cur().kind != tokName {
		syntax(p.cur().pos, "expected a name")
	}
	return p.next().s
}

func (p *parser) endBlock() {
	if p.cur().kind != tokBlockEnd {
		syntax(p.cur().pos, "expected the end of the tag")
	}
	p.i++
}

// body parses statements up to one of the tags in ends and returns them with that
// tag. It consumes the tag's name but not the tag's end.
func (p *parser) body(ends ...string) ([]*node, string) {
	defer p.enter()()
	var out []*node
	for {
		t := p.cur()
		switch t.kind {
		case tokEnd:
			if len(ends) > 0 {
				syntax(t.pos, fmt.Sprintf("missing %v", ends))
			}
			return out, ""
		case tokText:
			p.i++
			out = append(out, &node{op: opText, s: t.s})
		case tokVarBegin:
			p.i++
			e := p.tupleExpr()
			if p.cur().kind != tokVarEnd {
				syntax(p.cur().pos, "expected }}")
			}
			p.i++
			out = append(out, &node{op: opOutput, a: []*node{e}})
		case tokBlockBegin:
			p.i++
			w := p.ident()
			for _, e := range ends {
				if e == w {
					return out, w
				}
			}
			out = append(out, p.stmt(w, t.pos))
		default:
			syntax(t.pos, "unexpected token")
		}
	}
}

// until parses a body up to one end tag and its end.
func (p *parser) until(end string) []*node {
	b, _ := p.body(end)
	p.endBlock()
	return b
}

func (p *parser) stmt(w string, pos int) *node {
	switch w {
	case "if":
		return p.ifStmt()
	case "for":
		return p.forStmt()
	case "set":
		return p.setStmt()
	case "macro":
		n := &node{op: opMacro, s: p.ident()}
		p.params(n)
		p.endBlock()
		n.body = p.until("endmacro")
		return n
	case "call":
		n := &node{op: opCallBlock}
		if p.isOp("(") {
			p.params(n)
		}
		c := p.expr()
		if c.op != opCall {
			syntax(pos, "expected a call")
		}
		n.a = []*node{c}
		p.endBlock()
		n.body = p.until("endcall")
		return n
	case "filter":
		f := &node{op: opFilter, s: p.ident(), a: []*node{nil}}
		if p.takeOp("(") {
			p.args(f)
		}
		n := &node{op: opFilterBlock, a: []*node{p.filters(f)}}
		p.endBlock()
		n.body = p.until("endfilter")
		return n
	case "generation":
		p.endBlock()
		return &node{op: opScope, body: p.until("endgeneration")}
	case "break", "continue":
		p.endBlock()
		if w == "break" {
			return &node{op: opBreak}
		}
		return &node{op: opContinue}
	case "block", "extends", "include", "import", "from", "with", "autoescape", "do", "trans":
		unsupported("tag %q", w)
	}
	syntax(pos, fmt.Sprintf("unknown tag %q", w))
	return nil
}

func (p *parser) ifStmt() *node {
	n := &node{op: opIf}
	for {
		c := p.tupleExpr()
		p.endBlock()
		b, end := p.body("elif", "else", "endif")
		n.a = append(n.a, c)
		n.body = append(n.body, &node{op: opBlock, body: b})
		if end == "elif" {
			continue
		}
		p.endBlock()
		if end == "else" {
			n.els = p.until("endif")
		}
		return n
	}
}

func (p *parser) forStmt() *node {
	n := &node{op: opFor, names: p.targets()}
	if !p.takeName("in") {
		syntax(p.cur().pos, "expected in")
	}
	n.a = []*node{p.tuple(p.or), nil}
	if p.takeName("if") {
		n.a[1] = p.expr()
	}
	if p.isName("recursive") {
		unsupported("a recursive loop")
	}
	p.endBlock()
	b, end := p.body("else", "endfor")
	n.body = b
	p.endBlock()
	if end == "else" {
		n.els = p.until("endfor")
	}
	return n
}

func (p *parser) setStmt() *node {
	n := &node{op: opSet}
	x := p.ident()
	if p.takeOp(".") {
		n.s = x
		n.names = []string{p.ident()}
	} else {
		n.names = []string{x}
		for p.takeOp(",") {
			n.names = append(n.names, p.ident())
			n.flag = true
		}
	}
	if p.takeOp("=") {
		n.a = []*node{p.tupleExpr()}
		p.endBlock()
		return n
	}
	if n.flag {
		syntax(p.cur().pos, "expected =")
	}
	n.op = opSetBlock
	n.a = []*node{nil}
	if p.isOp("|") {
		n.a[0] = p.filters(nil)
	}
	p.endBlock()
	n.body = p.until("endset")
	return n
}

// params parses the parameters of a macro with their defaults.
func (p *parser) params(n *node) {
	p.expect("(")
	for !p.takeOp(")") {
		n.names = append(n.names, p.ident())
		var d *node
		if p.takeOp("=") {
			d = p.expr()
		}
		n.kw = append(n.kw, d)
		if !p.takeOp(",") {
			p.expect(")")
			return
		}
	}
}

// targets parses the names that a loop assigns.
func (p *parser) targets() []string {
	paren := p.takeOp("(")
	l := []string{p.ident()}
	for p.takeOp(",") {
		l = append(l, p.ident())
	}
	if paren {
		p.expect(")")
	}
	return l
}
