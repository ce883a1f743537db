package jinja

// frameLayout counts the variables of one frame: the template's body or one
// macro.
type frameLayout struct{ n int }

// scope maps names to variables of its frame. Loops, blocks and macros open
// scopes; the scopes of loops and blocks belong to the surrounding frame.
type scope struct {
	names map[string]int
	up    *scope
	f     *frameLayout
}

// newScope opens a scope with every name that body assigns at its own level.
func newScope(up *scope, f *frameLayout, body []*node) *scope {
	s := &scope{map[string]int{}, up, f}
	s.collect(body)
	return s
}

func (s *scope) add(name string) int {
	if i, ok := s.names[name]; ok {
		return i
	}
	s.names[name] = s.f.n
	s.f.n++
	return s.names[name]
}

func (s *scope) collect(body []*node) {
	for _, n := range body {
		switch n.op {
		case opSet, opSetBlock:
			if n.s == "" {
				for _, x := range n.names {
					s.add(x)
				}
			}
		case opMacro:
			s.add(n.s)
		case opIf:
			for _, b := range n.body {
				s.collect(b.body)
			}
			s.collect(n.els)
		}
	}
}

// slots returns the variables of s except those of the names in keep.
func (s *scope) slots(keep ...string) []int {
	var out []int
next:
	for name, i := range s.names {
		for _, k := range keep {
			if k == name {
				continue next
			}
		}
		out = append(out, i)
	}
	return out
}

// compiler converts the syntax tree into closures.
type compiler struct{ t *Template }

// input returns the position of name among the template's inputs.
func (c *compiler) input(name string) int {
	i, ok := c.t.index[name]
	if !ok {
		i = len(c.t.inputs)
		c.t.inputs = append(c.t.inputs, name)
		c.t.index[name] = i
	}
	return i
}

// place is a possible location of a name: number of frames outwards, then the variable.
type place struct{ out, slot int }

// load reads a name: the innermost variable that has a value, else the input.
func (c *compiler) load(name string, sc *scope) exprFunc {
	at := c.ref(name, sc)
	return func(f *frame) Value { return *at(f) }
}

// ref is load without a copy of the value. What it returns must not be written, and is
// valid until the next assignment to the name.
func (c *compiler) ref(name string, sc *scope) func(*frame) *Value {
	var places []place
	out := 0
	for s := sc; s != nil; s = s.up {
		if i, ok := s.names[name]; ok {
			places = append(places, place{out, i})
		}
		if s.up != nil && s.up.f != s.f {
			out++
		}
	}
	in := c.input(name)
	if len(places) == 0 {
		return func(f *frame) *Value { return &f.r.vars[in] }
	}
	if len(places) == 1 && places[0].out == 0 {
		slot := places[0].slot
		return func(f *frame) *Value {
			if v := &f.vars[slot]; v.k != kindUnset {
				return v
			}
			return &f.r.vars[in]
		}
	}
	return func(f *frame) *Value {
		out, x := 0, f
		for _, p := range places {
			for out < p.out {
				x = x.up
				out++
			}
			if v := &x.vars[p.slot]; v.k != kindUnset {
				return v
			}
		}
		return &f.r.vars[in]
	}
}
