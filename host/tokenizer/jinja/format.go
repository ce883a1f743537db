package jinja

import (
	"strconv"
	"strings"
)

// formatPercent implements the % operator of strings: %s and %d without flags.
func (r *run) formatPercent(format, args Value) Value {
	a := []Value{args}
	if l, ok := args.p.(*list); ok && l.tuple {
		a = l.items
	} else if args.k == kindDict {
		unsupported("%% with a mapping")
	}
	f := r.str(format)
	r.charge(len(f))
	var b strings.Builder
	for i := 0; i < len(f); i++ {
		if f[i] != '%' {
			b.WriteByte(f[i])
			continue
		}
		if i++; i == len(f) {
			fail("incomplete format")
		}
		switch f[i] {
		case '%':
			b.WriteByte('%')
		case 's', 'd':
			if len(a) == 0 {
				fail("not enough arguments for the format")
			}
			s := r.str(a[0])
			if f[i] == 'd' && !a[0].isInt() && a[0].k != kindBig {
				unsupported("%%d of anything but an integer")
			} else if f[i] == 'd' && a[0].k == kindBool {
				s = strconv.FormatInt(a[0].n, 10)
			}
			if format.safe && !a[0].safe {
				s = htmlEscaper.Replace(s)
			}
			r.charge(len(s))
			b.WriteString(s)
			a = a[1:]
		default:
			unsupported("format %q", "%"+f[i:i+1])
		}
	}
	if len(a) > 0 {
		fail("not all arguments of the format are used")
	}
	s := Str(b.String())
	s.safe = format.safe
	return s
}

// formatBraces implements str.format: {}, {0} and {name} without conversions.
func (r *run) formatBraces(f string, a []Value, kw []keyword) Value {
	r.charge(len(f))
	var b strings.Builder
	auto := 0
	for i := 0; i < len(f); i++ {
		switch {
		case strings.HasPrefix(f[i:], "{{"), strings.HasPrefix(f[i:], "}}"):
			b.WriteByte(f[i])
			i++
		case f[i] == '}':
			fail("single } in a format")
		case f[i] == '{':
			j := strings.IndexByte(f[i:], '}')
			if j < 0 {
				fail("single { in a format")
			}
			s := r.str(formatField(f[i+1:i+j], &auto, a, kw))
			r.charge(len(s))
			b.WriteString(s)
			i += j
		default:
			b.WriteByte(f[i])
		}
	}
	return Str(b.String())
}

// formatField returns the value of a field. auto counts the unnumbered fields
// and is -1 once there is a numbered one.
func formatField(name string, auto *int, a []Value, kw []keyword) Value {
	if strings.ContainsAny(name, "!:.[{") {
		unsupported("this field of a format")
	}
	if name == "" {
		if *auto < 0 {
			fail("numbered and unnumbered fields of a format are mixed")
		}
		name = strconv.Itoa(*auto)
		*auto++
	} else if name[0] >= '0' && name[0] <= '9' {
		if *auto > 0 {
			fail("numbered and unnumbered fields of a format are mixed")
		}
		*auto = -1
	}
	v := undefined
	if n, err := strconv.Atoi(name); err == nil {
		if n < len(a) {
			v = a[n]
		}
	} else {
		v = argument(nil, kw, -1, name)
	}
	if v.k == kindUndefined {
		fail("no argument for a field of the format")
	}
	return v
}
