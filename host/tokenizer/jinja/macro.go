package jinja

// macro returns the code that creates the macro's function in the frame in which
// the macro is defined.
func (c *compiler) macro(n *node, sc *scope) func(*frame) Value {
	layout := &frameLayout{}
	ms := &scope{map[string]int{}, sc, layout}
	m := &macro{name: n.s, layout: layout}
	for _, x := range n.names {
		m.params = append(m.params, param{name: x, slot: ms.add(x)})
	}
	m.caller, m.varargs, m.kwargs = ms.add("caller"), ms.add("varargs"), ms.add("kwargs")
	ms.collect(n.body)
	for i, d := range n.kw {
		if d != nil {
			m.params[i].def = c.expr(d, ms)
		}
	}
	m.usesCaller, m.usesVarargs = mentions(n.body, "caller"), mentions(n.body, "varargs")
	m.usesKwargs = mentions(n.body, "kwargs")
	m.body = c.stmts(n.body, ms)
	return func(f *frame) Value {
		return fn(m.name, func(r *run, args []Value, kw []keyword) Value { return m.call(f, r, args, kw) })
	}
}

// mentions reports whether name occurs anywhere in body.
func mentions(body []*node, name string) bool {
	found := false
	for _, n := range body {
		n.walk(func(n *node) { found = found || n.op == opName && n.s == name })
	}
	return found
}

type macro struct {
	name                    string
	layout                  *frameLayout
	params                  []param
	body                    []stmtFunc
	caller, varargs, kwargs int // variables

	usesCaller, usesVarargs, usesKwargs bool
}

type param struct {
	name string
	slot int
	def  exprFunc // default value, nil: undefined
}

// call runs the macro; up is the frame in which it was defined.
func (m *macro) call(up *frame, r *run, args []Value, kw []keyword) Value {
	r.step()
	if r.depth++; r.depth > r.maxDepth {
		throw(ErrDepth)
	}
	f := &frame{vars: make([]Value, m.layout.n), up: up, r: r}
	m.bind(f, args, kw)
	outer := r.capture()
	exec(m.body, f)
	r.depth--
	return r.release(outer)
}

// bind assigns values to the parameters as Jinja2's Macro does.
func (m *macro) bind(f *frame, args []Value, kw []keyword) {
	if len(args) > len(m.params) && !m.usesVarargs {
		fail("macro %q takes at most %d arguments", m.name, len(m.params))
	}
	rest := Dict{}
	f.vars[m.caller] = undefined
	for i := range args[:min(len(args), len(m.params))] {
		f.vars[m.params[i].slot] = args[i]
	}
	for _, k := range kw {
		if k.name == "caller" && m.usesCaller {
			f.vars[m.caller] = k.v
		} else if p := m.param(k.name); p == nil {
			rest.Set(k.name, k.v)
		} else if f.vars[p.slot].k == kindUnset {
			f.vars[p.slot] = k.v
		} else {
			fail("macro %q got two values for %q", m.name, k.name)
		}
	}
	if len(rest.Keys) > 0 && !m.usesKwargs {
		fail("macro %q takes no argument %q", m.name, rest.Keys[0])
	}
	for _, p := range m.params {
		if f.vars[p.slot].k != kindUnset {
			continue
		}
		if p.def != nil {
			f.vars[p.slot] = p.def(f)
		} else {
			f.vars[p.slot] = Value{k: kindUndefined, s: p.name}
		}
	}
	if m.usesKwargs {
		f.vars[m.kwargs] = (&Dict{Keys: rest.Keys, Vals: rest.Vals}).Value()
	}
	if m.usesVarargs {
		f.vars[m.varargs] = tuple(args[min(len(args), len(m.params)):]...)
	}
}

func (m *macro) param(name string) *param {
	for i := range m.params {
		if m.params[i].name == name {
			return &m.params[i]
		}
	}
	return nil
}

// callBlock calls a macro that may call back the block's body.
func (c *compiler) callBlock(n *node, sc *scope) stmtFunc {
	caller := c.macro(&node{op: opMacro, s: "caller", names: n.names, kw: n.kw, body: n.body}, sc)
	call := n.a[0]
	callee := c.expr(call.a[0], sc)
	args := c.arguments(call.a[1:], call.kw, sc)
	return func(f *frame) control {
		o := callee(f)
		if o.k != kindFunc {
			fail("object is not callable")
		}
		a, kw := args.eval(f)
		kw = append(kw, keyword{"caller", caller(f)})
		f.r.out.write(f.r, o.p.(*function).call(f.r, a, kw))
		return proceed
	}
}

// arguments are the compiled arguments of a call.
type arguments struct {
	args  []exprFunc
	kw    []exprFunc
	names []string // names of kw; "*" and "**" are unpacked
}

func (c *compiler) arguments(args, kw []*node, sc *scope) *arguments {
	a := &arguments{args: c.exprs(args, sc)}
	for _, k := range kw {
		a.names = append(a.names, k.s)
		a.kw = append(a.kw, c.expr(k.a[0], sc))
	}
	return a
}

func (a *arguments) eval(f *frame) ([]Value, []keyword) {
	var vs []Value
	if len(a.args) > 0 {
		vs = make([]Value, len(a.args))
		for i, x := range a.args {
			vs[i] = x(f)
		}
	}
	var kw []keyword
	if len(a.kw) > 0 {
		kw = make([]keyword, 0, len(a.kw))
	}
	for i, x := range a.kw {
		v := x(f)
		switch a.names[i] {
		case "*":
			items := f.r.iter(v)
			f.r.chargeValues(len(items))
			vs = append(vs, items...)
		case "**":
			d := v.Dict()
			if d == nil {
				fail("argument after ** is not a mapping")
			}
			f.r.chargeValues(len(d.Keys))
			for j, k := range d.Keys {
				kw = append(kw, keyword{k, d.Vals[j]})
			}
		default:
			kw = append(kw, keyword{a.names[i], v})
		}
	}
	return vs, kw
}
