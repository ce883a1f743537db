package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/policy"
)

// satisfies is the definition of constraints, for one endpoint.
func satisfies(labels map[string]string, cs []policy.Constraint) bool {
	for _, c := range cs {
		v, ok := labels[c.Label]
		if (ok && slices.Contains(c.Values, v)) == c.NotIn {
			return false
		}
	}
	return true
}

// labelled adds n endpoints with random labels, some without.
func labelled(t testing.TB, s *endpoint.Store, rng *rand.Rand, from, n int) {
	t.Helper()
	for i := range n {
		l := map[string]string{}
		if rng.IntN(4) > 0 {
			l["region"] = []string{"eu", "us", "ch", ""}[rng.IntN(4)]
		}
		if rng.IntN(4) > 0 {
			l["gpu"] = []string{"h100", "l4"}[rng.IntN(2)]
		}
		info := endpoint.Info{Addr: fmt.Sprint("e", from+i, ":1"), Pool: []string{"a", "b", "c"}[rng.IntN(3)], Labels: l}
		if _, err := s.Add(info); err != nil {
			t.Fatal(err)
		}
	}
}

func randomConstraints(rng *rand.Rand) []policy.Constraint {
	var cs []policy.Constraint
	values := map[string][]string{"pool": {"a", "b", "c", "d"}, "region": {"eu", "us", "ch", "", "mars"},
		"gpu": {"h100", "l4"}, "tier": {"x"}}
	for range rng.IntN(4) {
		label := []string{"pool", "region", "gpu", "tier"}[rng.IntN(4)]
		c := policy.Constraint{Label: label, NotIn: rng.IntN(2) == 0}
		for _, v := range values[label] {
			if rng.IntN(2) == 0 {
				c.Values = append(c.Values, v)
			}
		}
		cs = append(cs, c)
	}
	return cs
}

// TestMaskCache: while the fleet changes, and with more sets than slots, a mask has exactly
// the endpoints that satisfy its constraints.
func TestMaskCache(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	store := endpoint.NewStore()
	labelled(t, store, rng, 0, 200)
	var m maskCache
	m.init()
	var asked [][]policy.Constraint
	for round := range 40 {
		snap := store.Load()
		for range 300 {
			cs := randomConstraints(rng)
			if len(asked) > 0 && rng.IntN(2) == 0 {
				cs = slices.Clone(asked[rng.IntN(len(asked))]) // equal, but elsewhere
			}
			asked = append(asked, cs)
			got := m.get(snap, cs)
			for id := range snap.N {
				info := snap.Info(endpoint.ID(id))
				if want := info != nil && satisfies(info.Labels, cs); got.Has(endpoint.ID(id)) != want {
					t.Fatalf("endpoint %v, constraints %+v: got %v, want %v", info, cs, !want, want)
				}
			}
		}
		store.Remove(endpoint.ID(rng.IntN(200)))
		if round%3 == 0 {
			labelled(t, store, rng, 1000+10*round, 3)
		}
	}
}

// TestMaskCache_stress: readers of an old and of the current snapshot each get the masks of
// their snapshot.
func TestMaskCache_stress(t *testing.T) {
	store := endpoint.NewStore()
	labelled(t, store, rand.New(rand.NewPCG(3, 4)), 0, 64)
	var m maskCache
	m.init()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 5))
			for range 3000 {
				snap, cs := store.Load(), randomConstraints(rng)
				got := m.get(snap, cs)
				id := endpoint.ID(rng.IntN(64))
				info := snap.Info(id)
				if want := info != nil && satisfies(info.Labels, cs); got.Has(id) != want {
					t.Errorf("endpoint %d, constraints %+v: got %v", id, cs, !want)
					return
				}
			}
		})
	}
	for i := range 60 {
		store.Remove(endpoint.ID(i))
	}
	wg.Wait()
}

func maskBench(t testing.TB) (*maskCache, *endpoint.Snapshot, []policy.Constraint) {
	store := endpoint.NewStore()
	labelled(t, store, rand.New(rand.NewPCG(5, 6)), 0, 512)
	m := new(maskCache)
	m.init()
	return m, store.Load(), []policy.Constraint{{Label: "pool", Values: []string{"a", "b"}},
		{Label: "region", Values: []string{"eu", "ch"}}, {Label: "gpu", NotIn: true, Values: []string{"l4"}}}
}

func TestMaskCache_allocs(t *testing.T) {
	m, snap, cs := maskBench(t)
	if n := testing.AllocsPerRun(1000, func() { m.get(snap, cs) }); n != 0 {
		t.Errorf("got %v allocs per mask, want 0", n)
	}
}

// BenchmarkConstraints measures a decision's constraints over 512 endpoints: cached, and
// computed after a change of the fleet.
func BenchmarkConstraints(b *testing.B) {
	m, snap, cs := maskBench(b)
	b.Run("kept/endpoints=512", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m.get(snap, cs)
		}
	})
	b.Run("worked_out/endpoints=512", func(b *testing.B) {
		for b.Loop() {
			satisfying(snap, cs)
		}
	})
}
