package kvindex

import (
	"math/rand/v2"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// TestBudget: an index under its budget forgets, but keeps the budget at every
// step, uses it, and never claims what is not held.
func TestBudget(t *testing.T) {
	testdeps.Sequential(t)
	for _, c := range []struct {
		name    string
		holders int
		agree   bool
	}{{"agree", 16, true}, {"disagree", 16, false}, {"wide", 4096, true}} {
		t.Run(c.name, func(t *testing.T) {
			const budget = 4 << 20
			rng := rand.New(rand.NewPCG(5, 5))
			w := newWorld(Config{Holders: c.holders, BudgetBytes: budget}, 3, rng.IntN)
			w.agree = c.agree
			for step := range 8000 {
				h := rng.IntN(min(c.holders, 64))
				p := path{}
				p.own = chain(rng, mixHash(uint64(rng.IntN(3000)), 1), 20+rng.IntN(100), 3)
				p.plain = p.own
				w.paths = []path{p}
				if err := w.put(h, 0, false, p, 0); err != nil {
					t.Fatal(err)
				}
				if step%3 == 0 {
					w.x.Tick()
					w.x.Match(p.own, w.all, w.depth)
					h := rng.IntN(min(c.holders, 64))
					if err := w.compare(h, w.depth[h], w.n.Depth(h, p.own)); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
				}
				if b := w.x.Bytes(); b > budget {
					t.Fatalf("step %d: %d bytes, budget %d", step, b, budget)
				}
			}
			if err := w.verify(); err != nil {
				t.Fatal(err)
			}
			// Flat bytes mean nothing if the index is empty: the budget must be used.
			s := w.x.Stats()
			used := s.Blocks*bytesPerBlock + s.Aliases*(aliasBytes+6)
			if used < budget/2 || s.Evicted == 0 {
				t.Errorf("%d blocks, %d aliases under a budget of %d bytes, %d evicted", s.Blocks, s.Aliases, budget, s.Evicted)
			}
			t.Logf("%d bytes of %d: %d blocks, %d pairs, %d aliases, %d unnamed, %d segments released; %d of %d lookups as "+
				"without a budget",
				s.Bytes, budget, s.Blocks, s.Pairs, s.Aliases, s.Unnamed, s.Released, w.exact, w.answered)
		})
	}
}

// TestMetamorphic_budget runs the random operations under a budget that is too
// small for them.
func TestMetamorphic_budget(t *testing.T) {
	testdeps.Sequential(t)
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(Config{Holders: 40, BudgetBytes: 1}, 400, rng.IntN)
		w.x.budget = 2 << 20 // below what Config allows, so that it evicts early
		w.agree = seed%3 == 0
		for step := range 8000 {
			if err := w.step(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if step%500 == 0 {
				if err := check(w.x); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
		}
		s := w.x.Stats()
		if s.Evicted == 0 {
			t.Errorf("seed %d: nothing evicted", seed)
		}
		t.Logf("seed %d: %d bytes, %d blocks, %d evicted, %d aliases, %d unnamed, %d of %d answers exact", seed, s.Bytes,
			s.Blocks, s.Evicted, s.Aliases, s.Unnamed, w.exact, w.answered)
	}
}
