package host

import (
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// TestScaleFleet_Adopt: what a driver says is believed within the allow-list
// only.
func TestScaleFleet_Adopt(t *testing.T) {
	p := config.Pool{Name: "p", Autoscale: config.Autoscale{Max: 4, Driver: config.Driver{Allow: []string{"10.1.0.0/16", "*.gpu.example", "127.0.0.1"}}}}
	f := newScaleFleet(&Host{}, []config.Pool{p})
	good := []autoscale.Machine{
		{URL: "http://10.1.2.3:8000"}, {URL: "http://a.gpu.example:8000/"}, {URL: "http://127.0.0.1:1", Events: "tcp://127.0.0.1:5", Replay: "tcp://127.0.0.1:6"},
	}
	for _, m := range good {
		if err := f.believe(&p, &m); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	bad := map[string]autoscale.Machine{
		"driver.allow":           {URL: "http://10.2.0.1:8000"},
		"metadata":               {URL: "http://169.254.169.254:80/latest/metadata"},
		"gpu.example is not":     {URL: "http://gpu.example:80"},
		"evil":                   {URL: "http://10.1.2.3.evil.example:80"},
		"want a URL":             {URL: "https://10.1.2.3:8000"},
		"only scheme":            {URL: "http://user@10.1.2.3:8000"},
		"want events at":         {URL: "http://10.1.2.3:8000", Events: "tcp://10.1.2.4:5557"},
		"want events at tcp":     {URL: "http://10.1.2.3:8000", Replay: "ipc:///tmp/x"},
		"such as http://10.0.0.": {URL: "http://10.1.2.3"},
	}
	for want, m := range bad {
		if err := f.believe(&p, &m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
}

func TestScaleGroups(t *testing.T) {
	cfg := &config.Config{Pools: []config.Pool{
		{Name: "spot", Autoscale: config.Autoscale{Max: 4, OverflowOf: "own"}}, {Name: "fixed"}, {Name: "own", Autoscale: config.Autoscale{Max: 2}}, {Name: "other", Autoscale: config.Autoscale{Max: 1}},
	}}
	var got []string
	for _, g := range scaleGroups(cfg) {
		names := ""
		for _, p := range g {
			names += p.Name + " "
		}
		got = append(got, strings.TrimSpace(names))
	}
	if strings.Join(got, ",") != "own spot,other" {
		t.Errorf("groups %q", got)
	}
}

// TestWaitingRoom: bounded in all, and a tenant has half of it.
func TestWaitingRoom(t *testing.T) {
	w := newWaitingRoom(nil)
	seat := func(tenant string) roomSeat { return roomSeat{"p", tenant} }
	for range 2 {
		if !w.enter(seat("a"), 5) {
			t.Fatal("refused with room")
		}
	}
	if w.enter(seat("a"), 5) {
		t.Error("one tenant has more than half")
	}
	for _, tenant := range []string{"b", "b", "c"} {
		if !w.enter(seat(tenant), 5) {
			t.Errorf("%s was refused with room", tenant)
		}
	}
	if w.enter(seat("d"), 5) {
		t.Error("more than fit")
	}
	if n := w.waiting([]string{"p", "q"}); n != 5 {
		t.Errorf("%d wait, want 5", n)
	}
	for _, tenant := range []string{"a", "a", "b", "b", "c"} {
		w.leave(seat(tenant))
	}
	if len(w.pools) != 0 || len(w.tenants) != 0 || w.refused != 2 || w.held != 5 {
		t.Errorf("left behind: %+v", w)
	}
}

func TestWorkMeter(t *testing.T) {
	m := newWorkMeter()
	m.pools[7] = "p"
	for range 400 {
		o := &scheduler.Observation{Generation: 7, PromptTokens: 1000, PredictedCached: 400}
		o.Outcome.End, o.Outcome.Status, o.Outcome.HasUsage, o.Outcome.OutputTokens = exchange.EndComplete, 200, true, 101
		o.Outcome.TTFT, o.Outcome.E2E = 100*time.Millisecond, 1100*time.Millisecond
		m.observe(o)
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
	bad := &scheduler.Observation{Generation: 7}
	bad.Outcome.End, bad.Outcome.Status, bad.Outcome.OutputTokens, bad.Outcome.HasUsage = exchange.EndComplete, 500, 9999, true
	m.observe(bad)
	if b := m.costs("p"); b.tokens > 102 {
		t.Error("learned from a failure")
	}
}
