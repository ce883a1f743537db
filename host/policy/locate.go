package policy

import (
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// eachModule calls f with each module that is not a test, in the order of their
// names, until f returns false.
func (p *program) eachModule(f func(m *ast.Module) bool) {
	for _, name := range p.src.names() {
		if m := p.modules[name]; m != nil && !strings.HasSuffix(name, testSuffix) && !f(m) {
			return
		}
	}
}

// locate returns the location of the first reference that match accepts, nil if
// there is none in the rules.
func (p *program) locate(match func(ast.Ref) bool) (at *ast.Location) {
	p.eachModule(func(m *ast.Module) bool {
		at = locateRef(m, match)
		return at == nil
	})
	return at
}

// locateRef is locate in one module.
func locateRef(m *ast.Module, match func(ast.Ref) bool) (at *ast.Location) {
	ast.WalkTerms(m, func(t *ast.Term) bool {
		if r, ok := t.Value.(ast.Ref); ok && at == nil && t.Location != nil && match(r) {
			at = t.Location
		}
		return at != nil
	})
	return at
}

// relocate corrects the location of errors about references. OPA reports a
// reference through an import, or to a rule of the same package, at the location
// of the last such reference; the parsed module still has the location of each.
// Of duplicate defaults the last one is reported.
func (p *program) relocate(all ast.Errors) {
	for _, e := range all {
		if found := strings.LastIndex(e.Message, ", "); e.Location != nil && found > 0 &&
			strings.HasPrefix(e.Message, "multiple default rules") {
			file, row, _ := strings.Cut(e.Message[found+2:], ":")
			if n, err := strconv.Atoi(row); err == nil {
				e.Location = &ast.Location{File: file, Row: n, Col: 1}
			}
		}
		d, ok := e.Details.(*ast.RefErrInvalidDetail)
		if !ok || e.Location == nil || d.Pos < 1 || d.Pos >= len(d.Ref) {
			continue
		}
		m := p.modules[e.Location.File]
		if m == nil {
			continue
		}
		at := locateRef(m, func(r ast.Ref) bool {
			for i := 1; i < len(r); i++ {
				if r[i].Equal(d.Ref[d.Pos]) && word(r[i-1]) == word(d.Ref[d.Pos-1]) {
					return true
				}
			}
			return false
		})
		if at != nil {
			e.Location = at
		}
	}
}

// word returns the name of a part of a reference: a variable or a string.
func word(t *ast.Term) string {
	switch v := t.Value.(type) {
	case ast.Var:
		return string(v)
	case ast.String:
		return string(v)
	}
	return t.String()
}

// locateWholeInput returns the location of the first reference to input without a
// field, nil if there is none.
func (p *program) locateWholeInput() (at *ast.Location) {
	p.eachModule(func(m *ast.Module) bool {
		var look func(x any) bool
		walk := func(x any) { ast.NewGenericVisitor(look).Walk(x) }
		look = func(x any) bool {
			t, ok := x.(*ast.Term)
			if !ok || at != nil {
				return at != nil
			}
			switch v := t.Value.(type) {
			case ast.Var:
				if t.Equal(ast.InputRootDocument) {
					at = t.Location
				}
			case ast.Ref:
				named := len(v) > 1
				if named {
					_, named = v[1].Value.(ast.String)
				}
				if v[0].Equal(ast.InputRootDocument) && !named {
					at = t.Location
					return true
				}
				if !v[0].Equal(ast.InputRootDocument) {
					walk(v[0])
				}
				for _, part := range v[1:] {
					walk(part)
				}
				return true
			}
			return at != nil
		}
		for _, r := range m.Rules {
			walk(r)
		}
		return at == nil
	})
	return at
}
