package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

var stringMethods = map[string]bool{"split": true, "rsplit": true, "strip": true, "lstrip": true, "rstrip": true,
	"startswith": true, "endswith": true,
	"replace": true, "upper": true, "lower": true, "title": true, "capitalize": true, "format": true, "join": true,
	"find": true, "rfind": true, "count": true,
	"splitlines": true, "isdigit": true, "isalpha": true, "isspace": true, "removeprefix": true, "removesuffix": true,
	"isupper": true, "islower": true,
	"index": true, "partition": true, "rpartition": true, "zfill": true, "ljust": true, "rjust": true, "center": true,
	"isalnum": true, "isnumeric": true, "casefold": true, "swapcase": true, "encode": true}

// text returns the bytes of a string argument.
func (r *run) needText(v Value) string {
	if !v.IsString() {
		fail("expected a string")
	}
	return r.str(v)
}

// argument returns a[i], else the keyword name, else an undefined value.
func argument(a []Value, kw []keyword, i int, name string) Value {
	if i >= 0 && i < len(a) {
		return a[i]
	}
	for _, k := range kw {
		if k.name == name {
			return k.v
		}
	}
	return undefined
}

// method calls method name of o.
func (r *run) method(o Value, name string, a []Value, kw []keyword) Value {
	switch o.k {
	case kindString, kindRope:
		if stringMethods[name] {
			return r.stringMethod(r.flat(o), name, a, kw)
		}
	case kindDict:
		return r.dictMethod(o, name, a, kw)
	case kindList:
		return r.listMethod(o, name, a)
	}
	fail("object has no method %q", name)
	return undefined
}

func (r *run) stringMethod(s Value, name string, a []Value, kw []keyword) Value {
	if s.safe && (name == "replace" || name == "format" || name == "join") {
		unsupported("method %q of a safe string", name)
	}
	switch name {
	case "strip", "lstrip", "rstrip":
		return r.stripMethod(s, name, argument(a, kw, 0, "chars"))
	case "startswith", "endswith":
		return Bool(r.affix(s.s, argument(a, kw, 0, ""), name))
	case "split", "rsplit":
		return r.split(s, argument(a, kw, 0, "sep"), argument(a, kw, 1, "maxsplit"), name == "rsplit")
	case "replace":
		n := -1
		if v := argument(a, kw, 2, "count"); v.isInt() {
			n = int(v.n)
		}
		return r.replace(s, r.needText(argument(a, kw, 0, "")), r.needText(argument(a, kw, 1, "")), n)
	case "removeprefix", "removesuffix":
		p := r.needText(argument(a, kw, 0, ""))
		if name == "removeprefix" && strings.HasPrefix(s.s, p) {
			return s.sub(len(p), len(s.s))
		}
		if name == "removesuffix" && strings.HasSuffix(s.s, p) {
			return s.sub(0, len(s.s)-len(p))
		}
		return s
	case "upper", "lower", "capitalize":
		return filters[name](r, s, nil, nil)
	case "join":
		return r.join(argument(a, kw, 0, ""), s, undefined)
	case "find", "rfind":
		return r.find(s.s, a, name == "rfind")
	case "count":
		if len(a) != 1 {
			unsupported("count in a part of a string")
		}
		r.charge(len(s.s))
		return Int(int64(strings.Count(s.s, r.needText(a[0]))))
	case "splitlines":
		return r.splitLines(s, a, kw)
	case "isdigit", "isalpha", "isspace":
		return Bool(r.all(s.s, name))
	case "format":
		return r.formatBraces(s.s, a, kw)
	}
	unsupported("method %q of a string", name)
	return undefined
}

func (r *run) stripMethod(s Value, name string, chars Value) Value {
	left, right := name != "rstrip", name != "lstrip"
	if chars.k == kindUndefined || chars.k == kindNone {
		return r.strip(s, IsSpace, left, right)
	}
	set := r.needText(chars)
	return r.strip(s, func(c rune) bool { return strings.ContainsRune(set, c) }, left, right)
}

// strip removes characters of a set from the ends of a string.
func (r *run) strip(v Value, in func(rune) bool, left, right bool) Value {
	v = r.flat(v)
	i, j := 0, len(v.s)
	for left && i < j {
		c, n := utf8.DecodeRuneInString(v.s[i:])
		if !in(c) {
			break
		}
		i += n
	}
	for right && j > i {
		c, n := utf8.DecodeLastRuneInString(v.s[i:j])
		if !in(c) {
			break
		}
		j -= n
	}
	r.charge(len(v.s) - (j - i))
	return v.sub(i, j)
}

// affix implements startswith and endswith; x may be a tuple.
func (r *run) affix(s string, x Value, name string) bool {
	has := strings.HasPrefix
	if name == "endswith" {
		has = strings.HasSuffix
	}
	if l, ok := x.p.(*list); ok {
		if !l.tuple {
			fail("%s takes a string or a tuple of strings", name)
		}
		for _, y := range l.items {
			if has(s, r.needText(y)) {
				return true
			}
		}
		return false
	}
	return has(s, r.needText(x))
}

// find returns the position in characters.
func (r *run) find(s string, a []Value, last bool) Value {
	if len(a) != 1 {
		unsupported("find in a part of a string")
	}
	r.charge(len(s))
	i := strings.Index(s, r.needText(a[0]))
	if last {
		i = strings.LastIndex(s, r.needText(a[0]))
	}
	if i > 0 {
		i = utf8.RuneCountInString(s[:i])
	}
	return Int(int64(i))
}

// all reports whether s is not empty and all its characters belong to a class.
// isdigit is supported for ASCII only.
func (r *run) all(s, name string) bool {
	r.charge(walkCost * len(s))
	for _, c := range s {
		ok := false
		switch {
		case name == "isspace":
			ok = IsSpace(c)
		case name == "isalpha":
			ok = unicode.IsLetter(c)
		case c < 0x80:
			ok = c >= '0' && c <= '9'
		case unicode.IsNumber(c):
			unsupported("isdigit of characters beyond ASCII")
		}
		if !ok {
			return false
		}
	}
	return s != ""
}

func (r *run) dictMethod(o Value, name string, a []Value, kw []keyword) Value {
	d := o.p.(*Dict)
	switch name {
	case "get":
		k := argument(a, kw, 0, "key")
		if k.k == kindUndefined {
			fail("get needs a key")
		}
		if k.IsString() != d.ints && (k.IsString() || k.isInt()) {
			if v, ok := d.Get(r.str(k)); ok {
				return v
			}
		}
		if v := argument(a, kw, 1, "default"); v.k != kindUndefined || len(a) > 1 {
			return v
		}
		return None
	case "items":
		return view(r.pairs(d))
	case "keys":
		return view(r.iter(o))
	case "values":
		return view(d.Vals[:len(d.Vals):len(d.Vals)])
	case "copy":
		return o
	case "pop", "update", "clear", "setdefault", "popitem":
		fail("the sandbox forbids %q", name)
	}
	if v, ok := d.Get(name); ok && v.k == kindFunc {
		return v.p.(*function).call(r, a, kw)
	}
	fail("object has no method %q", name)
	return undefined
}

func (r *run) listMethod(o Value, name string, a []Value) Value {
	switch name {
	case "append", "pop", "insert", "extend", "remove", "clear", "sort", "reverse":
		fail("the sandbox forbids %q", name)
	case "index", "count":
		if len(a) != 1 {
			unsupported("%s in a part of a list", name)
		}
		r.chargeValues(len(o.items()))
		n := 0
		for i, x := range o.items() {
			if r.equal(x, a[0]) {
				if name == "index" {
					return Int(int64(i))
				}
				n++
			}
		}
		if name == "count" {
			return Int(int64(n))
		}
		fail("value is not in the list")
	}
	fail("object has no method %q", name)
	return undefined
}
