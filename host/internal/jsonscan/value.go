package jsonscan

// nesting is a stack of open objects (1) and arrays (0).
type nesting struct {
	kind  [MaxDepth / 64]uint64
	depth int
	name  string // the key that Find looks for
	found bool
}

func (n *nesting) push(object bool) {
	w, bit := n.depth>>6, uint64(1)<<(n.depth&63)
	if object {
		n.kind[w] |= bit
	} else {
		n.kind[w] &^= bit
	}
	n.depth++
}

func (n *nesting) object() bool {
	d := n.depth - 1
	return n.kind[d>>6]>>(d&63)&1 != 0
}

// Value walks one value that is depth brackets deep.
func Value(b []byte, i, depth int) (int, *Error) {
	end, _, err := Find(b, i, depth, "")
	return end, err
}

// Find is Value, and reports whether the value may have a member called name, at
// any depth: it has one, or a key with an escape, which is not decoded.
func Find(b []byte, i, depth int, name string) (end int, found bool, err *Error) {
	if i >= len(b) || b[i] != '{' && b[i] != '[' {
		end, err = scalar(b, i)
		return end, false, err
	}
	open := nesting{name: name}
	for {
		// A value begins at i.
		if i < len(b) && (b[i] == '{' || b[i] == '[') {
			if depth+open.depth >= MaxDepth {
				return 0, false, fault(i, "nested too deeply")
			}
			object := b[i] == '{'
			open.push(object)
			i = Space(b, i+1)
			if i >= len(b) || b[i] != closing(object) {
				if !object {
					i = integers(b, i)
				} else if i, err = open.key(b, i); err != nil {
					return 0, false, err
				}
				continue
			}
			i++
			open.depth--
		} else if i, err = scalar(b, i); err != nil {
			return 0, false, err
		}
		// A value ended at i.
		if i, err = open.next(b, i); err != nil || open.depth == 0 {
			return i, open.found, err
		}
	}
}

// next walks what follows a value: closing brackets, then the comma and, in an
// object, the next key. It returns where the next value begins, or the end of
// all when nothing is open.
func (n *nesting) next(b []byte, i int) (int, *Error) {
	for n.depth > 0 {
		i = Space(b, i)
		if i >= len(b) {
			return 0, fault(len(b), "unexpected end")
		}
		object := n.object()
		switch b[i] {
		case closing(object):
			i++
			n.depth--
			continue
		case ',':
			i = Space(b, i+1)
			if object {
				return n.key(b, i)
			}
			return i, nil
		}
		return 0, fault(i, "expected a comma or a closing bracket")
	}
	return i, nil
}

func closing(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

// Each calls f with every member of the object that begins at i: the key with its
// quotes and the value, as offsets. It returns false if f did or if the text is no
// object.
func Each(b []byte, i int, f func(keyStart, keyEnd, start, end int) bool) bool {
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return true
	}
	for {
		key := i
		if i >= len(b) || b[i] != '"' {
			return false
		}
		keyEnd, _, err := String(b, i)
		if err != nil {
			return false
		}
		if i = Space(b, keyEnd); i >= len(b) || b[i] != ':' {
			return false
		}
		start := Space(b, i+1)
		if i, err = Value(b, start, 1); err != nil || !f(key, keyEnd, start, i) {
			return false
		}
		i = Space(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i = Space(b, i+1)
		case i < len(b) && b[i] == '}':
			return true
		default:
			return false
		}
	}
}

// EachElement calls f with the offset of every element of the array that begins
// at i. f returns the offset after the element, -1 to stop. EachElement returns
// false if f stopped or if the text is no array.
func EachElement(b []byte, i int, f func(at int) int) bool {
	if i >= len(b) || b[i] != '[' {
		return false
	}
	i = Space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return true
	}
	for i < len(b) {
		end := f(i)
		if end < 0 {
			return false
		}
		if i = Space(b, end); i >= len(b) {
			return false
		}
		switch b[i] {
		case ']':
			return true
		case ',':
			i = Space(b, i+1)
		default:
			return false
		}
	}
	return false
}

// End returns the offset after the value that begins at i, -1 if it has none.
func End(b []byte, i int) int {
	end, err := Value(b, i, 0)
	if err != nil {
		return -1
	}
	return end
}
