package jinja

import (
	"math/big"
	"strings"
)

// equal implements Python's ==.
func (r *run) equal(a, b Value) bool { return r.equalAt(a, b, 0) }

func (r *run) equalAt(a, b Value, depth int) bool {
	if depth > maxNesting {
		throw(ErrDepth)
	}
	if a.k == kindString && b.k == kindString {
		return a.s == b.s
	}
	if a.isInt() && b.isInt() {
		return a.n == b.n
	}
	if _, ok := a.number(); ok {
		_, ok := b.number()
		return ok && compareNumbers(a, b) == 0
	}
	switch {
	case a.IsString() && b.IsString():
		return r.str(a) == r.str(b)
	case a.k != b.k:
		return false
	}
	switch a.k {
	case kindNone, kindUndefined:
		return true
	case kindList:
		return r.equalLists(a.p.(*list), b.p.(*list), depth)
	case kindDict:
		return r.equalDicts(a.p.(*Dict), b.p.(*Dict), depth)
	}
	return a.p == b.p
}

func (r *run) equalLists(a, b *list, depth int) bool {
	if a.tuple != b.tuple || len(a.items) != len(b.items) {
		return false
	}
	r.chargeValues(len(a.items))
	for i := range a.items {
		if !r.equalAt(a.items[i], b.items[i], depth+1) {
			return false
		}
	}
	return true
}

func (r *run) equalDicts(a, b *Dict, depth int) bool {
	if len(a.Keys) != len(b.Keys) {
		return false
	}
	r.chargeValues(len(a.Keys))
	for i, k := range a.Keys {
		v, ok := b.Get(k)
		if !ok || !r.equalAt(v, a.Vals[i], depth+1) {
			return false
		}
	}
	return true
}

// compareNumbers orders two numbers exactly, as Python does. For a NaN it
// returns 2: a NaN is unequal to every number and not less than any.
func compareNumbers(a, b Value) int {
	if a.isInt() && b.isInt() {
		return order(a.n < b.n, a.n > b.n)
	}
	x, _ := a.number()
	y, _ := b.number()
	if x != x || y != y {
		return 2
	}
	if x < y || x > y || a.k == kindFloat && b.k == kindFloat {
		return order(x < y, x > y)
	}
	// An integer that its float does not represent exactly.
	p, ok1 := rational(a)
	q, ok2 := rational(b)
	if !ok1 || !ok2 {
		return order(x < y, x > y)
	}
	return p.Cmp(q)
}

// rational returns the exact value of v, and false for infinities and NaN.
func rational(v Value) (*big.Rat, bool) {
	switch v.k {
	case kindInt, kindBool:
		return new(big.Rat).SetInt64(v.n), true
	case kindBig:
		return new(big.Rat).SetString(v.s)
	}
	q := new(big.Rat).SetFloat64(v.float())
	return q, q != nil
}

func order(less, greater bool) int {
	switch {
	case less:
		return -1
	case greater:
		return 1
	}
	return 0
}

// less orders two values of one type. It returns a negative number if a comes
// first, and 2 if the values have no order (NaN).
func (r *run) less(a, b Value) int {
	if a.IsString() && b.IsString() {
		return strings.Compare(r.str(a), r.str(b))
	}
	_, ok1 := a.number()
	_, ok2 := b.number()
	if ok1 && ok2 {
		return compareNumbers(a, b)
	}
	if a.k == kindList && b.k == kindList {
		p, q := a.items(), b.items()
		for i := 0; i < len(p) && i < len(q); i++ {
			if !r.equal(p[i], q[i]) {
				return r.less(p[i], q[i])
			}
		}
		return order(len(p) < len(q), len(p) > len(q))
	}
	fail("values cannot be ordered")
	return 0
}

// contains implements Python's x in c.
func (r *run) contains(c, x Value) bool {
	switch c.k {
	case kindString, kindRope:
		if !x.IsString() {
			fail("'in <string>' requires a string")
		}
		return r.has(c, r.str(x))
	case kindDict:
		d := c.p.(*Dict)
		if x.IsString() == d.ints || !x.IsString() && !x.isInt() {
			return false
		}
		return d.find(r.str(x)) >= 0
	case kindList:
		r.chargeValues(len(c.items()))
		for _, y := range c.items() {
			if r.equal(x, y) {
				return true
			}
		}
		return false
	case kindUndefined:
		return false
	}
	fail("argument of 'in' is not iterable")
	return false
}

// comparison is an operator of a comparison.
type comparison uint8

const (
	cmpEq comparison = iota
	cmpNe
	cmpLt
	cmpGt
	cmpLe
	cmpGe
	cmpIn
	cmpNotIn
)

var comparisons = map[string]comparison{"==": cmpEq, "!=": cmpNe, "<": cmpLt, ">": cmpGt, "<=": cmpLe, ">=": cmpGe}

func (r *run) compare(op comparison, a, b Value) bool {
	switch op {
	case cmpEq:
		return r.equal(a, b)
	case cmpNe:
		return !r.equal(a, b)
	case cmpIn:
		return r.contains(b, a)
	case cmpNotIn:
		return !r.contains(b, a)
	}
	return holds(op, r.less(a, b))
}

// holds reports whether order c (a result of less) satisfies op.
func holds(op comparison, c int) bool {
	switch op {
	case cmpLt:
		return c < 0
	case cmpGt:
		return c == 1
	case cmpLe:
		return c <= 0
	case cmpGe:
		return c == 0 || c == 1
	case cmpEq:
		return c == 0
	}
	return c != 0
}
