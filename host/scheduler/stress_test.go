package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// TestSchedule_stress schedules, retries, ends, explains and refreshes while
// endpoints come, go and change. At the end nothing is charged.
func TestSchedule_stress(t *testing.T) { stress(t, func(*Profile) {}) }

// TestSchedule_stressPlugins: the same with extensions.
func TestSchedule_stressPlugins(t *testing.T) {
	stress(t, func(p *Profile) {
		p.Scorers = []Weighted{{favour("a", 1), 2, false}, {favour("b", 3), 1, false}, {faulty("c", ErrAbstain), 1, false}}
		p.Filters, p.Picker = []Filter{filtering{drops: map[int]uint32{2: 1, 4: 2}}}, picking{n: 2}
	})
}

func stress(t *testing.T, change func(*Profile)) {
	assumed := newFakeIndex()
	r := newRig(t, 6, func(sc *StateConfig, c *Config) {
		sc.Locality.Assumed = assumed
		sc.TraceEntries = 200
		c.Profiles[0].Holdout = 0.1
		change(&c.Profiles[0])
		c.Pools[0].MaxInflight = 40
	})
	tenants := []*identity.Principal{{Tenant: "acme"}, {Tenant: "globex"}}
	loads := map[*endpoint.Load]bool{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 3))
			var held []*Placement
			for i := range 300 {
				req := &Request{ID: fmt.Sprint(g, "-", i), Principal: tenants[rnd.IntN(2)], Session: fmt.Sprint(rnd.IntN(5)),
					API: &llmapi.Request{Op: llmapi.OpChat, Model: "m",
						Body: []byte(words(rnd.IntN(5), 200) + words(rnd.IntN(50), 60))}}
				p, err := r.sched.Schedule(req)
				if err != nil {
					continue
				}
				if rnd.IntN(4) == 0 {
					p.Next()
				}
				held = append(held, p)
				for len(held) > rnd.IntN(6) {
					k := rnd.IntN(len(held))
					q := held[k]
					held = append(held[:k], held[k+1:]...)
					if rnd.IntN(3) > 0 {
						q.FirstToken()
					}
					q.Done([]exchange.Outcome{{Status: 200, End: exchange.EndComplete}, {Status: 500, End: exchange.EndComplete},
						{End: exchange.EndClientGone},
						{Status: 200, HasUsage: true, HasCached: true, CachedTokens: 5, End: exchange.EndComplete}}[rnd.IntN(4)])
				}
				if i%20 == 0 {
					r.sched.Explain("acme", req.ID)
					r.sched.DryRun(req)
					r.state.Refresh()
					r.state.Stats()
				}
			}
			for _, q := range held {
				q.Done(ok200)
			}
		})
	}
	wg.Go(func() {
		for i := range 200 {
			for _, l := range r.store.Load().Loads {
				if l != nil {
					mu.Lock()
					loads[l] = true
					mu.Unlock()
				}
			}
			id, err := r.store.Add(endpoint.Info{URL: fmt.Sprint("http://x", i), Addr: fmt.Sprint("x", i), Pool: "main"})
			if err != nil {
				t.Error(err)
				return
			}
			r.store.Update(id, func(s *endpoint.State) { s.Ready, s.Trust = true, 1 })
			r.store.Update(endpoint.ID(i%6), func(s *endpoint.State) { s.Ready = i%3 != 0 })
			loads[r.store.Load().Loads[id]] = true
			r.store.Remove(id)
		}
	})
	wg.Wait()
	for l := range loads {
		if l.Inflight() != 0 || l.Outstanding() != 0 || l.KVActive() != 0 {
			t.Errorf("left: inflight %d, outstanding %d, kv %d", l.Inflight(), l.Outstanding(), l.KVActive())
		}
	}
	r.idle()
}

// TestSchedule_stressChargesAtOnce: requests that are placed at the same time see each
// other's charges.
func TestSchedule_stressChargesAtOnce(t *testing.T) {
	r := newRig(t, 8, nil)
	const n = 160
	reqs := make([]*Request, n)
	for i := range reqs {
		reqs[i] = r.request(words(i, 500))
	}
	ps := make([]*Placement, n)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := g; i < n; i += 8 {
				p, err := r.sched.Schedule(reqs[i])
				if err != nil {
					t.Error(err)
					return
				}
				ps[i] = p
			}
		})
	}
	wg.Wait()
	for i, l := range r.store.Load().Loads {
		if k := l.Inflight(); k != n/8 {
			t.Errorf("endpoint %d has %d of %d equal requests, want %d", i, k, n, n/8)
		}
	}
	for _, p := range ps {
		end(p)
	}
	r.idle()
}

// quiet is a locality without blocks.
type quiet struct{}

func (quiet) Match(_, _ []uint64, _ []uint32)    {}
func (quiet) Raise(_, _ []uint64, _, _ []uint32) {}
func (quiet) Add(int, []uint64)                  {}

func benchRig(tb testing.TB, n int) (*rig, *Request) {
	r := newRig(tb, 0, func(sc *StateConfig, c *Config) {
		sc.Locality = Locality{Index: quiet{}, Predictor: quiet{}}
		sc.TraceEntries, sc.TraceBytes = 100, 100*n*250
		c.Models[0].Prompter = nil
	})
	for i := range n {
		r.add(fmt.Sprint("e", i, ":1"), "main", nil)
	}
	for i, l := range r.store.Load().Loads {
		l.Charge("x", int64(i*13%7)*500, int64(i*100))
	}
	return r, r.request(words(1, 200))
}

func BenchmarkSchedule(b *testing.B) {
	for _, n := range []int{4, 64, 512, -64} {
		name := fmt.Sprintf("endpoints=%d", n)
		if n < 0 { // the built-in's cost by a scorer that is not it: what plugins cost beside their call
			n, name = -n, fmt.Sprintf("endpoints=%d/scorer", -n)
		}
		b.Run(name, func(b *testing.B) {
			r, req := benchRig(b, n)
			if strings.HasSuffix(name, "/scorer") {
				r.cfg.Profiles = []Profile{{Name: "default",
					Scorers: []Weighted{{scoring{"a", CostTokens, NewLeastWork(Blend).Score}, 1, false}}}}
				var err error
				if r.sched, err = New(r.cfg); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				p, err := r.sched.Schedule(req)
				if err != nil {
					b.Fatal(err)
				}
				p.FirstToken()
				p.Done(ok200)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/candidate")
		})
	}
}

func BenchmarkScore(b *testing.B) {
	x := &Batch{}
	x.resize(64)
	l := NewLeastWork(Blend)
	b.ReportAllocs()
	for b.Loop() {
		l.Score(x)
	}
}
