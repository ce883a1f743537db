// Command style checks what gofmt, vet and staticcheck leave open: the length of
// lines, and words that this project does not use in identifiers and texts.
//
//	go run ./.ci/style [file or folder…]
//
// It prints what it finds and a count for each rule, and then fails. Files are those
// that git knows.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxColumns is the longest line of Go code, a tab counted as one column.
const maxColumns = 120

func main() {
	flag.Parse()
	files, err := gitFiles(flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "style:", err)
		os.Exit(2)
	}
	c := checker{}
	for _, f := range files {
		c.file(f)
	}
	if flag.NArg() == 0 {
		for _, d := range documents {
			c.paths(d)
		}
	}
	if !c.report() {
		os.Exit(1)
	}
}

// gitFiles returns the Go files among paths that git knows and that exist.
func gitFiles(paths []string) (files []string, err error) {
	args := append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"}, paths...)
	out, err := exec.Command("git", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for _, f := range strings.Split(string(out), "\x00") {
		if _, err := os.Stat(f); err == nil && strings.HasSuffix(f, ".go") {
			files = append(files, f)
		}
	}
	return files, nil
}

// finding is one place that breaks a rule.
type finding struct{ rule, at, text string }

type checker struct{ found []finding }

func (c *checker) add(rule, at, format string, args ...any) {
	c.found = append(c.found, finding{rule, at, fmt.Sprintf(format, args...)})
}

func (c *checker) file(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		c.add("read", path, "%v", err)
		return
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.add("parse", path, "%v", err)
		return
	}
	if ast.IsGenerated(f) {
		return
	}
	c.lines(path, text)
	ast.Inspect(f, func(n ast.Node) bool {
		for _, name := range declared(n) {
			if w := badWord(name.Name); w != "" && exceptions[name.Name] == "" {
				c.add("identifier", fset.Position(name.Pos()).String(), "%s: %s", name.Name, identifierWords[w])
			}
		}
		return true
	})
	if path != phraseTable {
		c.texts(fset, f)
	}
}

// lines finds lines that are longer than maxColumns, without exception: a string
// can be written in parts, and what has to stay one line belongs into a file that is
// embedded or generated.
func (c *checker) lines(path string, text []byte) {
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(nil, len(text)+1)
	for n := 1; s.Scan(); n++ {
		if width := utf8.RuneCount(s.Bytes()); width > maxColumns {
			c.add("length", fmt.Sprintf("%s:%d", path, n), "%d columns", width)
		}
	}
}

// declared returns the names that a node declares.
func declared(n ast.Node) []*ast.Ident {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.ValueSpec:
		return n.Names
	case *ast.Field:
		return n.Names
	case *ast.AssignStmt:
		var names []*ast.Ident
		if n.Tok == token.DEFINE {
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok {
					names = append(names, id)
				}
			}
		}
		return names
	}
	return nil
}

// badWord returns the first word of an identifier that the style table refuses,
// "" if there is none. Words begin at capitals and underscores.
func badWord(name string) string {
	var word strings.Builder
	refused := func() bool { return identifierWords[strings.ToLower(word.String())] != "" }
	for _, r := range name {
		if unicode.IsUpper(r) || r == '_' {
			if refused() {
				return strings.ToLower(word.String())
			}
			word.Reset()
		}
		if r != '_' {
			word.WriteRune(r)
		}
	}
	if refused() {
		return strings.ToLower(word.String())
	}
	return ""
}

// texts finds phrases of another language's manner in comments and strings.
func (c *checker) texts(fset *token.FileSet, f *ast.File) {
	look := func(pos token.Pos, text string) {
		low := strings.ToLower(text)
		for phrase, instead := range phrases {
			if strings.Contains(low, phrase) {
				c.add("phrase", fset.Position(pos).String(), "%q: %s", phrase, instead)
			}
		}
	}
	for _, g := range f.Comments {
		look(g.Pos(), strings.Join(strings.Fields(g.Text()), " "))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			look(lit.Pos(), lit.Value)
		}
		return true
	})
}

// report prints what was found and reports whether that is nothing.
func (c *checker) report() bool {
	count := map[string]int{}
	for _, f := range c.found {
		count[f.rule]++
		fmt.Printf("%s: %s: %s\n", f.at, f.rule, f.text)
	}
	for _, rule := range []string{"read", "parse", "document", "length", "identifier", "phrase"} {
		if n := count[rule]; n > 0 {
			fmt.Printf("style: %d of rule %s\n", n, rule)
		}
	}
	return len(c.found) == 0
}
