package metric

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite METRICS.md")

const document = "../../../METRICS.md"

// TestDocument_current fails if METRICS.md differs from the text generated from the
// rows: run make generate.
func TestDocument_current(t *testing.T) {
	want := []byte(markdown())
	if *update {
		if err := os.WriteFile(document, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(document); err != nil || !bytes.Equal(got, want) {
		t.Errorf("METRICS.md is not current (%v): run make generate", err)
	}
}

// TestRows checks names, units and sentences.
func TestRows(t *testing.T) {
	seen, name := map[string]bool{}, regexp.MustCompile(`^kvasir_[a-z0-9]+(_[a-z0-9]+)*$`)
	for _, d := range all {
		if seen[d.name] || !name.MatchString(d.name) {
			t.Errorf("%s is a duplicate or malformed name", d.name)
		}
		seen[d.name] = true
		if total := strings.HasSuffix(d.name, "_total"); total != (d.kind == Counter) {
			t.Errorf("%s is a %s", d.name, d.kind)
		}
		if strings.Contains(d.name, "_seconds") != (d.unit == Seconds) {
			t.Errorf("%s is in %s", d.name, d.unit)
		}
		if d.unit == "" || !strings.HasSuffix(d.help, ".") {
			t.Errorf("%s has the unit %q and the help %q", d.name, d.unit, d.help)
		}
	}
}

// TestRows_fed: production code outside this package uses each row: a metric that
// nothing emits is an error.
func TestRows_fed(t *testing.T) {
	rows := variables(t)
	used := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "metric"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "metric" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(all) {
		t.Errorf("%d variables, %d rows", len(rows), len(all))
	}
	for _, name := range rows {
		if !used[name] {
			t.Errorf("nothing emits metric.%s", name)
		}
	}
}

// variables returns the names of the exported variables of catalog.go.
func variables(t *testing.T) (names []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "catalog.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			for _, n := range s.(*ast.ValueSpec).Names {
				if n.IsExported() {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

func markdown() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nGenerated from host/telemetry/metric by `make generate`; do not edit.\n\n" +
		"They are served at `/metrics` of the admin listener, with those of the Go runtime and the process. Histograms\n" +
		"have classic buckets, those of whole requests native ones too. `examples/alerts` has alerting rules.\n")
	var g *group
	for _, d := range all {
		if d.group != g {
			g = d.group
			fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| metric | type | unit | labels | help |\n|---|---|---|---|---|\n", g.title,
				g.about)
		}
		labels := "`" + strings.Join(d.labels, "`, `") + "`"
		if len(d.labels) == 0 {
			labels = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.name, d.kind, d.unit, labels, d.help)
	}
	return b.String()
}
