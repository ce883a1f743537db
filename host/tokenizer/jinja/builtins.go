package jinja

import "time"

// builtins are the names that every template has: the Jinja2 globals that chat
// templates use, and those that transformers adds. Functions of Jinja2 that are
// missing here (cycler, joiner, lipsum) are rejected by name.
var builtins map[string]Value

func init() {
	builtins = map[string]Value{
		"namespace":       fn("namespace", newNamespace),
		"dict":            fn("dict", newDict),
		"range":           fn("range", rangeList),
		"raise_exception": fn("raise_exception", raiseException),
		"strftime_now":    fn("strftime_now", strftimeNow),
	}
	for _, name := range [...]string{"cycler", "joiner", "lipsum"} {
		builtins[name] = fn(name, func(*run, []Value, []keyword) Value {
			unsupported("function %q", name)
			return undefined
		})
	}
}

// fill sets the items given to dict() and namespace().
func fill(r *run, d *Dict, a []Value, kw []keyword) {
	r.chargeValues(4 + len(kw))
	if len(a) > 0 {
		from := a[0].Dict()
		if from == nil || from.ints || len(a) > 1 {
			unsupported("a mapping from anything but a mapping")
		}
		r.chargeValues(len(from.Keys))
		for i, k := range from.Keys {
			d.Set(k, from.Vals[i])
		}
	}
	for _, k := range kw {
		d.Set(k.name, k.v)
	}
}

func newNamespace(r *run, a []Value, kw []keyword) Value {
	n := &namespace{Dict{Keys: make([]string, 0, len(kw)), Vals: make([]Value, 0, len(kw))}}
	fill(r, &n.Dict, a, kw)
	return Value{k: kindNamespace, p: n}
}

func newDict(r *run, a []Value, kw []keyword) Value {
	d := &Dict{}
	fill(r, d, a, kw)
	return d.Value()
}

func rangeList(r *run, a []Value, _ []keyword) Value {
	lo, step, n := rangeOf(a)
	r.chargeValues(n)
	items := make([]Value, n)
	for i := range items {
		r.step()
		items[i] = Int(lo + step*int64(i))
	}
	return List(items)
}

func raiseException(r *run, a []Value, kw []keyword) Value {
	throw(&RaisedError{Message: r.str(argument(a, kw, 0, "message"))})
	return undefined
}

func strftimeNow(r *run, a []Value, kw []keyword) Value {
	return Str(strftime(r.now, r.needText(argument(a, kw, 0, "format"))))
}

// directives maps directives of strftime to Go layouts, in the C locale.
var directives = map[byte]string{'d': "02", 'b': "Jan", 'B': "January", 'Y': "2006", 'm': "01", 'y': "06", 'H': "15",
	'M': "04", 'S': "05", 'A': "Monday", 'a': "Mon", 'p': "PM", 'I': "03", 'j': "002", 'h': "Jan"}

// strftime formats t as Python's datetime.strftime does for a time without a
// zone.
func strftime(t time.Time, format string) string {
	var b []byte
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b = append(b, format[i])
			continue
		}
		if i++; i == len(format) {
			unsupported("a date format that ends in %%")
		}
		switch c := format[i]; {
		case c == '%':
			b = append(b, '%')
		case c == '-' && i+1 < len(format) && (format[i+1] == 'd' || format[i+1] == 'm'):
			i++
			b = t.AppendFormat(b, map[byte]string{'d': "2", 'm': "1"}[format[i]])
		case c == 'Z' || c == 'z': // a naive datetime has no zone
		case c == 'F':
			b = t.AppendFormat(b, "2006-01-02")
		case c == 'T':
			b = t.AppendFormat(b, "15:04:05")
		default:
			layout, ok := directives[c]
			if !ok {
				unsupported("date directive %q", "%"+string(c))
			}
			b = t.AppendFormat(b, layout)
		}
	}
	return string(b)
}
