package scheduler

import (
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The control arm shows what locality does to a model's times to the first token. Where
// the median gains and the tail loses, a few endpoints carry what all should; the guard then halves
// the weight of cached prefixes, and doubles it again when the tail is no longer worse.
// RATIONALE.md: "Why does the guard compare orders, not quantiles?"

const (
	// guardControl is how many times of the control arm are compared at once: at 0.5 %
	// of 100 requests a second, those of nine minutes. Below, the 95th percentile is that
	// of a dozen requests.
	guardControl = 256
	// guardPer is how many times of the other arm are taken for each of them, spread
	// over the same time.
	guardPer = 4
	// guardTwice is how many comparisons in a row must agree before the weight changes.
	guardTwice = 2
	// guardLeast is the least weight that the guard sets: prefixes still decide among
	// endpoints of equal load.
	guardLeast = 0.25
)

// guard compares the arms of one model. It is safe for concurrent use.
type guard struct {
	level   atomic.Uint32 // 1 - weight, float32 bits: the zero guard has weight 1
	lowered atomic.Uint64 // times that the weight was lowered

	mu      sync.Mutex // guards the fields below
	control []float32  // seconds
	local   []float32  // seconds
	credit  int        // times of the other arm that may still be taken
	verdict int        // comparisons in a row: > 0 that the tail is worse, < 0 that it is not
}

// weight returns the weight of cached prefixes, in [guardLeast, 1].
func (g *guard) weight() float32 { return 1 - math.Float32frombits(g.level.Load()) }

// observe counts a time to the first token of an arm. It returns the weight before and
// after; they differ if it has changed.
func (g *guard) observe(a arm, ttft time.Duration) (was, is float32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was = g.weight()
	t := float32(ttft.Seconds())
	switch {
	case a == armHoldout:
		g.control = append(g.control, t)
		g.credit += guardPer
	case g.credit > 0:
		g.local = append(g.local, t)
		g.credit--
		return was, was
	default:
		return was, was
	}
	if len(g.control) < guardControl || len(g.local) < guardControl {
		return was, was
	}
	is = g.judgeLocked(was)
	g.control, g.local, g.credit = g.control[:0], g.local[:0], 0
	g.level.Store(math.Float32bits(1 - is))
	return was, is
}

// judgeLocked compares the arms and returns the weight that follows.
func (g *guard) judgeLocked(weight float32) float32 {
	if worse := tailWorse(g.local, g.control); worse {
		g.verdict = max(1, g.verdict+1)
	} else {
		g.verdict = min(-1, g.verdict-1)
	}
	switch g.verdict {
	case guardTwice:
		g.verdict = 0
		if weight > guardLeast {
			g.lowered.Add(1)
		}
		return max(guardLeast, weight/2)
	case -guardTwice:
		g.verdict = 0
		return min(1, 2*weight)
	}
	return weight
}

// tailWorse reports whether the median of local is below that of control while its tail
// is above, beyond chance: its 95th percentile above the upper end of the interval that
// holds that of control in 97.5 % of cases, or its 99th a tenth above all of control.
// It sorts both.
func tailWorse(local, control []float32) bool {
	slices.Sort(local)
	slices.Sort(control)
	if quantile(local, 0.5) >= quantile(control, 0.5) {
		return false
	}
	n := float64(len(control))
	upper := 0.95 + 1.96*math.Sqrt(0.95*0.05/n)
	return quantile(local, 0.95) > quantile(control, upper) || quantile(local, 0.99) > 1.1*control[len(control)-1]
}

// quantile returns the q-quantile of sorted values.
func quantile(sorted []float32, q float64) float32 {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// LocalitySwitch is an operator's weight of cached prefixes.
type LocalitySwitch struct {
	Weight float64   // in [0, 1] of what the rules say
	Until  time.Time // when it ends
}

// SetLocality makes w the weight of cached prefixes of all models until it ends; nil ends
// the present one. Weights outside [0, 1] are moved to the nearer end.
func (s *State) SetLocality(w *LocalitySwitch) {
	if w != nil {
		w = &LocalitySwitch{Weight: min(1, max(0, w.Weight)), Until: w.Until}
	}
	s.locality.Store(w)
}

// LocalitySwitch returns the operator's weight in force, nil = there is none.
func (s *State) LocalitySwitch() *LocalitySwitch {
	if w := s.locality.Load(); w != nil && s.now().Before(w.Until) {
		return w
	}
	return nil
}

// localityWeight returns the factor of the weight of cached prefixes: the operator's,
// else the guard's.
func (d *decision) localityWeight() float32 {
	if w := d.s.st.locality.Load(); w != nil && d.now.Before(w.Until) {
		return float32(w.Weight)
	}
	return d.model.state.guard.weight()
}

// guardTTFT gives the guard a time to the first token.
func (p *Placement) guardTTFT(ttft time.Duration) {
	a := armLocality
	switch p.kind {
	case KindHoldout:
		a = armHoldout
	case KindFallback, KindUnset:
		return // without knowledge of the prompt there is no locality
	}
	if was, is := p.known.guard.observe(a, ttft); was != is {
		p.st.cfg.Log.Warn("locality weight changed: the tail of the control arm differs", "model", p.model,
			slog.Float64("from", float64(was)), slog.Float64("to", float64(is)))
	}
}

// ModelLocality is what the guard found for a model.
type ModelLocality struct {
	Weight  float64 // of cached prefixes, by the guard; 1 = as the rules say
	Lowered uint64  // times that it was lowered
	Sampled bool    // only a sample of the prompts is computed: Model.MeasureReuse
	// Hit is the share of the last thousands of prompts' tokens that the endpoint with
	// the longest match held; NaN = none.
	Hit    float64
	Spared float64 // the same after the loss of any one endpoint
}

// Localities returns what the guard found, by model.
func (s *State) Localities() map[string]ModelLocality {
	out := map[string]ModelLocality{}
	for name, m := range s.models.all() {
		hit, spared := m.warmth.ratios()
		out[name] = ModelLocality{Weight: float64(m.guard.weight()), Lowered: m.guard.lowered.Load(),
			Sampled: m.reuse.off.Load(), Hit: hit, Spared: spared}
	}
	return out
}
