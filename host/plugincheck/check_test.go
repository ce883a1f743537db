package plugincheck

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/plugins"
)

func TestCheck_shipped(t *testing.T) {
	for _, name := range plugins.Names {
		code, err := plugins.Code(name)
		if err != nil {
			t.Fatal(err)
		}
		rep, err := Check(t.Context(), code, Options{Calls: 5000})
		if err != nil {
			t.Fatal(err)
		}
		if !rep.OK() || rep.Name != name {
			t.Errorf("%s:\n%v", name, rep)
		}
	}
}

// TestCheck_guests: what a host refuses the check refuses, and it finds what
// a host only survives.
func TestCheck_guests(t *testing.T) {
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		code, err := g.Code()
		if err != nil {
			t.Fatal(err)
		}
		rep, err := Check(t.Context(), code, Options{Grants: g.Grants, Calls: 20})
		if err != nil {
			t.Fatal(err)
		}
		good := g.Check == "" && (g.OK || g.Abstain)
		if rep.OK() != good {
			t.Errorf("%s (%s): passed %v, want %v\n%v", g.File, g.Why, rep.OK(), good, rep)
		}
		if g.Check != "" && !failed(rep, g.Check) {
			t.Errorf("%s: the check %q did not fail\n%v", g.File, g.Check, rep)
		}
	}
}

// TestCheck_calls: with as many calls as there are by default a leak is found even
// where the memory was full before half of them, and so is a guest that became slow.
func TestCheck_calls(t *testing.T) {
	for file, c := range map[string]struct {
		calls int
		check string
	}{"leak": {0, "memory"}, "drift": {6000, "time"}} {
		code, err := (&guests.Guest{File: file}).Code()
		if err != nil {
			t.Fatal(err)
		}
		rep, err := Check(t.Context(), code, Options{Calls: c.calls})
		if err != nil {
			t.Fatal(err)
		}
		if !failed(rep, c.check) {
			t.Errorf("%s: the check %q did not fail\n%v", file, c.check, rep)
		}
	}
}

func failed(r *Report, check string) bool {
	for _, x := range r.Results {
		if !x.OK && strings.HasSuffix(x.Name, ": "+check) {
			return true
		}
	}
	return false
}

// TestCheck_experimental: faults in experimental roles are reported for each role.
func TestCheck_experimental(t *testing.T) {
	code, err := os.ReadFile("../../conformance/guests/experimental/hostile.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string][]string{
		`{"do": 0}`: nil, `{"do": 4}`: nil, `{"do": 5}`: nil,
		`{"do": 1}`:  {"x_autoscale", "x_backend_parse", "x_discover"},
		`{"do": 10}`: {"x_autoscale", "x_backend_parse", "x_discover"},
		`{"do": 12}`: {"x_autoscale"}, `{"do": 43}`: {"x_backend_parse"},
	} {
		rep, err := Check(t.Context(), code, Options{Config: []byte(config)})
		if err != nil {
			t.Fatal(err)
		}
		var failed []string
		for _, r := range rep.Results {
			if !r.OK {
				failed = append(failed, r.Name)
			}
		}
		if !slices.Equal(failed, want) {
			t.Errorf("%s: %v failed, want %v\n%v", config, failed, want, rep)
		}
	}
}
