package scheduler

import (
	"math"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// TestForecast: times are predicted from learned rates, and compared with what came.
func TestForecast(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newRig(t, 1, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
	if e := r.sched.DryRun(r.request(words(1, 2000))); e.ExpectedTTFT != 0 || e.ExpectedTPOT != 0 {
		t.Errorf("got %v and %v ms before anything was learned, want 0", e.ExpectedTTFT, e.ExpectedTPOT)
	}
	l := r.store.Load().Loads[0]
	for range 8 {
		l.ObservePrefill(10_000, time.Second)
		l.ObserveDecode(101, time.Second)
	}
	waiting := l.Charge("x", 5000, 0)
	req := r.request(words(1, 2000))
	req.API.Stream = true
	p := r.place(req)
	waiting.Release()
	if e, _ := r.state.Explain("acme", req.ID); math.Abs(e.ExpectedTTFT-710) > 1e-3 || math.Abs(e.ExpectedTPOT-10) > 1e-3 {
		t.Errorf("got %v and %v ms, want 710: 7,000 tokens at 10,000/s and a step; and 10", e.ExpectedTTFT, e.ExpectedTPOT)
	}
	now = now.Add(800 * time.Millisecond)
	p.FirstToken()
	p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete, HasUsage: true, OutputTokens: 51,
		TTFT: 800 * time.Millisecond, E2E: 1800 * time.Millisecond})
	st := r.state.Stats()
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	if f := st.TTFT; f.Count != 1 || !near(f.Predicted, 0.71) || !near(f.Observed, 0.8) || !near(f.Error, 0.09) {
		t.Errorf("got TTFT %+v", f)
	}
	if f := st.TPOT; f.Count != 1 || !near(f.Predicted, 0.01) || !near(f.Observed, 0.02) || !near(f.Error, 0.01) {
		t.Errorf("got TPOT %+v", f)
	}
}
