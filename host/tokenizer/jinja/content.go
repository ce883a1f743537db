package jinja

// loopsOverContent follows vLLM's detection node by node: which names refer to
// the messages, which loop variables refer to one message, and whether a loop
// iterates over such a message's content, over a macro parameter that receives
// it, or, outside macros, over a variable named content. If one of them is
// assigned to several names or to a namespace, vLLM gives up, and so does this
// function: it returns false.
func loopsOverContent(body []*node) bool {
	root := &node{op: opBlock, body: body}
	d := &detector{root: root, macros: map[*node]*node{}}
	root.walk(func(n *node) {
		switch n.op {
		case opFor:
			d.loops = append(d.loops, n)
		case opSet:
			d.sets = append(d.sets, n)
		case opMacro:
			n.walk(func(x *node) {
				if x.op == opFor {
					d.macros[x] = n
				}
			})
		}
	})
	if !d.findMessages() {
		return false
	}
	for _, l := range d.loops {
		if d.overContent(l) {
			return len(l.names) == 1
		}
	}
	return false
}

type detector struct {
	root    *node
	loops   []*node
	sets    []*node
	macros  map[*node]*node // the macro that contains a loop
	message []string        // names of loop variables over the messages
}

// findMessages fills message.
func (d *detector) findMessages() bool {
	names := []string{"messages"} // names assigned the messages or a part of them
	seen := map[string]bool{"messages": true}
	for i := 0; i < len(names); i++ {
		for _, s := range d.sets {
			if !isVarOrParts(s.a[0], names[i], "") {
				continue
			}
			if s.s != "" || s.flag {
				return false
			}
			if !seen[s.names[0]] {
				seen[s.names[0]] = true
				names = append(names, s.names[0])
			}
		}
	}
	for _, l := range d.loops {
		for _, n := range names {
			if !isVarOrParts(l.a[0], n, "") {
				continue
			}
			if len(l.names) != 1 {
				return false
			}
			d.message = append(d.message, l.names[0])
			break
		}
	}
	return true
}

// isVarOrParts reports whether n is the variable name (or its key, unless key is
// empty), optionally filtered, tested or sliced.
func isVarOrParts(n *node, name, key string) bool {
	switch n.op {
	case opFilter:
		return n.a[0] != nil && isVarOrParts(n.a[0], name, key)
	case opTest, opSlice, opParen:
		return isVarOrParts(n.a[0], name, key)
	}
	if key == "" {
		return n.op == opName && n.s == name
	}
	switch n.op {
	case opItem:
		k := n.a[1]
		return n.a[0].op == opName && n.a[0].s == name && k.op == opLiteral && k.v.k == kindString && k.v.s == key
	case opAttr:
		return n.a[0].op == opName && n.a[0].s == name && n.s == key
	}
	return false
}

func (d *detector) isContent(n *node) bool {
	for _, m := range d.message {
		if isVarOrParts(n, m, "content") {
			return true
		}
	}
	return false
}

func (d *detector) overContent(l *node) bool {
	source := l.a[0]
	if d.isContent(source) {
		return true
	}
	if source.op != opName {
		return false
	}
	macro := d.macros[l]
	if macro == nil {
		return source.s == "content"
	}
	return d.isGivenContent(macro, source.s)
}

// isGivenContent reports whether a call of macro passes a message's content as
// param.
func (d *detector) isGivenContent(macro *node, param string) bool {
	found := false
	d.root.walk(func(c *node) {
		if c.op != opCall || c.a[0].op != opName || c.a[0].s != macro.s {
			return
		}
		for i, a := range c.a[1:] {
			if i < len(macro.names) && macro.names[i] == param && d.isContent(a) {
				found = true
			}
		}
		for _, k := range c.kw {
			if k.s == param && d.isContent(k.a[0]) {
				found = true
			}
		}
	})
	return found
}
