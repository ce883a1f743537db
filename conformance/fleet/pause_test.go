package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// pauses collects the delay that a router adds to the first byte of streams' bodies: the
// time that a client waits minus the time that the engine takes. It is safe for
// concurrent use.
type pauses struct {
	part atomic.Int32           // current part of the measurement: one of the constants below
	what atomic.Pointer[string] // what the test does at this moment

	mu    sync.Mutex // guards waits
	waits [2][]waited
}

// Parts of a measurement.
const (
	quiet   = iota // nothing is pushed
	hostile        // hostile guests are pushed
)

type waited struct {
	id, what string
	d        time.Duration
}

// add records a streamed answer that began and ended in the same part.
func (p *pauses) add(part int32, a *harness.Answer) {
	if p.part.Load() != part {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w := waited{id: a.RequestID, d: a.FirstBody}
	if s := p.what.Load(); s != nil && part == hostile {
		w.what = *s
	}
	p.waits[part] = append(p.waits[part], w)
}

// count returns how many streams are recorded for a part.
func (p *pauses) count(part int32) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waits[part])
}

// added returns the delays that the router added to the streams of a part, sorted by
// length. The engines' records give the engine's share; streams that these records no
// longer hold are omitted.
func (p *pauses) added(t testing.TB, engines []*engine, part int) []waited {
	t.Helper()
	took := map[string]float64{}
	for _, e := range engines {
		for _, q := range harness.SimRequests(t, e.URL) {
			if q.FirstByteMS > 0 { // otherwise the client disconnected, or the answer was not a stream
				took[q.ID] = q.FirstByteMS - q.ReceivedMS
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []waited
	for _, w := range p.waits[part] {
		if ms, ok := took[w.id]; ok {
			w.d -= time.Duration(ms * float64(time.Millisecond))
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b waited) int { return cmp.Compare(a.d, b.d) })
	return out
}

// spread describes the quantiles of sorted waits, and what the test did during the longest.
func spread(d []waited) string {
	if len(d) == 0 {
		return "none"
	}
	at := func(q float64) time.Duration { return quantile(d, q).Round(10 * time.Microsecond) }
	s := fmt.Sprintf("median %v, p99 %v, p99.9 %v of %d; longest", at(.5), at(.99), at(.999), len(d))
	for _, w := range d[max(len(d)-6, 0):] {
		s += fmt.Sprintf(" %v %s", w.d.Round(10*time.Microsecond), w.what)
	}
	return s
}

// quantile returns the wait that a share q of sorted waits does not exceed.
func quantile(d []waited, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return d[min(int(q*float64(len(d))), len(d)-1)].d
}

// reset discards the recorded streams.
func (p *pauses) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.waits[:])
}
