package scheduler

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestGuard: the weight of locality falls while the median gains and the tail loses, and
// returns when the tail no longer does. Equal arms change nothing.
func TestGuard(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	draw := func(median, tail float64) time.Duration {
		ms := median * (0.5 + rnd.Float64())
		if rnd.IntN(12) == 0 {
			ms += tail * rnd.Float64()
		}
		return time.Duration(ms * float64(time.Millisecond))
	}
	feed := func(g *guard, rounds int, median, tail float64) {
		for range rounds * guardControl {
			g.observe(armHoldout, draw(200, 1000))
			for range guardPer {
				g.observe(armLocality, draw(median, tail))
			}
		}
	}
	var g guard
	feed(&g, 40, 200, 1000)
	if w := g.weight(); w != 1 {
		t.Errorf("equal arms: got weight %v, want 1", w)
	}
	feed(&g, 40, 100, 900)
	if w := g.weight(); w != 1 {
		t.Errorf("better median and tail: got weight %v, want 1", w)
	}
	feed(&g, guardTwice, 100, 4000)
	if w := g.weight(); w != 0.5 || g.lowered.Load() != 1 {
		t.Errorf("a worse tail twice: got weight %v, lowered %d times, want 0.5, once", w, g.lowered.Load())
	}
	feed(&g, 10, 100, 4000)
	if w := g.weight(); w != guardLeast || g.lowered.Load() != 2 {
		t.Errorf("a worse tail for long: got weight %v, lowered %d times, want %v, twice", w, g.lowered.Load(), guardLeast)
	}
	feed(&g, 2*guardTwice, 100, 900)
	if w := g.weight(); w != 1 {
		t.Errorf("the tail is better again: got weight %v, want 1", w)
	}
	feed(&g, 10, 300, 4000)
	if w := g.weight(); w != 1 {
		t.Errorf("the median loses too, which no weight of locality mends: got weight %v, want 1", w)
	}
}

// TestSetLocality: an operator's weight is in force until it ends, for every model, and
// shown in explain.
func TestSetLocality(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
	text := words(1, 4000)
	r.warm(text, 0)
	r.store.Load().Loads[0].Charge("x", 100, 0)
	chosen := func() (int, float32) {
		e := r.sched.DryRun(r.request(text))
		for i := range e.Candidates {
			if e.Candidates[i].Endpoint == e.Chosen {
				return i, e.Candidates[i].Columns["affinity_weight"]
			}
		}
		return -1, 0
	}
	if at, w := chosen(); at != 0 || w != 1 {
		t.Fatalf("got endpoint %d at weight %v, want the warm one at 1", at, w)
	}
	r.state.SetLocality(&LocalitySwitch{Weight: 0, Until: now.Add(time.Hour)})
	if at, w := chosen(); at != 1 || w != 0 || r.state.LocalitySwitch() == nil {
		t.Errorf("got endpoint %d at weight %v, want the idle one at 0", at, w)
	}
	now = now.Add(2 * time.Hour)
	if at, w := chosen(); at != 0 || w != 1 || r.state.LocalitySwitch() != nil {
		t.Errorf("after its end: got endpoint %d at weight %v, want the warm one at 1", at, w)
	}
	r.state.SetLocality(&LocalitySwitch{Weight: 7, Until: now.Add(time.Hour)})
	if w := r.state.LocalitySwitch(); w.Weight != 1 {
		t.Errorf("got weight %v, want 1", w.Weight)
	}
	r.state.SetLocality(nil)
	if r.state.LocalitySwitch() != nil {
		t.Error("a switch that was ended is in force")
	}
}

// TestWarmth: the hit ratio after the loss of the endpoint that costs most.
func TestWarmth(t *testing.T) {
	r := newRig(t, 3, nil)
	hit, spared := r.state.Localities()["m"].Hit, r.state.Localities()["m"].Spared
	if !math.IsNaN(hit) || !math.IsNaN(spared) {
		t.Errorf("got %v and %v before the first prompt, want NaN", hit, spared)
	}
	both, one := words(1, 1601), words(2, 1601)
	r.warm(both, 0, 1)
	r.warm(one, 2)
	for range 10 {
		end(r.place(r.request(both)))
		end(r.place(r.request(one)))
	}
	l := r.state.Localities()["m"]
	if want := 1600. / 1601; math.Abs(l.Hit-want) > 1e-6 || math.Abs(l.Spared-want/2) > 1e-6 {
		t.Errorf("got %v, and %v after a loss, want %v and half of it", l.Hit, l.Spared, want)
	}
}
