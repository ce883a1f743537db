package policy

import (
	"fmt"
	"slices"
	"strings"
)

// violation is one value that a schema forbids.
type violation struct {
	file      string
	at        int // offset in the file
	path      string
	what, fix string
}

// validate returns the violations of s by n, the value at path.
func (s *schema) validate(n *jsonNode, path string) []violation {
	steps := maxSchemaSteps
	return s.within(n, path, schemaWalk{maxSchemaDepth, &steps})
}

// Bounds of a validation: a schema may refer to itself without descending into
// the value. 10,000 tenants take half a million steps.
const (
	maxSchemaDepth = 4 * maxJSONDepth
	maxSchemaSteps = 50_000_000
)

// schemaWalk holds what remains of the bounds.
type schemaWalk struct {
	depth int
	steps *int
}

// within is validate within bounds.
func (s *schema) within(n *jsonNode, path string, left schemaWalk) (out []violation) {
	left.depth--
	if *left.steps--; left.depth < 0 || *left.steps < 0 {
		return []violation{{n.file, n.at, path, "cannot be checked: the schema refers to itself endlessly",
			"fix the schema"}}
	}
	bad := func(what, fix string) { out = append(out, violation{n.file, n.at, path, what, fix}) }
	if s.no {
		bad("not allowed here", "delete it")
		return out
	}
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, n.is) {
		bad("has type "+jsonKindNames[n.kind], "want "+strings.Join(s.types, " or "))
		return out
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e *jsonNode) bool { return e.equal(n) }) {
		bad("value not allowed", "want one of "+enumText(s.enum))
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

func (s *schema) combined(n *jsonNode, path string, left schemaWalk, bad func(what, fix string)) {
	passes := func(of []*schema) (count int) {
		for _, sub := range of {
			if len(sub.within(n, path, left)) == 0 {
				count++
			}
		}
		return count
	}
	if s.anyOf != nil && passes(s.anyOf) == 0 {
		bad("matches none of the allowed forms", "see anyOf of the schema")
	}
	if s.oneOf != nil && passes(s.oneOf) != 1 {
		bad("does not match exactly one of the allowed forms", "see oneOf of the schema")
	}
	if s.not != nil && passes([]*schema{s.not}) == 1 {
		bad("matches a form that is not allowed", "see not of the schema")
	}
}

func (s *schema) object(n *jsonNode, path string, left schemaWalk) (out []violation) {
	bad := func(n *jsonNode, at int, path, what, fix string) {
		out = append(out, violation{n.file, at, path, what, fix})
	}
	for _, key := range s.required {
		if n.get(key) == nil {
			bad(n, n.at, path, fmt.Sprintf("missing required field %q", key), "add it")
		}
	}
	for i, key := range n.keys {
		at, v := path+"/"+key, n.elems[i]
		if s.keyNames != nil {
			for _, c := range s.keyNames.within(&jsonNode{kind: jsonString, text: key, at: n.keyAt[i]}, at, left) {
				bad(v, c.at, at, "key: "+c.what, c.fix)
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
			bad(v, n.keyAt[i], at, "unknown field", nearest(key, s.names))
			continue
		}
		out = append(out, s.additional.within(v, at, left)...)
	}
	if len(n.keys) < s.minProperties {
		bad(n, n.at, path, fmt.Sprintf("has %d members", len(n.keys)), fmt.Sprintf("want at least %d", s.minProperties))
	}
	if s.maxProperties >= 0 && len(n.keys) > s.maxProperties {
		bad(n, n.at, path, fmt.Sprintf("has %d members", len(n.keys)), fmt.Sprintf("want at most %d", s.maxProperties))
	}
	return out
}

func (s *schema) array(n *jsonNode, path string, left schemaWalk) (out []violation) {
	bad := func(what, fix string) { out = append(out, violation{n.file, n.at, path, what, fix}) }
	if len(n.elems) < s.minItems {
		bad(fmt.Sprintf("has %d values", len(n.elems)), fmt.Sprintf("want at least %d", s.minItems))
	}
	if s.maxItems >= 0 && len(n.elems) > s.maxItems {
		bad(fmt.Sprintf("has %d values", len(n.elems)), fmt.Sprintf("want at most %d", s.maxItems))
	}
	for i, e := range n.elems {
		if s.items != nil {
			out = append(out, s.items.within(e, fmt.Sprintf("%s/%d", path, i), left)...)
		}
		if s.unique && slices.ContainsFunc(n.elems[:i], e.equal) {
			out = append(out, violation{e.file, e.at, fmt.Sprintf("%s/%d", path, i), "duplicate value", "delete one"})
		}
	}
	return out
}

func (s *schema) text(n *jsonNode, bad func(what, fix string)) {
	if s.pattern != nil && !s.pattern.MatchString(n.text) {
		bad(fmt.Sprintf("%.80q does not match the pattern", n.text), "want a match of "+s.pattern.String())
	}
	if l := runeCount(n.text); l < s.minLength || s.maxLength >= 0 && l > s.maxLength {
		bad(fmt.Sprintf("has %d characters", l), lengthText(max(s.minLength, 0), s.maxLength))
	}
}

// lengthText describes the allowed lengths; most is negative if there is no maximum.
func lengthText(least, most int) string {
	if most < 0 {
		return fmt.Sprintf("want at least %d", least)
	}
	return fmt.Sprintf("want %d to %d", least, most)
}

func (s *schema) number(n *jsonNode, bad func(what, fix string)) {
	v, ok := rat(n)
	if !ok {
		bad("number out of range", "want a number below 1e999")
		return
	}
	if s.minimum != nil && v.Cmp(s.minimum) < 0 {
		bad(n.text+" is too small", "want at least "+s.minimum.RatString())
	}
	if s.maximum != nil && v.Cmp(s.maximum) > 0 {
		bad(n.text+" is too large", "want at most "+s.maximum.RatString())
	}
	if s.above != nil && v.Cmp(s.above) <= 0 {
		bad(n.text+" is too small", "want more than "+s.above.RatString())
	}
	if s.below != nil && v.Cmp(s.below) >= 0 {
		bad(n.text+" is too large", "want less than "+s.below.RatString())
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
