// Package policies holds the policy that ships with the router: its Rego with tests,
// the schemas of input, output and data, initial data, and examples. README.md
// describes how to write another policy.
package policies

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// FS is the folder as it is in the repository, without scripts and Go files:
// kvasir, site, schemas, data, capabilities.json, README.md and examples.
//
//go:embed README.md capabilities.json data examples kvasir schemas site
var FS embed.FS

const exampleFolder = "examples"

// Examples lists the names of the examples, sorted.
func Examples() []string {
	entries, err := fs.ReadDir(FS, exampleFolder)
	if err != nil {
		panic("BUG: policies: " + err.Error()) // it is embedded
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Files returns the files of a policy folder by slash-separated path: the shipped
// policy overlaid with the named examples. The caller owns them. An example that does
// not exist is an error.
func Files(examples ...string) (map[string][]byte, error) {
	out := map[string][]byte{}
	known := Examples()
	for _, name := range examples {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("policies: no example %.80q: there are %s", name, strings.Join(known, ", "))
		}
		if err := add(out, path.Join(exampleFolder, name), ""); err != nil {
			return nil, err
		}
		// An example's README goes beside its rules, so that two examples do not collide.
		out[path.Join("site", name+".md")] = out["README.md"]
		delete(out, "README.md")
	}
	return out, add(out, ".", exampleFolder)
}

// add adds the files below root to out, except those below the folder but.
func add(out map[string][]byte, root, but string) error {
	return fs.WalkDir(FS, root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name == but {
				return fs.SkipDir
			}
			return err
		}
		rel := strings.TrimPrefix(name, root+"/")
		if _, ok := out[rel]; ok {
			return fmt.Errorf("policies: duplicate file %s", rel)
		}
		out[rel], err = fs.ReadFile(FS, name)
		return err
	})
}
