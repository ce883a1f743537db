package scaling

import (
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// answered is an outcome on a epoch of an endpoint.
func answered(epoch uint32, output int) *scheduler.Observation {
	o := &scheduler.Observation{Epoch: epoch, PromptTokens: 1000, PredictedCached: 400}
	o.Outcome.End, o.Outcome.Status, o.Outcome.HasUsage, o.Outcome.OutputTokens = exchange.EndComplete, 200, true, output
	o.Outcome.TTFT, o.Outcome.E2E = 100*time.Millisecond, 1100*time.Millisecond
	return o
}

func TestMeter(t *testing.T) {
	m := newMeter()
	m.pools[7] = "p"
	for range 400 {
		m.Observe(answered(7, 101))
	}
	a := m.costs("p")
	if a.tokens < 100 || a.tokens > 102 || a.itlMS < 9.9 || a.itlMS > 10.1 {
		t.Errorf("learned %+v, want 101 tokens and 10 ms", a)
	}
	now := time.Now()
	h := m.heat(7, now)
	if h < 0.9*400*600 || h > 400*600 {
		t.Errorf("heat %v, want nearly %v", h, 400*600)
	}
	if later := m.heat(7, now.Add(heatTime)); later < 0.36*h || later > 0.375*h {
		t.Errorf("heat after five minutes %v of %v, want a third", later, h)
	}
	bad := answered(7, 9999)
	bad.Outcome.Status = 500
	m.Observe(bad)
	if b := m.costs("p"); b.tokens > 102 {
		t.Error("learned from a failure")
	}
}

// TestMeter_begins: what was asked before a pool was scaled is no demand of the
// first tick.
func TestMeter_begins(t *testing.T) {
	s := endpoint.NewStore()
	if _, err := s.Add(endpoint.Info{URL: "http://a:1", Addr: "a:1", Pool: "main"}); err != nil {
		t.Fatal(err)
	}
	charge := func(n int) {
		for range n {
			c := s.Load().Loads[0].Charge("a", 100, 100)
			c.Release()
		}
	}
	m, pools := newMeter(), []string{"main"}
	charge(200)
	if s := m.signal(s.Load(), pools, time.Now()); s.Work != 0 || s.Requests != 0 || !s.Missing {
		t.Errorf("first tick: %+v", s)
	}
	charge(1)
	if s := m.signal(s.Load(), pools, time.Now()); s.Work <= 0 || s.Requests != 1 || s.Missing {
		t.Errorf("after one request: %+v", s)
	}
	m.leave(pools)
	charge(200)
	if s := m.signal(s.Load(), pools, time.Now()); s.Work != 0 || !s.Missing {
		t.Errorf("first tick after a pause: %+v", s)
	}
}
