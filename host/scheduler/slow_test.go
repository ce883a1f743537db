package scheduler

import (
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// TestStalled: an endpoint that stops gets hardly any further request, although its
// clients' conversations are there and they give up and try again.
func TestStalled(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newRig(t, 4, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
	texts, clients, sent := make([]string, 8), make([]*Placement, 8), make([]time.Time, 8)
	for i := range texts {
		texts[i] = words(10+i, 1000)
		r.warm(texts[i], 0) // all conversations are on the endpoint that stops
	}
	stopped, toStopped := false, 0
	const patience = 400 * time.Millisecond
	turn := func(i int) {
		if p := clients[i]; p != nil {
			stuck := stopped && p.Target().Endpoint == 0
			switch {
			case stuck && now.Sub(sent[i]) < patience:
				return
			case stuck:
				p.Done(exchange.Outcome{Status: 499, End: exchange.EndClientGone})
			default:
				end(p)
				texts[i] += words(i, 20)
			}
		}
		clients[i], sent[i] = r.place(r.request(texts[i])), now
		if stopped && clients[i].Target().Endpoint == 0 {
			toStopped++
		}
	}
	for step := range 250 { // five seconds, the endpoint stops after one
		stopped = step >= 50
		for i := range clients {
			turn(i)
		}
		now = now.Add(20 * time.Millisecond)
	}
	if toStopped > 8 {
		t.Errorf("%d requests were sent to the endpoint that had stopped", toStopped)
	}
	t.Logf("%d requests to the stopped endpoint", toStopped)
	for _, p := range clients {
		end(p)
	}
	if d := r.store.Load().Loads[0].Stalled(now.Add(time.Minute)); d > time.Second {
		t.Errorf("a minute after the last wait: stalled for %v", d)
	}
}

// TestStalled_expected: prompts that take as long as they must are no stall.
func TestStalled_expected(t *testing.T) {
	for _, c := range []struct {
		stalled           time.Duration
		outstanding, rate float32
		want              float32
	}{
		{50 * time.Millisecond, 100, 0, 0},
		{9 * time.Second, 60_000, 10_000, 0},               // they take six
		{10100 * time.Millisecond, 60_000, 10_000, 40_000}, // a second late
		{3 * time.Second, 100_000, 0, 0},                   // a slow GPU, for all that is known
	} {
		if got := stallTokens(c.stalled, c.outstanding, c.rate, 0); got < c.want-10 || got > c.want+10 {
			t.Errorf("%v for %v tokens at %v/s: got %v, want %v", c.stalled, c.outstanding, c.rate, got, c.want)
		}
	}
}

// TestSlowDecode: an endpoint that decodes twenty times as slowly gets few short prompts,
// and another try after a while without any.
func TestSlowDecode(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newRig(t, 4, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
	per := make([]int, 4)
	turn := func(i int) {
		req := r.request(words(i, 200))
		req.API.Stream = true
		p := r.place(req)
		at := p.Target().Endpoint
		per[at]++
		gap := 10 * time.Millisecond
		if at == 0 {
			gap *= 20
		}
		p.FirstToken()
		p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete, HasUsage: true, OutputTokens: 101,
			TTFT: 20 * time.Millisecond, E2E: 20*time.Millisecond + 100*gap})
		now = now.Add(50 * time.Millisecond)
	}
	for i := range 400 {
		turn(i)
	}
	if per[0] > 40 {
		t.Errorf("got %v requests, want at most 40 on the endpoint that decodes slowly", per)
	}
	if e := r.sched.DryRun(r.request(words(1000, 200))); e.Candidates[0].Columns["decode_delay_tokens"] < 8192 {
		t.Errorf("got columns %v, want a delay", e.Candidates[0].Columns)
	}
	now = now.Add(10 * time.Minute)
	clear(per)
	for i := range 40 {
		turn(2000 + i)
	}
	if per[0] == 0 {
		t.Errorf("got %v requests ten minutes later, want some on each endpoint", per)
	}
}
