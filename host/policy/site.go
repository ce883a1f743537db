package policy

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// siteFolder is where a site's own files lie. Who may write there need not be
// who may write the rules that are read from it.
const siteFolder = "site/"

// checkSite sees to it that the files of the site add to package site alone, or
// mask the log: one that began with package kvasir.admission could allow what
// the shipped rules refuse. The rules that read package site only narrow.
func (p *program) checkSite(f *faults) {
	p.eachModule(func(m *ast.Module) bool {
		l := m.Package.Location
		pkg := m.Package.Path.String()
		if strings.HasPrefix(l.File, siteFolder) && pkg != sitePackage && !strings.HasPrefix(pkg, sitePackage+".") && pkg != "data.system.log" {
			f.add(l.File, l.Row, l.Col, "a file of the site adds to package "+strings.TrimPrefix(pkg, "data."), "write package site: it can only narrow")
		}
		return true
	})
}
