package plugincheck

import (
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

func failed(r *Report, check string) bool {
	for _, x := range r.Results {
		if !x.OK && strings.HasSuffix(x.Name, ": "+check) {
			return true
		}
	}
	return false
}
