package policy

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// siteFolder holds the site's own files. Write access to it does not imply permission
// to change the shipped rules.
const siteFolder = "site/"

// checkSite checks that the files of the site add rules only to package site, or mask
// the log: a file of package kvasir.admission could allow what the shipped rules
// refuse. Rules of package site can only narrow a decision.
func (p *program) checkSite(f *faults) {
	p.eachModule(func(m *ast.Module) bool {
		l := m.Package.Location
		pkg := m.Package.Path.String()
		if strings.HasPrefix(l.File, siteFolder) && pkg != sitePackage && !strings.HasPrefix(pkg, sitePackage+".") &&
			pkg != "data.system.log" {
			f.add(l.File, l.Row, l.Col, "a site file must not add to package "+strings.TrimPrefix(pkg, "data."),
				"use package site, whose rules can only narrow decisions")
		}
		return true
	})
}
