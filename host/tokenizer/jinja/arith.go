package jinja

import (
	"math"
	"math/bits"
	"strings"
)

// plus adds operands from the left. It joins a run of strings at once.
func (r *run) plus(vs []Value) Value {
	for i := range vs {
		if vs[i].safe {
			return r.concatSafe(vs)
		}
	}
	acc := vs[0]
	for i := 1; i < len(vs); i++ {
		if acc.IsString() {
			j := i
			for j < len(vs) && vs[j].IsString() {
				j++
			}
			if j > i {
				acc = r.concat(append([]Value{acc}, vs[i:j]...))
				i = j - 1
				continue
			}
		}
		acc = r.arith(opAdd, acc, vs[i])
	}
	return acc
}

// arith applies a binary operator.
func (r *run) arith(op operation, a, b Value) Value {
	if v, ok := r.sequenceArith(op, a, b); ok {
		return v
	}
	if a.safe || b.safe {
		unsupported("an operator on a safe string")
	}
	if a.isInt() && b.isInt() && op != opDiv {
		return intArith(op, a.n, b.n)
	}
	x, ok1 := a.number()
	y, ok2 := b.number()
	if !ok1 || !ok2 {
		fail("invalid operands for operator %s", op)
	}
	if a.k == kindBig || b.k == kindBig {
		unsupported("arithmetic of integers beyond 64 bits")
	}
	return floatArith(op, x, y)
}

// sequenceArith is arith for strings and lists.
func (r *run) sequenceArith(op operation, a, b Value) (Value, bool) {
	switch {
	case op == opAdd && a.IsString() && b.IsString():
		return r.concat([]Value{a, b}), true
	case op == opAdd && a.k == kindList && b.k == kindList:
		x, y := a.p.(*list), b.p.(*list)
		if x.tuple != y.tuple || x.gen != isList || y.gen != isList {
			fail("only lists can be added to lists")
		}
		r.chargeValues(len(x.items) + len(y.items))
		items := append(append(make([]Value, 0, len(x.items)+len(y.items)), x.items...), y.items...)
		return Value{k: kindList, p: &list{items: items, tuple: x.tuple}}, true
	case op == opMul && (a.IsString() && b.isInt() || b.IsString() && a.isInt()):
		if b.IsString() {
			a, b = b, a
		}
		n := max(0, b.n)
		if n > 0 && int64(a.size()) > r.bytes/n {
			throw(ErrBytes)
		}
		r.charge(a.size() * int(n))
		s := Str(strings.Repeat(r.str(a), int(n)))
		s.safe = a.safe
		return s, true
	case op == opMod && a.IsString():
		return r.formatPercent(a, b), true
	}
	return Value{}, false
}

func overflow() { unsupported("arithmetic of integers beyond 64 bits") }

func intArith(op operation, x, y int64) Value {
	switch op {
	case opAdd:
		s := x + y
		if (x^s)&(y^s) < 0 {
			overflow()
		}
		return Int(s)
	case opSub:
		s := x - y
		if (x^y)&(x^s) < 0 {
			overflow()
		}
		return Int(s)
	case opMul:
		return Int(mulInt(x, y))
	case opFloorDiv, opMod:
		return Int(divInt(op, x, y))
	}
	if y < 0 {
		return floatArith(op, float64(x), float64(y))
	}
	n := int64(1)
	if y > 63 && (x < -1 || x > 1) {
		overflow()
	}
	for i := int64(0); i < min(y, 64+y&1); i++ {
		n = mulInt(n, x)
	}
	return Int(n)
}

func mulInt(x, y int64) int64 {
	hi, lo := bits.Mul64(magnitude(x), magnitude(y))
	if hi != 0 || lo > math.MaxInt64 {
		overflow()
	}
	if (x < 0) != (y < 0) {
		return -int64(lo)
	}
	return int64(lo)
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return uint64(-x)
	}
	return uint64(x)
}

// divInt rounds towards minus infinity; the remainder has the divisor's sign.
func divInt(op operation, x, y int64) int64 {
	if y == 0 {
		fail("division by zero")
	}
	if y == -1 {
		if op == opMod {
			return 0
		}
		return mulInt(x, -1)
	}
	q, m := x/y, x%y
	if m != 0 && (m < 0) != (y < 0) {
		q--
		m += y
	}
	if op == opMod {
		return m
	}
	return q
}

func floatArith(op operation, x, y float64) Value {
	switch op {
	case opAdd:
		return Float(x + y)
	case opSub:
		return Float(x - y)
	case opMul:
		return Float(x * y)
	case opPow:
		if x < 0 && y != math.Trunc(y) || x == 0 && y < 0 {
			unsupported("this power")
		}
		return Float(math.Pow(x, y))
	}
	if y == 0 {
		fail("division by zero")
	}
	switch op {
	case opDiv:
		return Float(x / y)
	case opFloorDiv:
		return Float(math.Floor(x / y))
	}
	m := math.Mod(x, y)
	if m != 0 && (m < 0) != (y < 0) {
		m += y
	}
	return Float(m)
}

// negate implements the unary minus.
func negate(v Value) Value {
	switch {
	case v.isInt():
		return Int(mulInt(v.n, -1))
	case v.k == kindFloat:
		return Float(-v.float())
	case v.k == kindBig:
		if strings.HasPrefix(v.s, "-") {
			return bigInt(v.s[1:])
		}
		return bigInt("-" + v.s)
	}
	fail("invalid operand for unary -")
	return undefined
}
