package virtual

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/simengine"
)

// turns sends requests to the engines in turn and checks the order of calls.
type turns struct {
	t       *testing.T
	n, next int
	now     time.Duration
	open    map[*Request]int // 1: placed, 2: has its first token
	held    map[uint64]int   // blocks by the events
	scrapes int
	ticks   int
}

func newTurns(t *testing.T, n int) *turns {
	return &turns{t: t, n: n, open: map[*Request]int{}, held: map[uint64]int{}}
}

func (r *turns) at(now time.Duration) {
	if now < r.now {
		r.t.Errorf("time goes back from %v to %v", r.now, now)
	}
	r.now = now
}

func (r *turns) Place(now time.Duration, q *Request) (int, error) {
	r.at(now)
	r.open[q] = 1
	r.next++
	return r.next % r.n, nil
}

func (r *turns) FirstToken(now time.Duration, q *Request) {
	r.at(now)
	if r.open[q] != 1 || q.First != now || q.Cached >= q.Prompt {
		r.t.Errorf("first token of request %d: state %d, at %v, %d of %d cached", q.Number, r.open[q], q.First, q.Cached,
			q.Prompt)
	}
	r.open[q] = 2
}

func (r *turns) Done(now time.Duration, q *Request) {
	r.at(now)
	if r.open[q] != 2 {
		r.t.Errorf("end of request %d in state %d", q.Number, r.open[q])
	}
	delete(r.open, q)
}

func (r *turns) Events(now time.Duration, engine int, events []simengine.Event) {
	r.at(now)
	for _, e := range events {
		if e.Seq == nil {
			r.held[e.Removed]--
			continue
		}
		for _, h := range e.Seq.Hashes[e.From:e.To] {
			r.held[h]++
		}
	}
}

func (r *turns) Scraped(now time.Duration, _ int, f Figures) {
	r.at(now)
	r.scrapes++
	if f.KVUsage < 0 || f.KVUsage > 1 || f.Running < 0 || f.Waiting < 0 {
		r.t.Errorf("figures %+v", f)
	}
}

func (r *turns) Tick(now time.Duration) { r.at(now); r.ticks++ }

func small(t *testing.T, n int) []Engine {
	t.Helper()
	out := make([]Engine, n)
	for i := range out {
		e, err := Preset("8b-h100", replay.GeneratedBlock)
		if err != nil {
			t.Fatal(err)
		}
		e.CacheTokens = 60_000
		out[i] = e
	}
	return out
}

func TestRun(t *testing.T) {
	tr := replay.Burst{Clients: 20, Turns: 6, SystemTokens: 4000, Think: 1}.Generate(3)
	run := func() *Result {
		r := newTurns(t, 3)
		out, err := Run(Config{Engines: small(t, 3), Trace: tr, Router: r,
			Foreign: []Foreign{{At: time.Second, Engine: 1, Prompt: 9000, Output: 200}},
			Changes: []Change{{At: 2 * time.Second, Engine: 2, Timing: Slowed(small(t, 1)[0].Timing, 3)}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.open) != 0 || r.ticks == 0 || r.scrapes != 3*r.ticks {
			t.Errorf("%d requests are open, %d ticks, %d scrapes", len(r.open), r.ticks, r.scrapes)
		}
		for h, n := range r.held {
			if n < 0 || n > 3 {
				t.Errorf("block %x is held by %d engines", h, n)
			}
		}
		return out
	}
	a := run()
	if len(a.Samples) != 120 || a.Engines[1].Foreign != 1 {
		t.Errorf("%d samples, engines %+v", len(a.Samples), a.Engines)
	}
	if b := run(); !reflect.DeepEqual(a, b) {
		t.Error("the same run has another result")
	}
	var tpot, n [3]float64
	for _, x := range a.Samples {
		tpot[x.Engine] += float64(x.TPOT)
		n[x.Engine]++
	}
	if tpot[2]/n[2] < 1.5*tpot[0]/n[0] {
		t.Errorf("the slowed engine takes %.4f s a token, another %.4f", tpot[2]/n[2], tpot[0]/n[0])
	}
}

// TestRun_alone: one request on an idle engine takes what the formula says.
func TestRun_alone(t *testing.T) {
	tr := &replay.Trace{BlockTokens: 64, Conversations: []replay.Conversation{{Requests: []replay.Request{
		{Tokens: 5000, Output: 3}}}}}
	out, err := Run(Config{Engines: small(t, 1), Trace: tr, Router: newTurns(t, 1)})
	if err != nil {
		t.Fatal(err)
	}
	m := &small(t, 1)[0].Timing
	first := m.C0 + m.A*5000 + m.Q*5000*2500
	rest := 2*(m.C0+m.Tw) + m.B*(5000+5001)
	s := out.Samples[0]
	if got := 1e3 * float64(s.TTFT); got < first-0.01 || got > first+0.01 {
		t.Errorf("time to the first token %.3f ms, want %.3f", got, first)
	}
	if got := 1e3 * float64(s.E2E-s.TTFT); got < rest-0.01 || got > rest+0.01 {
		t.Errorf("two further tokens took %.3f ms, want %.3f", got, rest)
	}
}

func TestRun_errors(t *testing.T) {
	one := &replay.Trace{BlockTokens: 64, Conversations: []replay.Conversation{{Name: "x", Requests: []replay.Request{
		{Tokens: 70_000, Output: 3}}}}}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Engines: small(t, 1), Trace: one},
			"conversation x, request 1: 70003 tokens, the cache of an engine holds 59968"},
		{Config{Engines: small(t, 1), Trace: &replay.Trace{BlockTokens: 64}}, "no request"},
		{Config{Engines: small(t, 1), Trace: &replay.Trace{BlockTokens: 512}}, "blocks of 64 tokens, the trace of 512"},
		{Config{Trace: one}, "required"},
	} {
		c.cfg.Router = newTurns(t, 1)
		if _, err := Run(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}
