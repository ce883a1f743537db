package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvasir-router/kvasir/abi"
)

// The SDKs and the project templates, as bundles: a line "-- PATH --" begins
// each file. The SDK for Go is a module of its own, which go:embed cannot reach
// into; a test compares the bundles with sdk/ and rewrites them with -update.
var (
	//go:embed plugin_sdk_go.txt
	sdkGo string
	//go:embed plugin_sdk_c.txt
	sdkC string
	//go:embed plugin_sdk_rust.txt
	sdkRust string
	//go:embed plugin_project_rust.txt
	projectRust string
	//go:embed plugin_project_go.txt
	projectGo string
	//go:embed plugin_project_c.txt
	projectC string
	//go:embed plugin_project_push.txt
	projectPush string
)

// file is one file of a bundle.
type file struct{ path, text string }

// unbundle splits a bundle.
func unbundle(bundle string) []file {
	var files []file
	for line := range strings.Lines(bundle) {
		if path, ok := strings.CutPrefix(line, "-- "); ok {
			if path, ok = strings.CutSuffix(path, " --\n"); ok {
				files = append(files, file{path: path})
				continue
			}
		}
		files[len(files)-1].text += line
	}
	return files
}

// projectFiles returns the files of a project: name is that of the plugin, wasm the
// file that it is built to.
func projectFiles(lang, name, wasm string) ([]file, error) {
	var files []file
	switch lang {
	case "go", "rust":
		project, sdk := projectGo, sdkGo
		if lang == "rust" {
			project, sdk = projectRust, sdkRust
		}
		files = unbundle(project)
		for _, f := range unbundle(sdk) {
			files = append(files, file{"sdk/" + f.path, f.text})
		}
	case "c":
		files = append(unbundle(projectC), unbundle(sdkC)...)
	default:
		return nil, exit(exitUsage, "--lang %q: want go, c or rust", lang)
	}
	pairs := []string{"{{name}}", name, "{{file}}", wasm}
	fill := strings.NewReplacer(append(pairs, "{{push}}", strings.NewReplacer(pairs...).Replace(projectPush))...)
	for i := range files {
		files[i].text = fill.Replace(files[i].text)
	}
	return append(files, file{"COLUMNS.md", columnsPage()}), nil
}

// columnsPage lists the registry this binary was built with.
func columnsPage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a plugin can read\n\nColumns of the ABI %d.%d, by name, in the order your plugin names "+
		"them. A column that the router does not know has its default value.\n", abi.Major, abi.Minor)
	table := func(title string, cols []abi.Column) {
		fmt.Fprintf(&b, "\n## %s\n\n| name | type | unit | default | meaning |\n|---|---|---|---|---|\n", title)
		for _, c := range cols {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %v | %s |\n", c.Name, c.Type, c.Unit, c.Default, c.Meaning)
		}
	}
	table("Per endpoint (score, filter, pick)", abi.Columns[:])
	b.WriteString("\nAlso `label/NAME=VALUE` (1 where the endpoint has the label, else 0) and columns that a plugin " +
		"publishes, `PLUGIN/NAME`.\n")
	table("Per request (listed under `request`)", abi.RequestColumns[:])
	table("Per outcome (observe)", abi.OutcomeColumns[:])
	return b.String()
}

// writeFiles writes files into dir, which must be empty.
func writeFiles(dir string, files []file) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return exit(exitNo, "%s is not empty: choose another folder with --dir", dir)
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return exit(exitNo, "%v", err)
		}
		if err := os.WriteFile(path, []byte(f.text), 0o644); err != nil {
			return exit(exitNo, "%v", err)
		}
	}
	return nil
}
