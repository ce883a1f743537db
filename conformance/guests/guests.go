// Package guests holds hostile plugins as data: small WebAssembly modules that
// each break one rule of the ABI, and the reaction a host must have. The .wasm
// files are the .wat files as build.sh assembles them.
package guests

import (
	"embed"
	"encoding/json"
	"fmt"
)

//go:embed *.wasm guests.json
var files embed.FS

// Guest is one module and what a host must do with it.
type Guest struct {
	File string // name without .wasm
	Why  string // what it does
	Role string // that misbehaves: score, filter or pick
	N    int    // candidates of the batch on which it does

	// The reaction: exactly one of these is set.
	Load    string   // the host must refuse it in this step of loading
	Fault   []string // the call must be a fault for one of these reasons
	OK      bool     // the call must succeed, with the scores of a good guest
	Abstain bool     // the call must count as an abstention

	Check  string   // a check of the plugin that must fail, "" = none
	Grants []string // modules it is granted
	Flags  string   // for wat2wasm
}

// All returns every guest.
func All() ([]Guest, error) {
	text, err := files.ReadFile("guests.json")
	if err != nil {
		return nil, err
	}
	var all []Guest
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("guests: %w", err)
	}
	return all, nil
}

// Code returns the module of g.
func (g *Guest) Code() ([]byte, error) { return files.ReadFile(g.File + ".wasm") }
