package scheduler

import (
	"math"
	"sync"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// warmthDecay halves the sums after this many exact prompts: the last few thousand count.
const warmthDecay = 2048

// warmth measures how much of the prompts is cached on the fleet, and how much would be
// after the loss of one endpoint. It is safe for concurrent use.
type warmth struct {
	mu     sync.Mutex // guards the fields below
	n      int
	tokens float64
	held   float64   // of these, by the endpoint that held most
	sole   []float64 // by slot: of these, beyond what the next one held
}

// add counts a prompt of some tokens of which the endpoint in slot held best and another
// at most second.
func (w *warmth) add(tokens int, slot endpoint.ID, best, second uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens += float64(tokens)
	w.held += float64(best)
	if int(slot) >= len(w.sole) {
		w.sole = append(w.sole, make([]float64, int(slot)+1-len(w.sole))...)
	}
	w.sole[slot] += float64(best - second)
	if w.n++; w.n < warmthDecay {
		return
	}
	w.n, w.tokens, w.held = 0, w.tokens/2, w.held/2
	for i := range w.sole {
		w.sole[i] /= 2
	}
}

// ratios returns the share of tokens that were cached, and the share after the loss of
// the endpoint whose loss costs most; NaN before the first prompt.
func (w *warmth) ratios() (hit, spared float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tokens == 0 {
		return math.NaN(), math.NaN()
	}
	most := 0.0
	for _, v := range w.sole {
		most = max(most, v)
	}
	return w.held / w.tokens, (w.held - most) / w.tokens
}

// observeWarmth counts the matches of a decision.
func (d *decision) observeWarmth() {
	var best, second uint32
	slot := d.cands[0].id
	for i := range d.cands {
		switch m := d.cands[i].matched; {
		case m > best:
			best, second, slot = m, best, d.cands[i].id
		case m > second:
			second = m
		}
	}
	d.model.state.warmth.add(d.tokens, slot, best, second)
}
