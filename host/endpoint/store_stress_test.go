package endpoint

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestStore_stress adds, removes, updates, charges and reports at once. Every
// snapshot must be whole, and all charges must be gone at the end, on the
// loads of removed endpoints too.
func TestStore_stress(t *testing.T) {
	s := NewStore()
	const n, rounds = 8, 400
	for i := range n {
		mustAdd(t, s, fmt.Sprint("keep", i), "p", nil)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[*Load]bool{}
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range rounds {
				id, err := s.Add(Info{Addr: fmt.Sprint(g, i), Pool: "q", Labels: map[string]string{"g": fmt.Sprint(g)}})
				if err != nil {
					t.Error(err)
					return
				}
				s.Update(id, func(st *State) { st.Ready, st.Running, st.Models = true, 7, []string{"m"} })
				if v := s.Load(); v.Running[id] != 7 || !v.Ready.Has(id) || !v.Label("g", fmt.Sprint(g)).Has(id) {
					t.Error("an update is not seen after Update returned")
				}
				s.Update(ID(r.IntN(n)), func(st *State) { st.Ready = !st.Ready })
				s.Remove(id)
			}
		})
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 2))
			for range rounds {
				v := s.Load()
				if len(v.Running) != v.N || len(v.Infos) != v.N || len(v.Loads) != v.N || len(v.Ready) != len(v.Live) {
					t.Error("a snapshot is not whole")
				}
				l := v.Loads[r.IntN(v.N)]
				if l == nil {
					continue
				}
				mu.Lock()
				seen[l] = true
				mu.Unlock()
				c := l.Charge("t"+fmt.Sprint(r.IntN(3)), r.Int64N(1000), 5)
				if l.Admit(time.Now()) {
					s.Report(l, Result(r.IntN(3)), time.Now())
				}
				l.ObservePrefill(2000, time.Duration(r.IntN(1000)))
				if r.IntN(2) == 0 {
					c.ReleaseWork()
				}
				c.Release()
			}
		})
	}
	wg.Wait()
	for l := range seen {
		if l.Inflight() != 0 || l.Outstanding() != 0 || l.KVActive() != 0 || len(l.tenants) != 0 {
			t.Errorf("charges left: inflight %d outstanding %d kv %d", l.Inflight(), l.Outstanding(), l.KVActive())
		}
	}
	if v := s.Load(); v.Live.Len() != n {
		t.Errorf("got %d endpoints, want %d", v.Live.Len(), n)
	}
}

// TestBreaker_oneProbeStress lets many ask a half-open breaker at once: one
// gets in.
func TestBreaker_oneProbeStress(t *testing.T) {
	s, l := newPool(t, 3)
	now := time.Unix(1000, 0)
	for range 50 {
		for range breakerFailures {
			s.Report(l[0], ResultFailed, now)
		}
		now = now.Add(breakerMax)
		var in [8]bool
		var wg sync.WaitGroup
		for g := range in {
			wg.Go(func() { in[g] = l[0].Admit(now) })
		}
		wg.Wait()
		n := 0
		for _, ok := range in {
			if ok {
				n++
			}
		}
		if n != 1 {
			t.Fatalf("got %d probes at once, want 1", n)
		}
		s.Report(l[0], ResultOK, now)
	}
}

func BenchmarkStore(b *testing.B) {
	for _, n := range []int{64, 1024} {
		s := NewStore()
		for i := range n {
			if _, err := s.Add(Info{Addr: fmt.Sprint(i), Pool: "p"}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("Update/endpoints=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Update(5, func(st *State) { st.Running++ })
			}
		})
	}
}
