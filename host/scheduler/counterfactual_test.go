package scheduler

import (
	"sync/atomic"
	"testing"
)

// TestCounterfactual: a warm endpoint with work is chosen by prefix and by the default
// cost, the idle one by requests in flight and by a profile that looks at nothing else.
func TestCounterfactual(t *testing.T) {
	var counted atomic.Int64
	r := newRig(t, 2, func(_ *StateConfig, c *Config) {
		c.Profiles = append(c.Profiles, Profile{Name: "idle", Scorers: []Weighted{{Scorer: idlest{&counted}, Weight: 1}}})
	})
	text := words(1, 4000)
	r.index.Add(0, chainOf(text, "s", 16))
	r.store.Load().Loads[0].Charge("x", 100, 100)
	req := r.request(text)
	p := r.place(req)
	defer end(p)
	x, ok := r.sched.ExplainCounterfactual("acme", req.ID)
	if !ok || x.Chosen != "http://10.0.0.0:8000" {
		t.Fatalf("chosen %q", x.Chosen)
	}
	scored := counted.Load()
	if x, _ := r.sched.Explain("acme", req.ID); x.Counterfactual != nil || counted.Load() != scored || scored == 0 {
		t.Errorf("Explain scored by other profiles: %d calls, then %d; %v", scored, counted.Load(), x.Counterfactual)
	}
	want := map[string]bool{"default": true, "idle": false, "least in flight": false, "least work": false,
		"longest prefix": true}
	seen := 0
	for _, a := range x.Counterfactual {
		same, listed := want[a.Name]
		if !listed {
			continue
		}
		seen++
		if a.Same != same || same != (a.Endpoint == x.Chosen) || same != (a.MatchedTokens > 3000) ||
			a.Inflight != float32(b2i(same)) {
			t.Errorf("%+v, want the same as the decision: %v", a, same)
		}
	}
	if seen != len(want) || len(x.Counterfactual) != 2+len(baselines) {
		t.Errorf("got %+v", x.Counterfactual)
	}
	if n := r.store.Load().Loads[1].Inflight(); n != 0 {
		t.Errorf("%d requests are charged", n)
	}
}

// idlest scores requests in flight and counts its calls.
type idlest struct{ calls *atomic.Int64 }

func (idlest) Name() string { return "idlest" }
func (idlest) Unit() Unit   { return UnitScore }
func (s idlest) Score(b *Batch) error {
	s.calls.Add(1)
	for i := range b.N {
		b.Scores[i] = -b.Inflight[i]
	}
	return nil
}
