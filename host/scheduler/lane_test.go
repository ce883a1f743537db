package scheduler

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
)

// reentrant calls the scheduler from inside each interface that a decision calls.
type reentrant struct {
	decider
	call func(from string)
}

func (r *reentrant) Name() string      { return "reentrant" }
func (r *reentrant) Unit() Unit        { return CostTokens }
func (r *reentrant) Reasons() []string { return []string{"never"} }

func (r *reentrant) Score(b *Batch) error {
	r.call("scorer")
	return NewLeastWork(Blend).Score(b)
}

func (r *reentrant) Filter(b *Batch, drop []uint32) error {
	r.call("filter")
	clear(drop)
	return nil
}

func (r *reentrant) Pick(b *Batch, mask, order []uint32) (int, error) {
	r.call("picker")
	return 0, nil
}

func (r *reentrant) Observe(*Observation) { r.call("observer") }

func (r *reentrant) Decide(in *policy.Input) (*policy.Decision, error) {
	r.call("policy")
	return r.decider.Decide(in)
}

// TestLane_callsUnlocked: no lock is held while a decision calls an interface: the callee
// may take its time, or place a request itself.
func TestLane_callsUnlocked(t *testing.T) {
	var r *rig
	called := map[string]int{}
	depth := 0
	x := &reentrant{decider: decider{d: policy.Decision{Allow: true, Salt: "s"}}}
	x.call = func(from string) {
		if called[from]++; depth == 0 {
			depth++
			end(r.place(r.request(words(9, 100))))
			depth--
		}
	}
	r = newRig(t, 3, func(sc *StateConfig, c *Config) {
		sc.Observer, c.Policy = x, x
		c.Profiles[0] = Profile{Name: "default", Scorers: []Weighted{{x, 1, false}}, Filters: []Filter{x}, Picker: x,
			Queue:   Queue{Deadline: time.Second},
			Decided: func(*Batch, [][]float32) { x.call("decided") }}
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		req := r.request(words(1, 100))
		req.MayWait, req.Behind = true, func(string, int) bool { x.call("queue"); return false }
		end(r.place(req))
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("a decision holds a lock while it calls another: %v", called)
	}
	for _, from := range []string{"scorer", "filter", "picker", "observer", "policy", "decided", "queue"} {
		if called[from] == 0 {
			t.Errorf("%s was not called", from)
		}
	}
	r.idle()
}

// TestLane_slowExtension: while an extension runs, requests of other lanes, and of other
// profiles of the same lane, are placed.
func TestLane_slowExtension(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := scoring{"slow", CostTokens, func(b *Batch) error {
		once.Do(func() { close(held) })
		<-hold
		return nil
	}}
	r := newRig(t, 2, func(_ *StateConfig, c *Config) {
		c.Pools = append(c.Pools, Pool{Name: "other"})
		c.Models = append(c.Models, Model{Name: "n", Pools: []PoolRef{{Pool: "other"}}})
		c.Profiles = append(c.Profiles, Profile{Name: "slow", Scorers: []Weighted{{slow, 1, false}}})
	})
	r.add("other:1", "other", nil)
	byProfile := func(profile string) *Scheduler {
		cfg := r.cfg
		cfg.Policy = &decider{d: policy.Decision{Allow: true, Profile: profile}}
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var wg sync.WaitGroup
	slowly := byProfile("slow")
	wg.Go(func() {
		p, err := slowly.Schedule(r.request("x"))
		if err != nil {
			t.Error(err)
			return
		}
		end(p)
	})
	<-held
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, m := range []string{"n", "m"} {
			req := r.request("y")
			req.API.Model = m
			end(r.place(req))
		}
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Error("others wait for a slow extension")
	}
	close(hold)
	wg.Wait()
	<-done
	r.idle()
}

// TestLane_extensionSeesSiblings: requests that an extension scores at the same
// time see each other's charges in their costs.
func TestLane_extensionSeesSiblings(t *testing.T) {
	const n = 64
	var together sync.WaitGroup // all are scored before any is charged
	together.Add(n)
	r := newRig(t, 8, func(_ *StateConfig, c *Config) {
		c.Profiles[0].Envelope = Envelope{MaxLoadRatio: -1, MaxShare: -1}
		c.Profiles[0].Scorers = []Weighted{{scoring{"a", CostTokens, func(b *Batch) error {
			err := NewLeastWork(Blend).Score(b)
			together.Done()
			together.Wait()
			return err
		}}, 1, false}}
	})
	ps := make([]*Placement, n)
	var wg sync.WaitGroup
	for i := range ps {
		req := r.request(words(i, 500))
		wg.Go(func() {
			var err error
			if ps[i], err = r.sched.Schedule(req); err != nil {
				t.Error(err)
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

// TestLane_cap: requests that are scored at the same time do not exceed an
// endpoint's cap.
func TestLane_cap(t *testing.T) {
	const n, limit = 40, 3
	var together sync.WaitGroup
	together.Add(n)
	r := newRig(t, 4, func(_ *StateConfig, c *Config) {
		c.Pools[0].MaxInflight = limit
		c.Profiles[0].Scorers = []Weighted{{scoring{"a", UnitScore, func(b *Batch) error {
			together.Done()
			together.Wait()
			clear(b.Scores)
			b.Scores[1] = 1
			return nil
		}}, 1, false}}
	})
	var placed, full atomic.Int64
	var mu sync.Mutex
	var ps []*Placement
	var wg sync.WaitGroup
	for i := range n {
		req := r.request(words(i, 50))
		wg.Go(func() {
			p, err := r.sched.Schedule(req)
			if err != nil {
				if d, ok := err.(*DeniedError); !ok || d.Code != llmapi.CodeOverCapacity {
					t.Error(err)
				}
				full.Add(1)
				return
			}
			placed.Add(1)
			mu.Lock()
			ps = append(ps, p)
			mu.Unlock()
		})
	}
	wg.Wait()
	for i, l := range r.store.Load().Loads {
		if k := l.Inflight(); k != limit {
			t.Errorf("endpoint %d has %d requests, want its cap of %d", i, k, limit)
		}
	}
	if placed.Load() != 4*limit || full.Load() != n-4*limit {
		t.Errorf("got %d placed and %d refused, want %d and %d", placed.Load(), full.Load(), 4*limit, n-4*limit)
	}
	for _, p := range ps {
		end(p)
	}
	r.idle()
}

var _ Filter = (*reentrant)(nil)
var _ Picker = (*reentrant)(nil)
