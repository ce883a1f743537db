package scheduler

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A prompt is rendered, encoded and looked up to find what of it is cached. Where that
// takes longer than what is found saves, a model that measures its reuse no longer does
// it, but for a sample of the requests, which shows when reuse comes back.

const (
	// reusePrompts is how many prompts in a row must be seen before a model stops: the
	// first conversations of a fleet find nothing.
	reusePrompts = 4096
	// reuseSample is the share of requests whose prompts are still computed, one in 32:
	// 3 % of the cost.
	reuseSample = 32
	// reuseMean and reuseSampled make a mean that of the last prompts and, while only a
	// sample is computed, of the last samples.
	reuseMean, reuseSampled = 1. / 1024, 1. / 32
)

// reuse compares what cached prefixes save with what finding them costs, for one model.
// It is safe for concurrent use.
type reuse struct {
	off  atomic.Bool   // it does not pay
	seen atomic.Uint64 // requests while off

	mu          sync.Mutex // guards the fields below
	n           int        // prompts since the last change
	saved, cost float64    // means, in seconds
}

// skips reports whether the prompt of a request is not to be computed.
func (r *reuse) skips() bool { return r.off.Load() && r.seen.Add(1)%reuseSample != 0 }

// observe counts one prompt. It reports whether the model stops or begins again.
func (r *reuse) observe(saved, cost time.Duration) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	off, share := r.off.Load(), reuseMean
	if off {
		share = reuseSampled
	}
	if r.n++; r.n < int(1/share) {
		share = 1 / float64(r.n)
	}
	r.saved += share * (saved.Seconds() - r.saved)
	r.cost += share * (cost.Seconds() - r.cost)
	pays := r.saved >= r.cost
	if off != pays || !off && r.n < reusePrompts {
		return false
	}
	r.off.Store(!off)
	r.n = 0
	return true
}

// observeReuse compares what the longest match saves with what finding it took.
func (d *decision) observeReuse() {
	var best uint32
	for i := range d.cands {
		best = max(best, d.cands[i].matched)
	}
	rate := meanRate(d.b.Rates)
	if rate == 0 {
		rate = defaultRate
	}
	r := &d.model.state.reuse
	saved := time.Duration(float32(best) / rate * float32(time.Second))
	if r.observe(saved, d.took[stagePrompt]+d.took[stageLookup]) {
		d.s.st.cfg.Log.Info("locality measured: prompts are computed or not", "model", d.model.name,
			slog.Bool("computed", !r.off.Load()))
	}
}
