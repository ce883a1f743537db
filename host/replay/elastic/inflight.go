package elastic

import (
	"context"
	"fmt"
	"math"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// InFlight scales as a Kubernetes HPA on requests in flight per replica does:
// every 15 s, with 10 % tolerance, down to the greatest size of the last 300 s.
// The built-in loop is compared with it, under the same bounds, cold starts and
// drains.
type InFlight struct {
	Target float64 // requests per replica

	last  int64 // ms
	want  int
	sizes []sized
}

type sized struct {
	at int64
	n  int
}

const (
	hpaPeriodMs  = 15_000
	hpaWindowMs  = 300_000
	hpaTolerance = 0.1
)

// Propose implements autoscale.Overrider.
func (h *InFlight) Propose(_ context.Context, v *autoscale.View) (*autoscale.Override, error) {
	s := v.History[len(v.History)-1]
	size := s.Ready + s.Pending
	if h.last == 0 {
		h.sizes = append(h.sizes, sized{v.NowMs, size})
	}
	if v.NowMs-h.last >= hpaPeriodMs {
		h.last = v.NowMs
		h.want = h.size(&s, v.NowMs)
	}
	return &autoscale.Override{Desired: h.want, Reason: fmt.Sprintf("in flight, %g a replica", h.Target)}, nil
}

func (h *InFlight) size(s *autoscale.Sample, now int64) int {
	size := s.Ready + s.Pending
	want := s.Ready
	if r := float64(s.InFlight) / math.Max(1, float64(s.Ready)) / h.Target; math.Abs(r-1) > hpaTolerance {
		want = int(math.Ceil(float64(s.Ready) * r))
	}
	want = max(1, want)
	h.sizes = append(h.sizes, sized{now, want})
	for h.sizes[0].at < now-hpaWindowMs {
		h.sizes = h.sizes[1:]
	}
	if want >= size {
		return want
	}
	most := 0
	for _, x := range h.sizes {
		most = max(most, x.n)
	}
	return min(size, most)
}
