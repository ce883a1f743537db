// Package timing counts durations in histograms, by a few atomic additions each.
package timing

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets is the number of buckets of a Histogram: bucket i counts durations
// below 2^i µs, the last one all longer ones, from 18 minutes on.
const Buckets = 32

// Histogram counts durations. The zero Histogram is empty. All methods may be
// called concurrently.
type Histogram struct {
	count, sum atomic.Uint64
	buckets    [Buckets]atomic.Uint64
}

// Add counts one duration; a negative one counts as 0.
func (h *Histogram) Add(d time.Duration) {
	n := uint64(max(d, 0))
	h.count.Add(1)
	h.sum.Add(n)
	h.buckets[min(bits.Len64(n/1000), Buckets-1)].Add(1)
}

// Counts is the content of a Histogram at one moment.
type Counts struct {
	Count    uint64          `json:"count"`
	SumNanos uint64          `json:"sum_nanos"`
	Buckets  [Buckets]uint64 `json:"buckets"` // not cumulative
}

// Load returns the counts. A duration that is added at the same time may be part of some
// of them and not of others.
func (h *Histogram) Load() (c Counts) {
	c.Count, c.SumNanos = h.count.Load(), h.sum.Load()
	for i := range h.buckets {
		c.Buckets[i] = h.buckets[i].Load()
	}
	return c
}

// Bounds returns the upper bounds of the buckets in seconds; the last bucket has none.
func Bounds() []float64 {
	b := make([]float64, Buckets-1)
	for i := range b {
		b[i] = float64(uint64(1)<<i) / 1e6
	}
	return b
}
