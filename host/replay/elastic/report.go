package elastic

import (
	"fmt"
	"math"
	"slices"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// Report is the result of a run.
type Report struct {
	Requests int
	Goodput  float64 // share of requests within the bounds of TTFT and TPOT
	Hours    float64 // engine-hours, from the order of an engine to its end
	Hit      float64 // share of prompt tokens that were reused
	TTFT50   float64 // ms
	TTFT99   float64 // ms
	Orders   int     // engines ordered
	Drains   int     // engines drained
	Peak     int     // engines that served at once

	good         int
	found, asked float64
	ttft         []float64
}

func (r *Report) add(s *sim, q *request) {
	ttft := q.first - q.arrival
	tpot := 0.0
	if q.output > 1 {
		tpot = (s.now - q.first) / float64(q.output-1)
	}
	if ttft <= float64(s.cfg.MaxTTFT.Milliseconds()) && tpot <= float64(s.cfg.MaxTPOT.Milliseconds()) {
		r.good++
	}
	r.ttft = append(r.ttft, ttft)
	r.found += float64(q.seq.Cached)
	r.asked += float64(q.prompt)
}

func (r *Report) tick(_ *sim, serving int) { r.Peak = max(r.Peak, serving) }

func (r *Report) action(a autoscale.Action) {
	switch a.Verb {
	case autoscale.VerbOrder:
		r.Orders += a.N
	case autoscale.VerbDrain:
		r.Drains += a.N
	}
}

func (r *Report) finish(s *sim) {
	r.Requests = len(r.ttft)
	slices.Sort(r.ttft)
	if r.Requests > 0 {
		r.Goodput = float64(r.good) / float64(r.Requests)
		r.TTFT50, r.TTFT99 = quantile(r.ttft, 0.5), quantile(r.ttft, 0.99)
		r.Hit = r.found / r.asked
	}
	for _, e := range s.engines {
		r.Hours += (s.now - e.ordered) / 3.6e6
	}
	for _, e := range s.removed {
		r.Hours += (e.removed - e.ordered) / 3.6e6
	}
	r.Peak = max(r.Peak, s.cfg.Size)
}

func quantile(sorted []float64, q float64) float64 {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// String returns one line of a table.
func (r *Report) String() string {
	return fmt.Sprintf("%6.2f h  good %5.1f %%  ttft %5.0f / %6.0f ms  hit %4.1f %%  orders %3d drains %3d peak %2d",
		r.Hours, 100*r.Goodput, r.TTFT50, r.TTFT99, 100*r.Hit, r.Orders, r.Drains, r.Peak)
}
