package replay

import (
	"reflect"
	"testing"
)

// TestGenerators: the same seed gives the same workload, another one another; requests
// are possible; reuse is in the range that the kind is meant to have.
func TestGenerators(t *testing.T) {
	for _, g := range []struct {
		name      string
		make      func(seed uint64) *Trace
		low, high float64 // ideal hit
		requests  int
	}{
		{"burst", Burst{}.Generate, 0.9, 0.98, 48 * 8},
		{"rag", RAG{}.Generate, 0.25, 0.7, 3000},
		{"tenants", Tenants{}.Generate, 0.8, 0.98, 0},
		{"waves", Waves{}.Generate, 0.95, 0.99, 40 * 64},
	} {
		a := g.make(1)
		if !reflect.DeepEqual(a, g.make(1)) {
			t.Errorf("%s: the same seed makes another workload", g.name)
		}
		if reflect.DeepEqual(a, g.make(2)) {
			t.Errorf("%s: another seed makes the same workload", g.name)
		}
		if hit := IdealHit(a); hit < g.low || hit > g.high {
			t.Errorf("%s: ideal hit %.3f, want %g to %g", g.name, hit, g.low, g.high)
		}
		if n := a.Requests(); g.requests > 0 && n != g.requests {
			t.Errorf("%s: %d requests, want %d", g.name, n, g.requests)
		}
		last := 0.0
		for _, c := range a.Conversations {
			if c.Start < last {
				t.Fatalf("%s: conversation %s begins at %g, the one before at %g", g.name, c.Name, c.Start, last)
			}
			last = c.Start
			for _, q := range c.Requests {
				if q.Tokens < 1 || q.Output < 1 || len(q.Blocks) != q.Tokens/a.BlockTokens {
					t.Fatalf("%s: request %d tokens, %d blocks, %d output", g.name, q.Tokens, len(q.Blocks), q.Output)
				}
			}
		}
	}
}
