package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

// sitePackage is the package of the site's own rules.
const sitePackage = "data.site"

// entryPoints are the rules that the router evaluates.
var entryPoints = []string{decisionPath, "data.kvasir.admin.allow", "data.kvasir.admin.refusals",
	"data.kvasir.backend.allow", "data.kvasir.backend.refusals", "data.system.log.mask"}

// checkUnread finds rules that would be ignored silently: a rule of the site that
// no other rule refers to, such as denails, and a module of another package of which
// no rule is referred to, such as package stie. References in tests do not count.
func (p *program) checkUnread(f *faults) {
	p.checkSite(f)
	read := p.reachable()
	var hooks []string // rules of the site that the policy reads
	p.eachModule(func(m *ast.Module) bool {
		ast.WalkRefs(m, func(r ast.Ref) bool {
			if name, ok := strings.CutPrefix(r.ConstantPrefix().String(), sitePackage+"."); ok {
				name, _, _ = strings.Cut(name, ".")
				hooks = append(hooks, name)
			}
			return false
		})
		return true
	})
	slices.Sort(hooks)
	hooks = slices.Compact(hooks)
	p.eachModule(func(parsed *ast.Module) bool {
		pkg := parsed.Package.Path.String()
		if pkg == "data.kvasir" || strings.HasPrefix(pkg, "data.kvasir.") {
			return true
		}
		m := p.compiler.Modules[parsed.Package.Location.File]
		used := false
		for _, r := range m.Rules {
			used = used || read[r]
			if pkg == sitePackage && !read[r] {
				name := strings.TrimPrefix(r.Ref().ConstantPrefix().String(), sitePackage+".")
				f.add(r.Loc().File, r.Loc().Row, r.Loc().Col, "no decision uses "+sitePackage+"."+name, nearest(name, hooks))
			}
		}
		if l := parsed.Package.Location; pkg != sitePackage && !used && len(m.Rules) > 0 {
			f.add(l.File, l.Row, l.Col, "no decision uses a rule of package "+strings.TrimPrefix(pkg, "data."),
				"write package site, or refer to it from there")
		}
		return true
	})
}

// reachable returns the rules that the entry points depend on.
func (p *program) reachable() map[*ast.Rule]bool {
	out := map[*ast.Rule]bool{}
	var visit func(x util.T)
	visit = func(x util.T) {
		r, ok := x.(*ast.Rule)
		if !ok || out[r] {
			return
		}
		out[r] = true
		for _, same := range p.compiler.GetRulesExact(r.Ref().GroundPrefix()) {
			visit(same)
		}
		for next := range p.compiler.Graph.Dependencies(r) {
			visit(next)
		}
	}
	for _, path := range entryPoints {
		for _, r := range p.compiler.GetRulesExact(ast.MustParseRef(path)) {
			visit(r)
		}
	}
	return out
}

// checkReferences finds references to rules of the policy that do not exist: OPA
// treats them as data, so that a rule that reads them is undefined. References to the
// site's rules, which are optional, and to data are checked elsewhere.
func (p *program) checkReferences(f *faults) {
	own := ast.MustParseRef("data.kvasir")
	for _, m := range p.compiler.Modules {
		ast.WalkTerms(m, func(t *ast.Term) bool {
			r, ok := t.Value.(ast.Ref)
			if !ok || !r.HasPrefix(own) || len(p.compiler.GetRules(r.ConstantPrefix())) > 0 {
				return false
			}
			missing := p.missing(r.ConstantPrefix())
			name := missing[len(missing)-1]
			at := m.Package.Location
			if l := locateRef(p.modules[at.File], func(x ast.Ref) bool {
				return slices.ContainsFunc(x, name.Equal) || x[0].Value.Compare(ast.Var(refPath(missing[len(missing)-1:]))) == 0
			}); l != nil {
				at = l
			}
			f.add(at.File, at.Row, at.Col, fmt.Sprintf("no such rule %v", missing),
				nearest(refPath(missing[len(missing)-1:]), p.siblings(missing)))
			return false
		})
	}
}

// missing returns the shortest prefix of a reference that is no rule.
func (p *program) missing(r ast.Ref) ast.Ref {
	n := len(r)
	for n > 2 && len(p.compiler.GetRules(r[:n-1])) == 0 {
		n--
	}
	return r[:n]
}

// siblings returns what rules define beside the last part of a reference.
func (p *program) siblings(r ast.Ref) (names []string) {
	n := len(r) - 1
	for _, rule := range p.compiler.GetRulesWithPrefix(r[:n]) {
		if path := rule.Ref().ConstantPrefix(); len(path) > n {
			names = append(names, refPath(path[n:n+1]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
