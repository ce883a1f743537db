// Package conformance holds what every host and every plugin of the ABI must
// pass. Run is the part for hosts: the hostile guests of conformance/guests, each
// with the reaction it must get.
//
// A host in Go implements Host and Guest, some forty lines over its own loading and
// calling, and calls Run in a test of its own; the example of Run is that for the host
// of this project, and is run with its tests. A host in another
// language is driven by the same two methods over a pipe or a socket; or it reads
// guests/guests.json, which holds all that Run knows, and the .wasm files beside it.
// A host should also write the arguments of abi/vectors byte for byte, and load the
// plugins of conformance/golden with the answers that are kept with them.
package conformance

import (
	"slices"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/guests"
)

// Host is an implementation of the ABI's host side.
type Host interface {
	// Load loads a module with the host modules it is granted and at least two
	// instances. A refusal names the step of loading, as abi/SPEC.md orders
	// them: module, exports, imports, rewrite, compile, start, abi, manifest,
	// roles, columns, grants, configure, smoke, time, check.
	Load(code []byte, grants []string) (g Guest, refused string)
}

// Guest is a loaded module.
type Guest interface {
	// Call calls a role ("score", "filter" or "pick") with one candidate per
	// value of the column waiting.
	Call(role string, waiting []float32) Answer
	Close()
}

// Answer is what a call came to.
type Answer struct {
	Scores []float32 // [N], of score
	// Fault is the reason of a fault, "" = success: "trap", "fuel" (used
	// up), "stack", "status" (2 or more), "unwritten", "not_finite", "index" (or a drop
	// reason out of range), "alloc" or "forbidden" (a host call the role may not make).
	Fault   string
	Detail  string // of the fault, for people
	Abstain bool
}

// maxFault is how long a guest may take until it is stopped, with room for a
// busy machine: the budgets are about a millisecond.
const maxFault = 200 * time.Millisecond

// Run loads and calls every hostile guest.
func Run(t *testing.T, h Host) {
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		t.Run(g.File, func(t *testing.T) {
			code, err := g.Code()
			if err != nil {
				t.Fatal(err)
			}
			guest, refused := h.Load(code, g.Grants)
			if guest != nil {
				defer guest.Close()
			}
			if refused != g.Load {
				t.Fatalf("%s: refused in step %q, want %q", g.Why, refused, g.Load)
			}
			if refused == "" {
				react(t, guest, &g)
			}
		})
	}
}

func waiting(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(i%13) + 0.5
	}
	return w
}

// react calls a guest and compares the reaction with the demanded one; then
// the guest must answer another batch, on another instance after a fault.
func react(t *testing.T, guest Guest, g *guests.Guest) {
	w := waiting(g.N)
	start := time.Now()
	a := guest.Call(g.Role, w)
	took := time.Since(start)
	switch {
	case g.Abstain != a.Abstain:
		t.Errorf("%s: abstained %v, want %v", g.Why, a.Abstain, g.Abstain)
	case a.Fault != "" && !slices.Contains(g.Fault, a.Fault), a.Fault == "" && len(g.Fault) > 0:
		t.Errorf("%s: fault %q (%s), want one of %q", g.Why, a.Fault, a.Detail, g.Fault)
	case a.Fault != "" && a.Detail == "":
		t.Errorf("%s: fault %q without a detail", g.Why, a.Fault)
	case took > maxFault:
		t.Errorf("%s: took %v", g.Why, took)
	case g.OK:
		checkScores(t, a, w)
	}
	if a.Fault != "" {
		t.Logf("%s: %s in %v", a.Fault, a.Detail, took)
	}
	if a := guest.Call(g.Role, waiting(5)); a.Fault != "" {
		t.Errorf("the next call: fault %q (%s)", a.Fault, a.Detail)
	} else if g.Role == "score" {
		checkScores(t, a, waiting(5))
	}
}

// checkScores: every guest with a scorer rates by minus waiting.
func checkScores(t *testing.T, a Answer, waiting []float32) {
	t.Helper()
	if len(a.Scores) != len(waiting) {
		t.Fatalf("%d scores, want %d", len(a.Scores), len(waiting))
	}
	for i, w := range waiting {
		if a.Scores[i] != -w {
			t.Fatalf("score %d: got %v, want %v", i, a.Scores[i], -w)
		}
	}
}
