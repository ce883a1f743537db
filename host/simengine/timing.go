package simengine

import (
	"fmt"
	"math"
	"time"
)

// Timing gives the duration of one step of the engine:
//
//	C0 + max(Tw, A·tokens) + B·Σ context + Q·Σ chunk·(start + chunk/2)
//
// tokens is what the step computes, context the cached tokens each sequence of
// the step reads, and chunk a run of prompt tokens that begins at start. The
// zero Timing takes no time.
type Timing struct {
	C0     float64 // ms per step: the CPU's part
	Tw     float64 // ms: reading the weights once
	A      float64 // ms per token: the matrix products
	B      float64 // ms per token of context: reading the cache
	Q      float64 // ms per token²: prefill attention
	Budget int     // tokens per step at most (max_num_batched_tokens)
}

// step returns the duration of a step.
func (t *Timing) step(tokens int, context, attention float64) time.Duration {
	ms := t.C0 + max(t.Tw, t.A*float64(tokens)) + t.B*context + t.Q*attention
	return time.Duration(math.Round(ms * float64(time.Millisecond)))
}

// preset is a measured engine: its timing and the size of its cache.
type preset struct {
	timing      Timing
	cacheTokens int
}

// presets are fits of public profiles: Vidur's mlp.csv for the A100 (9.76 ms
// floor, 67-72 µs a token), LLMServingSim's layers.csv for the H100s (7.8 ms and
// 28-30 µs; tp4: 19.2 ms and 76-78 µs). B is KV bytes per token over 0.8 of the
// memory bandwidth, Q 4·layers·width over half the peak, C0 an assumption, the
// capacity 0.9·HBM less weights and 5.5 GiB. instant takes no time at all: for
// tests of everything but time.
var presets = map[string]preset{
	"8b-a100":    {Timing{C0: 2, Tw: 9.8, A: 0.070, B: 8.0e-5, Q: 3.4e-6, Budget: 2048}, 421_000},
	"8b-h100":    {Timing{C0: 2, Tw: 7.8, A: 0.029, B: 4.9e-5, Q: 1.06e-6, Budget: 8192}, 421_000},
	"70b-4xh100": {Timing{C0: 2, Tw: 19.2, A: 0.076, B: 3.06e-5, Q: 1.33e-6, Budget: 8192}, 432_000},
	"instant":    {Timing{Budget: 8192}, 421_000},
}

// Preset returns the timing named name and its cache size in tokens. Names:
// 8b-a100, 8b-h100, 70b-4xh100, instant.
func Preset(name string) (Timing, int, error) {
	p, ok := presets[name]
	if !ok {
		return Timing{}, 0, fmt.Errorf("simengine: unknown preset %q (8b-a100, 8b-h100, 70b-4xh100, instant)", name)
	}
	return p.timing, p.cacheTokens, nil
}

func (t *Timing) validate() error {
	for _, v := range [...]float64{t.C0, t.Tw, t.A, t.B, t.Q} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("simengine: timing coefficient %v", v)
		}
	}
	if t.Budget < 1 {
		return fmt.Errorf("simengine: token budget %d per step", t.Budget)
	}
	return nil
}
