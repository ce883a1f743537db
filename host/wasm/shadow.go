package wasm

import (
	"errors"
	"math"
	"sync"

	"github.com/kvasir-router/kvasir/abi"
)

// Shadow compares a candidate scorer with what placed the requests. It is safe
// for concurrent use. The zero Shadow is ready.
type Shadow struct {
	mu sync.Mutex // guards s
	s  ShadowStats
}

// ShadowStats are the results of comparing two scorers.
type ShadowStats struct {
	Decisions uint64  // compared
	Elsewhere uint64  // the candidate's best is another endpoint
	Agreement float64 // mean over decisions of Kendall's tau-a, in [-1, 1]
	Abstained uint64
	Failed    uint64 // faults, quarantine, no free instance
}

// Add has the candidate score b and compares its ranking with scores, by
// which the request was placed, [b.N]. It takes time quadratic in b.N: call it after
// the placement. scratch is [b.N].
func (s *Shadow) Add(p *Plugin, b *Batch, scores, scratch []float32) error {
	c := *b
	c.Flags |= abi.FlagShadow
	err := p.Score(&c, scratch, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, ErrAbstain):
		s.s.Abstained++
		return nil
	case err != nil:
		s.s.Failed++
		return err
	case b.N < 2:
		return nil
	}
	tau, same := agreement(scores[:b.N], scratch[:b.N])
	s.s.Decisions++
	if !same {
		s.s.Elsewhere++
	}
	s.s.Agreement += (tau - s.s.Agreement) / float64(s.s.Decisions)
	return nil
}

// Stats returns the comparison so far.
func (s *Shadow) Stats() ShadowStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.s
}

// agreement returns Kendall's tau-a of two rankings (pairs in the same order
// less pairs in opposite order, over all pairs) and whether the best by b is a
// best by a. Scores that are equal count for neither.
func agreement(a, b []float32) (tau float64, same bool) {
	best, top := 0, float32(math.Inf(-1))
	net := 0
	for i := range a {
		top = max(top, a[i])
		if b[i] > b[best] {
			best = i
		}
		for j := range i {
			x, y := sign(a[i]-a[j]), sign(b[i]-b[j])
			net += x * y
		}
	}
	pairs := len(a) * (len(a) - 1) / 2
	return float64(net) / float64(pairs), a[best] == top
}

func sign(x float32) int {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}
