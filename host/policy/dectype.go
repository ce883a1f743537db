package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"github.com/kvasir-router/kvasir/host/internal/spelling"
)

// shape is the type of a field of a decision. Objects have fields, arrays elem.
type shape struct {
	name   string // in errors
	is     types.Type
	fields map[string]*shape
	elem   *shape
}

var (
	boolShape    = &shape{name: "a boolean", is: types.B}
	stringShape  = &shape{name: "a string", is: types.S}
	numberShape  = &shape{name: "a number", is: types.N}
	stringsShape = &shape{name: "an array or a set", elem: stringShape}
)

// typeCheck compares the type that OPA infers for the decision with the contract, so
// that a misspelt field is an error instead of being ignored.
type typeCheck struct {
	p *program
	*faults
	seen map[string]bool // paths with an error
}

func (c *typeCheck) decision(t types.Type, rule *ast.Rule) {
	c.value("", t, objectShape(decisionFields), rule.Loc())
}

// value checks the type at a path of the decision. Unknown types are left to
// decode.
func (c *typeCheck) value(path string, t types.Type, s *shape, at *ast.Location) {
	switch t := t.(type) {
	case nil:
	case types.Any:
		for _, one := range t {
			c.value(path, one, s, at)
		}
	case *types.NamedType:
		c.value(path, t.Type, s, at)
	case *types.Object:
		if s.fields == nil {
			c.wrong(path, "an object", s, at)
			return
		}
		for _, p := range t.StaticProperties() {
			c.field(path, fmt.Sprint(p.Key), p.Value, s, at)
		}
	case *types.Array:
		if s.elem == nil {
			c.wrong(path, "an array", s, at)
			return
		}
		for i := range t.Len() {
			c.value(path+"[_]", t.Select(i), s.elem, at)
		}
		c.value(path+"[_]", t.Dynamic(), s.elem, at)
	case *types.Set:
		if s.elem == nil {
			c.wrong(path, "a set", s, at)
			return
		}
		if l := c.elementAt(path, s.elem); l != nil {
			at = l
		}
		c.value(path+"[_]", t.Of(), s.elem, at)
	default:
		if s.is == nil || types.Compare(t, s.is) != 0 {
			c.wrong(path, "a "+strings.ToLower(types.Sprint(t)), s, at)
		}
	}
}

func (c *typeCheck) field(path, key string, t types.Type, s *shape, at *ast.Location) {
	full := strings.TrimPrefix(path+"."+key, ".")
	f := s.fields[key]
	if l := c.keyAt(key, f, s); l != nil {
		at = l
	}
	if f != nil {
		c.value(full, t, f, at)
		return
	}
	if !c.seen[full] {
		c.seen[full] = true
		c.add(at.File, at.Row, at.Col, "unknown decision field "+full, nearest(key, slices.Sorted(maps.Keys(s.fields))))
	}
}

func (c *typeCheck) wrong(path, got string, s *shape, at *ast.Location) {
	if path == "" {
		path = "decision"
	}
	if !c.seen[path] {
		c.seen[path] = true
		c.add(at.File, at.Row, at.Col, fmt.Sprintf("%s is %s", path, got), "want "+s.name)
	}
}

// keyAt returns the location to report for the field key: its first occurrence with a
// value of the wrong type, or else its first occurrence beside a known field of the
// object, or else its first occurrence. s is nil if an object of shape of has no such
// field.
func (c *typeCheck) keyAt(key string, s, of *shape) (at *ast.Location) {
	wrong := false
	look := func(o ast.Object) {
		v := o.Get(ast.StringTerm(key))
		if v == nil || wrong {
			return
		}
		wrong = s != nil && literalOf(v.Value, s)
		o.Foreach(func(k, _ *ast.Term) {
			if name, ok := k.Value.(ast.String); ok && s == nil && of.fields[string(name)] != nil {
				wrong = true
			}
		})
		o.Foreach(func(k, _ *ast.Term) {
			if name, ok := k.Value.(ast.String); ok && string(name) == key && k.Location != nil && (at == nil || wrong) {
				at = k.Location
			}
		})
	}
	c.p.eachModule(func(m *ast.Module) bool {
		ast.WalkTerms(m, func(t *ast.Term) bool {
			if o, ok := t.Value.(ast.Object); ok {
				look(o)
			}
			return wrong
		})
		return !wrong
	})
	return at
}

// elementAt returns the location at which a rule adds a literal of another type than s
// to the set at path, nil if no rule does. The set has the name of the path's last part.
func (c *typeCheck) elementAt(path string, s *shape) (at *ast.Location) {
	name := path[strings.LastIndexByte(path, '.')+1:]
	c.p.eachModule(func(m *ast.Module) bool {
		for _, r := range m.Rules {
			if r.Head.Key != nil && word(r.Head.Ref()[0]) == name && literalOf(r.Head.Key.Value, s) {
				at = r.Head.Key.Location
				return false
			}
		}
		return true
	})
	return at
}

// literalOf reports whether v is a literal of another type than s.
func literalOf(v ast.Value, s *shape) bool {
	switch v.(type) {
	case ast.Null:
		return true
	case ast.Boolean:
		return s != boolShape
	case *ast.Array, ast.Set:
		return s.elem == nil
	case ast.Object:
		return s.fields == nil
	case ast.String:
		return s != stringShape
	case ast.Number:
		return s != numberShape
	}
	return false
}

// nearest suggests the known word that is most similar to word.
func nearest(word string, known []string) string {
	if best := spelling.Nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return "want one of " + strings.Join(known, ", ")
}
