package policy

import (
	"fmt"
	"slices"
	"strings"
)

// complaint is one value that a schema forbids.
type complaint struct {
	file       string
	at         int // offset in the file
	path       string
	what, mend string
}

// validate returns what s forbids of n, which stands at path.
func (s *schema) validate(n *jsonNode, path string) []complaint {
	steps := maxSchemaSteps
	return s.within(n, path, schemaWalk{maxSchemaDepth, &steps})
}

// Bounds of a validation: a schema may refer to itself without descending into
// the value. 10,000 tenants take half a million steps.
const (
	maxSchemaDepth = 4 * maxJSONDepth
	maxSchemaSteps = 50_000_000
)

// schemaWalk is what is left of the bounds.
type schemaWalk struct {
	depth int
	steps *int
}

// within is validate within bounds.
func (s *schema) within(n *jsonNode, path string, left schemaWalk) (out []complaint) {
	left.depth--
	if *left.steps--; left.depth < 0 || *left.steps < 0 {
		return []complaint{{n.file, n.at, path, "cannot be checked: the schema refers to itself without end", "mend the schema"}}
	}
	bad := func(what, mend string) { out = append(out, complaint{n.file, n.at, path, what, mend}) }
	if s.no {
		bad("is not allowed here", "delete it")
		return out
	}
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, n.is) {
		bad("is a "+jsonKindNames[n.kind], "write a value of type "+strings.Join(s.types, " or "))
		return out
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e *jsonNode) bool { return e.equal(n) }) {
		bad("is not one of the values it may have", "write one of "+enumText(s.enum))
	}
	switch n.kind {
	case jsonObject:
		out = append(out, s.object(n, path, left)...)
	case jsonArray:
		out = append(out, s.array(n, path, left)...)
	case jsonString:
		s.text(n, bad)
	case jsonNumber:
		s.number(n, bad)
	}
	for _, sub := range s.allOf {
		out = append(out, sub.within(n, path, left)...)
	}
	s.combined(n, path, left, bad)
	return out
}

func (s *schema) combined(n *jsonNode, path string, left schemaWalk, bad func(what, mend string)) {
	passes := func(of []*schema) (count int) {
		for _, sub := range of {
			if len(sub.within(n, path, left)) == 0 {
				count++
			}
		}
		return count
	}
	if s.anyOf != nil && passes(s.anyOf) == 0 {
		bad("has none of the forms it may have", "see anyOf of the schema")
	}
	if s.oneOf != nil && passes(s.oneOf) != 1 {
		bad("has not exactly one of the forms it may have", "see oneOf of the schema")
	}
	if s.not != nil && passes([]*schema{s.not}) == 1 {
		bad("has a form it may not have", "see not of the schema")
	}
}

func (s *schema) object(n *jsonNode, path string, left schemaWalk) (out []complaint) {
	bad := func(n *jsonNode, at int, path, what, mend string) {
		out = append(out, complaint{n.file, at, path, what, mend})
	}
	for _, key := range s.required {
		if n.get(key) == nil {
			bad(n, n.at, path, fmt.Sprintf("has no %q", key), "write it: it is required")
		}
	}
	for i, key := range n.keys {
		at, v := path+"/"+key, n.elems[i]
		if s.keyNames != nil {
			for _, c := range s.keyNames.within(&jsonNode{kind: jsonString, text: key, at: n.keyAt[i]}, at, left) {
				bad(v, c.at, at, "as a key "+c.what, c.mend)
			}
		}
		sub, known := s.properties[key]
		if known {
			out = append(out, sub.within(v, at, left)...)
		}
		for _, p := range s.patterns {
			if p.re != nil && p.re.MatchString(key) {
				known = true
				out = append(out, p.s.within(v, at, left)...)
			}
		}
		if known || s.additional == nil {
			continue
		}
		if s.additional.no {
			bad(v, n.keyAt[i], at, "is not known", nearest(key, s.names))
			continue
		}
		out = append(out, s.additional.within(v, at, left)...)
	}
	if len(n.keys) < s.minProperties {
		bad(n, n.at, path, fmt.Sprintf("has %d members", len(n.keys)), fmt.Sprintf("write at least %d", s.minProperties))
	}
	if s.maxProperties >= 0 && len(n.keys) > s.maxProperties {
		bad(n, n.at, path, fmt.Sprintf("has %d members", len(n.keys)), fmt.Sprintf("write at most %d", s.maxProperties))
	}
	return out
}

func (s *schema) array(n *jsonNode, path string, left schemaWalk) (out []complaint) {
	bad := func(what, mend string) { out = append(out, complaint{n.file, n.at, path, what, mend}) }
	if len(n.elems) < s.minItems {
		bad(fmt.Sprintf("has %d values", len(n.elems)), fmt.Sprintf("write at least %d", s.minItems))
	}
	if s.maxItems >= 0 && len(n.elems) > s.maxItems {
		bad(fmt.Sprintf("has %d values", len(n.elems)), fmt.Sprintf("write at most %d", s.maxItems))
	}
	for i, e := range n.elems {
		if s.items != nil {
			out = append(out, s.items.within(e, fmt.Sprintf("%s/%d", path, i), left)...)
		}
		if s.unique && slices.ContainsFunc(n.elems[:i], e.equal) {
			out = append(out, complaint{e.file, e.at, fmt.Sprintf("%s/%d", path, i), "stands twice", "write it once"})
		}
	}
	return out
}

func (s *schema) text(n *jsonNode, bad func(what, mend string)) {
	if s.pattern != nil && !s.pattern.MatchString(n.text) {
		bad(fmt.Sprintf("%.80q has not the form it must have", n.text), "write what matches "+s.pattern.String())
	}
	if l := runeCount(n.text); l < s.minLength || s.maxLength >= 0 && l > s.maxLength {
		bad(fmt.Sprintf("has %d characters", l), fmt.Sprintf("write %d to %s", max(s.minLength, 0), upTo(s.maxLength)))
	}
}

func upTo(n int) string {
	if n < 0 {
		return "any number"
	}
	return fmt.Sprint(n)
}

func (s *schema) number(n *jsonNode, bad func(what, mend string)) {
	v, ok := rat(n)
	if !ok {
		bad("is no number that can be counted with", "write a number below 1e999")
		return
	}
	if s.minimum != nil && v.Cmp(s.minimum) < 0 {
		bad(n.text+" is too small", "write at least "+s.minimum.RatString())
	}
	if s.maximum != nil && v.Cmp(s.maximum) > 0 {
		bad(n.text+" is too large", "write at most "+s.maximum.RatString())
	}
	if s.above != nil && v.Cmp(s.above) <= 0 {
		bad(n.text+" is too small", "write more than "+s.above.RatString())
	}
	if s.below != nil && v.Cmp(s.below) >= 0 {
		bad(n.text+" is too large", "write less than "+s.below.RatString())
	}
}

// is reports whether n has a type of JSON Schema.
func (n *jsonNode) is(typ string) bool {
	if typ == "integer" {
		v, ok := rat(n)
		return ok && v.IsInt()
	}
	return jsonKindNames[n.kind] == typ
}

// equal compares values as JSON Schema does: 1.0 is 1, and the order of keys
// does not count.
func (n *jsonNode) equal(m *jsonNode) bool {
	if n.kind != m.kind || len(n.elems) != len(m.elems) {
		return false
	}
	switch n.kind {
	case jsonBool:
		return n.yes == m.yes
	case jsonString:
		return n.text == m.text
	case jsonNumber:
		a, okA := rat(n)
		b, okB := rat(m)
		return okA && okB && a.Cmp(b) == 0
	case jsonArray:
		return slices.EqualFunc(n.elems, m.elems, (*jsonNode).equal)
	case jsonObject:
		for i, k := range n.keys {
			if v := m.get(k); v == nil || !n.elems[i].equal(v) {
				return false
			}
		}
	}
	return true
}

func enumText(all []*jsonNode) string {
	var words []string
	for _, n := range all {
		switch n.kind {
		case jsonString, jsonNumber:
			words = append(words, n.text)
		case jsonBool:
			words = append(words, fmt.Sprint(n.yes))
		default:
			words = append(words, jsonKindNames[n.kind])
		}
	}
	return strings.Join(words, ", ")
}
