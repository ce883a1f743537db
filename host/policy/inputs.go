package policy

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/kvasir-router/kvasir/host/identity"
)

// inputSet is the part of the input document that a policy refers to. A decision
// is made from these values alone: they are the key of the cache, and the document
// that Rego reads contains nothing else. So decisions of equal keys are equal, even if
// the references that OPA reports are incomplete.
type inputSet struct {
	uses   []bool        // [len(inputFields)]
	keyed  []*inputField // those of uses that the key has
	labels []string      // names of the labels it refers to, sorted; nil with all of them in uses
	paths  []string      // as the policy writes them, sorted, for reports
}

// labelsAt and userAt are the indexes of fields that depend on more than their row.
var labelsAt, userAt = indexOfInput("request.labels"), indexOfInput("tenant.user")

// newInputSet returns the inputs among the references of p. A reference to a path
// that the router does not fill is an error.
func newInputSet(refs []ast.Ref, p *program, f *faults) *inputSet {
	s := &inputSet{uses: make([]bool, len(inputFields))}
	for _, r := range refs {
		if len(r) == 0 || !r[0].Equal(ast.InputRootDocument) {
			continue
		}
		path := refPath(r[1:])
		if path == "" {
			s.fault(f, p, r, "a rule refers to input as a whole",
				"name the fields that it needs, such as input.tenant.id: decisions are cached by the fields that rules name")
			continue
		}
		s.paths = append(s.paths, "input."+path)
		if !s.take(path) {
			s.fault(f, p, r, "unknown field input."+path, nearest(path, inputPaths))
		}
	}
	slices.Sort(s.paths)
	slices.Sort(s.labels)
	s.labels = slices.Compact(s.labels)
	if s.uses[labelsAt] {
		s.labels = nil
	}
	s.setKeyed()
	return s
}

// take adds the fields at path and below, and reports whether there are any.
func (s *inputSet) take(path string) (found bool) {
	for i, at := range inputPaths {
		name, below := strings.CutPrefix(path, at+".")
		switch {
		case below && i == labelsAt:
			s.labels = append(s.labels, name)
			found = true
		case below || path == at || strings.HasPrefix(at, path+"."):
			s.uses[i], found = true, true
		}
	}
	return found
}

// setKeyed sets keyed from uses: a constant cannot differ, and the tenant is in every key.
func (s *inputSet) setKeyed() {
	for i, used := range s.uses {
		if f := &inputFields[i]; used && f.kind != InputConstant && f.path != "tenant.id" {
			s.keyed = append(s.keyed, f)
		}
	}
}

func (s *inputSet) fault(f *faults, p *program, r ast.Ref, what, fix string) {
	at := p.locate(func(x ast.Ref) bool { return len(r) <= len(x) && x[:len(r)].Equal(r) })
	if refPath(r[1:]) == "" {
		at = p.locateWholeInput()
	}
	if at == nil {
		at = p.compiler.GetRulesExact(ast.MustParseRef(decisionPath))[0].Loc()
	}
	f.add(at.File, at.Row, at.Col, what, fix)
}

// refPath returns the path of a constant reference, its parts joined by dots.
func refPath(r ast.Ref) string {
	var parts []string
	for _, t := range r {
		if v, ok := t.Value.(ast.String); ok {
			parts = append(parts, string(v))
		} else {
			parts = append(parts, t.String())
		}
	}
	return strings.Join(parts, ".")
}

// Bounds of the strings of an input, so that one client cannot evict many decisions
// of others from the cache.
const (
	maxInputString = 256
	maxInputList   = 64 // groups, scopes, labels
)

// key appends the values of in that the policy refers to, each with its length,
// in the order of inputFields, followed by the tenant, to whose namespace the
// decision belongs. ok is false if a value is out of bounds.
func (s *inputSet) key(b []byte, in *Input) (_ []byte, ok bool) {
	ok = true
	str := func(v string) {
		ok = ok && len(v) <= maxInputString
		b = append(binary.AppendUvarint(b, uint64(len(v))), v...)
	}
	count := func(n int) {
		ok = ok && n <= maxInputList
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, f := range s.keyed {
		switch f.kind {
		case InputText:
			str(*f.text(in))
		case InputList:
			vs := *f.list(in)
			count(len(vs))
			for _, v := range vs {
				str(v)
			}
		case InputBool:
			b = append(b, bit(*f.boolean(in)))
		case InputHour:
			b = binary.AppendVarint(b, int64(*f.hour(in)))
		case InputLabels:
			ls := *f.labels(in)
			count(len(ls))
			for i := range ls {
				str(ls[i].Name)
				str(ls[i].Value)
			}
		}
	}
	for _, name := range s.labels {
		v, there := in.label(name)
		b = append(b, bit(there))
		str(v)
	}
	str(in.Principal.Tenant)
	return b, ok
}

func bit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// label returns the value of a label.
func (in *Input) label(name string) (string, bool) {
	for i := range in.Labels {
		if in.Labels[i].Name == name {
			return in.Labels[i].Value, true
		}
	}
	return "", false
}

// document returns the input document of the values that the policy refers to;
// s nil = of all values.
func (s *inputSet) document(in *Input) ast.Value {
	root := ast.NewObject()
	objects := make([]ast.Object, len(inputObjects))
	for i := range objects {
		objects[i] = ast.NewObject()
	}
	put := func(path string, v ast.Value) {
		o, name := root, path
		if at := strings.LastIndexByte(path, '.'); at >= 0 {
			o, name = objects[slices.Index(inputObjects, path[:at])], path[at+1:]
		}
		o.Insert(ast.StringTerm(name), ast.NewTerm(v))
	}
	for i := range inputFields {
		f := &inputFields[i]
		if all := s == nil || s.uses[i]; all || f.kind == InputLabels {
			put(f.path, f.term(in, func(label string) bool { return all || slices.Contains(s.labels, label) }))
		}
	}
	for i, path := range slices.Backward(inputObjects) { // an object is whole before it is inserted
		put(path, objects[i])
	}
	return root
}

// clone returns a copy of in that shares no memory with the caller's buffers.
func (in *Input) clone() *Input {
	c := *in
	c.Trace = nil
	for i := range inputFields {
		if f := &inputFields[i]; !f.principal {
			f.detach(&c)
		}
	}
	return &c
}

// printable reports whether the strings of in are UTF-8 without control characters.
// Other requests are denied.
func (in *Input) printable() bool {
	ok := true
	for i := range inputFields {
		inputFields[i].eachText(in, func(s *string) { ok = ok && printable(*s) })
	}
	return ok
}

func printable(s string) bool {
	return len(s) <= maxInputString && strings.IndexFunc(s,
		func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) < 0
}

// noPrincipal is the principal of an input without one.
var noPrincipal = new(identity.Principal)
