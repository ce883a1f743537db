package elastic

import "math"

// Weights of the placement: as those of host/scheduler's least work for the objective
// blend, in tokens.
const (
	ownWeight    = 2    // of the tokens to compute: they also displace what others would reuse
	othersWeight = 0.05 // of those tokens for each request that they delay
	kvWeight     = 0.1  // of the KV memory in use: it slows every step
)

// place chooses the engine where a request causes the least new work, nil when
// none serves. Of equal engines it chooses the one that was added first.
func (s *sim) place(r *request) *engine {
	var best *engine
	least := math.Inf(1)
	for _, e := range s.engines {
		if e.up > s.now || e.drain {
			continue
		}
		n := float64(r.prompt - e.match(r))
		cost := float64(e.prefill) + ownWeight*n + othersWeight*n*float64(e.inflight) + kvWeight*float64(e.active)
		if cost < least {
			best, least = e, cost
		}
	}
	return best
}
