package scheduler

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Pools and models of laneStress, and the cap of an endpoint.
const (
	stressPools  = 4
	stressModels = 5
	stressCap    = 30
)

// laneStress places requests of several models over pools that revisions regroup.
type laneStress struct {
	*rig
	sched   atomic.Pointer[Scheduler]
	charges atomic.Int64 // placements and retries
	over    atomic.Int64 // times that an endpoint was seen above its cap
}

func newLaneStress(t *testing.T) *laneStress {
	s := &laneStress{rig: newRig(t, 0, func(sc *StateConfig, c *Config) {
		c.Pools, c.Models = nil, nil
		sc.TraceEntries = 2048
	})}
	for i := range stressPools {
		s.cfg.Pools = append(s.cfg.Pools, Pool{Name: fmt.Sprint("p", i), MaxInflight: stressCap})
		for k := range 3 {
			s.add(fmt.Sprintf("10.0.%d.%d:1", i, k), fmt.Sprint("p", i), nil)
		}
	}
	s.reload(rand.New(rand.NewPCG(0, 0)))
	return s
}

// reload puts a revision in force in which each model is placed over random pools.
func (s *laneStress) reload(rnd *rand.Rand) {
	cfg := s.cfg
	for m := range stressModels {
		c := Model{Name: fmt.Sprint("m", m), Prompter: wordPrompter{}}
		for _, p := range rnd.Perm(stressPools)[:1+rnd.IntN(stressPools)] {
			c.Pools = append(c.Pools, PoolRef{Pool: fmt.Sprint("p", p)})
		}
		cfg.Models = append(cfg.Models, c)
	}
	if rnd.IntN(2) == 0 {
		scorer := scoring{"a", CostTokens, NewLeastWork(Blend).Score}
		cfg.Profiles = []Profile{{Name: "default", Scorers: []Weighted{{scorer, 1, false}}}}
	}
	next, err := New(cfg)
	if err != nil {
		s.t.Error(err)
		return
	}
	s.sched.Store(next)
}

// request returns a request of a random model, tenant and session.
func (s *laneStress) request(rnd *rand.Rand, id string) *Request {
	return &Request{
		ID: id, Principal: &identity.Principal{Tenant: fmt.Sprint("t", rnd.IntN(2))}, Session: fmt.Sprint(rnd.IntN(5)),
		API: &llmapi.Request{Op: llmapi.OpChat, Model: fmt.Sprint("m", rnd.IntN(stressModels)),
			Body: []byte(words(rnd.IntN(5), 200) + words(rnd.IntN(50), 60))},
	}
}

// client places 400 requests, of which it holds up to 60 at a time.
func (s *laneStress) client(seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 7))
	var held []*Placement
	for i := range 400 {
		p, err := s.sched.Load().Schedule(s.request(rnd, fmt.Sprint(seed, "-", i)))
		if err != nil {
			continue
		}
		s.charges.Add(1)
		if rnd.IntN(4) == 0 && p.Next() {
			s.charges.Add(1)
		}
		for _, l := range s.store.Load().Loads {
			if l.Inflight() > stressCap {
				s.over.Add(1)
			}
		}
		held = append(held, p)
		for len(held) > rnd.IntN(60) {
			k := rnd.IntN(len(held))
			q := held[k]
			held = append(held[:k], held[k+1:]...)
			if rnd.IntN(3) > 0 {
				q.FirstToken()
			}
			q.Done(ok200)
		}
	}
	for _, q := range held {
		q.Done(ok200)
	}
}

// check fails the test unless each placement was charged once and nothing is charged
// now.
func (s *laneStress) check() {
	var charged uint64
	for i, l := range s.store.Load().Loads {
		n, _ := l.Charged()
		charged += n
		if l.Inflight() != 0 || l.Outstanding() != 0 || l.KVActive() != 0 ||
			l.TenantOutstanding("t0")+l.TenantOutstanding("t1") != 0 {
			s.t.Errorf("endpoint %d: inflight %d, outstanding %d, kv %d left", i, l.Inflight(), l.Outstanding(), l.KVActive())
		}
	}
	if charged != uint64(s.charges.Load()) || charged == 0 {
		s.t.Errorf("got %d charges, want %d", charged, s.charges.Load())
	}
	if n := s.over.Load(); n > 0 {
		s.t.Errorf("an endpoint had more than its cap of requests %d times", n)
	}
	s.idle()
}

// TestLane_stress places requests of several models while revisions put their pools
// together and apart. Each placement is charged once, no endpoint exceeds its cap, and
// at the end nothing is charged.
func TestLane_stress(t *testing.T) {
	s := newLaneStress(t)
	stop := make(chan struct{})
	var reloads, clients sync.WaitGroup
	reloads.Go(func() {
		rnd := rand.New(rand.NewPCG(1, 1))
		for {
			select {
			case <-stop:
				return
			default:
				s.reload(rnd)
				s.state.Refresh()
				s.state.Sessions()
				s.state.Stats()
			}
		}
	})
	for g := range uint64(6) {
		clients.Go(func() { s.client(g) })
	}
	clients.Wait()
	close(stop)
	reloads.Wait()
	s.check()
}
