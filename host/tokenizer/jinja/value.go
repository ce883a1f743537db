package jinja

import (
	"math"
	"strconv"
)

type kind uint8

const (
	kindUnset     kind = iota // a variable without a value: the name is looked up in the outer scopes
	kindUndefined             // Jinja's Undefined; s is its name
	kindNone
	kindBool
	kindInt
	kindFloat
	kindBig // an integer beyond int64; s holds its digits
	kindString
	kindRope
	kindList
	kindDict
	kindFunc
	kindNamespace
	kindLoop
)

// Value is a value of a template. It is immutable, except for namespaces, which
// belong to one render.
type Value struct {
	k    kind
	safe bool   // Markup: strings joined to it are HTML-escaped
	n    int64  // bool, int, bits of a float; string: its offset in the Text
	s    string // string, digits of a big integer, name of an undefined value
	p    any    // *Text, *rope, *list, *Dict, *function, *namespace, *loop
}

type list struct {
	items []Value
	tuple bool
	gen   listType
}

// listType is the Python type of a list value that is not a list.
type listType uint8

const (
	isList      listType = iota
	isGenerator          // has no length and is always true
	isView               // keys, values, items of a dict: no index
)

// function is a macro, a builtin, or a method bound to its object.
type function struct {
	name string
	call func(r *run, args []Value, kw []keyword) Value
}

// keyword is a named argument.
type keyword struct {
	name string
	v    Value
}

type namespace struct{ Dict }

var undefined = Value{k: kindUndefined}

// Undefined is the value of a name that is not set. As a variable it shadows a
// builtin of its name.
var Undefined = undefined

// None is Python's None and JSON's null.
var None = Value{k: kindNone}

// Bool returns a boolean.
func Bool(b bool) Value {
	if b {
		return Value{k: kindBool, n: 1}
	}
	return Value{k: kindBool}
}

// Int returns an integer.
func Int(n int64) Value { return Value{k: kindInt, n: n} }

// Float returns a floating point number.
func Float(f float64) Value { return Value{k: kindFloat, n: int64(math.Float64bits(f))} }

// Str returns a string that has no identity of its own; it is copied into the
// output.
func Str(s string) Value { return Value{k: kindString, s: s} }

// List returns a list of items and takes ownership of the slice.
func List(items []Value) Value { return Value{k: kindList, p: &list{items: items}} }

// Func returns a function of positional arguments. An error that it returns
// becomes the render's error.
func Func(name string, call func(args []Value) (Value, error)) Value {
	return fn(name, func(_ *run, args []Value, _ []keyword) Value {
		v, err := call(args)
		if err != nil {
			throw(err)
		}
		return v
	})
}

func fn(name string, call func(r *run, args []Value, kw []keyword) Value) Value {
	return Value{k: kindFunc, p: &function{name, call}}
}

func bigInt(digits string) Value { return Value{k: kindBig, s: digits} }
func tuple(items ...Value) Value { return Value{k: kindList, p: &list{items: items, tuple: true}} }
func generator(items []Value) Value {
	return Value{k: kindList, p: &list{items: items, gen: isGenerator}}
}
func view(items []Value) Value { return Value{k: kindList, p: &list{items: items, gen: isView}} }

// IsString reports whether v is a string.
func (v Value) IsString() bool { return v.k == kindString || v.k == kindRope }

// IsNone reports whether v is None.
func (v Value) IsNone() bool { return v.k == kindNone }

// IsBool reports whether v is a boolean.
func (v Value) IsBool() bool { return v.k == kindBool }

// Dict returns v as a mapping, or nil if it is none.
func (v Value) Dict() *Dict {
	d, _ := v.p.(*Dict)
	return d
}

// Items returns the items of a list, which the caller must not modify, and
// whether v is a list.
func (v Value) Items() ([]Value, bool) {
	if l, ok := v.p.(*list); ok {
		return l.items, true
	}
	return nil, false
}

// Text returns the bytes of a string, "" for other values.
func (v Value) Text() string {
	switch v.k {
	case kindString:
		return v.s
	case kindRope:
		return v.p.(*rope).join()
	}
	return ""
}

// Truth implements Python's bool().
func (v Value) Truth() bool {
	switch v.k {
	case kindBool, kindInt:
		return v.n != 0
	case kindFloat:
		return v.float() != 0
	case kindBig, kindFunc, kindNamespace, kindLoop:
		return true
	case kindString:
		return len(v.s) > 0
	case kindRope:
		return v.p.(*rope).n > 0
	case kindList:
		l := v.p.(*list)
		return len(l.items) > 0 || l.gen == isGenerator
	case kindDict:
		return len(v.p.(*Dict).Keys) > 0
	}
	return false
}

func (v Value) float() float64 { return math.Float64frombits(uint64(v.n)) }
func (v Value) items() []Value { return v.p.(*list).items }
func (v Value) isInt() bool    { return v.k == kindInt || v.k == kindBool }

func (v Value) text() *Text {
	t, _ := v.p.(*Text)
	return t
}

// number returns v as a float, if it is a number.
func (v Value) number() (float64, bool) {
	switch v.k {
	case kindInt, kindBool:
		return float64(v.n), true
	case kindFloat:
		return v.float(), true
	case kindBig:
		f, _ := strconv.ParseFloat(v.s, 64)
		return f, true
	}
	return 0, false
}

// iter returns the values of a loop over v.
func (r *run) iter(v Value) []Value {
	switch v.k {
	case kindList:
		return v.items()
	case kindDict:
		d := v.p.(*Dict)
		r.chargeValues(len(d.Keys))
		items := make([]Value, len(d.Keys))
		for i := range d.Keys {
			items[i] = d.key(i)
		}
		return items
	case kindString, kindRope:
		return r.characters(v)
	case kindUndefined:
		return nil
	}
	fail("object is not iterable")
	return nil
}
