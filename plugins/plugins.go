// Package plugins holds the plugins that ship with Kvasir, as built from the
// sources beside them by build.sh.
package plugins

import (
	"embed"
	"io/fs"
)

//go:embed *.wasm
var files embed.FS

// Names of the shipped plugins.
var Names = []string{"leastwork", "roundrobin", "prefixfirst"}

// Code returns the module of a shipped plugin.
func Code(name string) ([]byte, error) {
	return fs.ReadFile(files, name+".wasm")
}
