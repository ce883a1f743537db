package jinja

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

func filterAbs(_ *run, v Value, _ []Value, _ []keyword) Value {
	switch {
	case v.isInt():
		if v.n < 0 {
			return negate(v)
		}
		return Int(v.n)
	case v.k == kindFloat:
		return Float(math.Abs(v.float()))
	case v.k == kindBig:
		return bigInt(strings.TrimPrefix(v.s, "-"))
	}
	fail("object has no absolute value")
	return undefined
}

func filterInt(r *run, v Value, a []Value, kw []keyword) Value {
	def, base := argument(a, kw, 0, "default"), 10
	if def.k == kindUndefined {
		def = Int(0)
	}
	if b := argument(a, kw, 1, "base"); b.isInt() {
		base = int(b.n)
	}
	switch {
	case v.IsString():
		return r.parseInt(r.str(v), base, def)
	case v.isInt():
		return Int(v.n)
	case v.k == kindBig:
		return v
	case v.k == kindFloat:
		return truncate(v.float(), def)
	}
	return def
}

// truncate implements int() of a float.
func truncate(f float64, def Value) Value {
	switch {
	case f != f || math.IsInf(f, 0):
		return def
	case math.Abs(f) >= 1<<63:
		unsupported("int of a float beyond 64 bits")
	}
	return Int(int64(f))
}

// parseInt implements int() of a string, and uses float() if that fails.
func (r *run) parseInt(s string, base int, def Value) Value {
	r.charge(len(s))
	s = strings.TrimFunc(s, IsSpace)
	refuseDigits(s)
	if base != 10 {
		unsupported("int with a base")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		return Int(n)
	}
	if errors.Is(err, strconv.ErrRange) {
		sign := ""
		if s[0] == '-' {
			sign = "-"
		}
		return bigInt(sign + strings.TrimLeft(s, "+-0"))
	}
	f, ok := parseFloat(s)
	if !ok {
		return def
	}
	return truncate(f, def)
}

// refuseDigits rejects number formats that Go and Python read differently.
func refuseDigits(s string) {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= 0x80 || c == '_' {
			unsupported("a number in digits beyond ASCII or with underscores")
		}
	}
}

// parseFloat implements Python's float() of a string.
func parseFloat(s string) (float64, bool) {
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "nan", "inf", "infinity":
	default:
		if strings.ContainsAny(s, "xXpPnNiI") {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

func filterFloat(r *run, v Value, a []Value, kw []keyword) Value {
	def := argument(a, kw, 0, "default")
	if def.k == kindUndefined {
		def = Float(0)
	}
	if v.IsString() {
		s := strings.TrimFunc(r.str(v), IsSpace)
		refuseDigits(s)
		if f, ok := parseFloat(s); ok {
			return Float(f)
		}
		return def
	}
	if f, ok := v.number(); ok {
		return Float(f)
	}
	return def
}
