// Command gen writes the constants of the plugin ABI for every language, and
// the tables of SPEC.md, from source.go and registry.go. It is run in abi/ by
// go generate.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes every generated file below root, which is the folder above abi.
func run(root string) error {
	files, err := render(root)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(f.path, f.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// file is a generated file.
type file struct {
	path string
	text []byte
}

// render returns all generated files as they ought to be. SPEC.md is read,
// because only its tables are generated.
func render(root string) ([]file, error) {
	spec, err := os.ReadFile(root + "/abi/SPEC.md")
	if err != nil {
		return nil, err
	}
	spec, err = fillTables(spec)
	if err != nil {
		return nil, err
	}
	full, err := goFile("abi", true)
	if err != nil {
		return nil, err
	}
	guest, err := goFile("kvasir", false)
	if err != nil {
		return nil, err
	}
	return []file{
		{root + "/abi/abi_gen.go", full},
		{root + "/sdk/go/abi_gen.go", guest},
		{root + "/sdk/c/kvasir_abi.h", cFile()},
		{root + "/sdk/rust/src/abi.rs", rustFile()},
		{root + "/abi/SPEC.md", spec},
	}, nil
}
