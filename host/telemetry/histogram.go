package telemetry

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A Histogram has the buckets of a Prometheus native histogram of schema 3:
// bucket k ends at 2^(k/8) seconds, so neighbours differ by 9 %. It holds a
// fixed table from 2^minExp s (under 1 µs) to 2^maxExp s (4096 s, above every
// time limit); shorter times go to the zero bucket, longer ones to the last.
const (
	schema  = 3
	perTwo  = 1 << schema
	minExp  = -20
	maxExp  = 12
	buckets = (maxExp - minExp) * perTwo
)

// Histogram counts durations. Observe may be called concurrently and allocates
// nothing; the official client's native histograms allocate a key per call.
type Histogram struct {
	sumNanos atomic.Int64
	zero     atomic.Uint64
	counts   [buckets]atomic.Uint64 // [i] counts (2^(minExp+i/8), 2^(minExp+(i+1)/8)] s
}

// fractions[i] is 2^(i/8)/2 as the native histogram's definition has it: the
// bounds of the 8 buckets of one power of two, for the fraction of math.Frexp.
var fractions = func() (f [perTwo]float64) {
	for i := range f {
		f[i] = math.Exp2(float64(i)/perTwo) / 2
	}
	return f
}()

// Observe counts one duration. Negative ones (a clock that was set back) count
// as 0.
func (h *Histogram) Observe(d time.Duration) {
	if d <= 0 {
		h.zero.Add(1)
		return
	}
	h.sumNanos.Add(int64(d))
	k := index(d)
	if k < 0 {
		h.zero.Add(1)
		return
	}
	h.counts[min(k, buckets-1)].Add(1)
}

// index returns the place of a positive duration in counts; negative if it is
// too short.
func index(d time.Duration) int {
	return key(d) - minExp*perTwo - 1
}

// key is the native histogram's bucket of a positive duration: the smallest k
// with d ≤ 2^(k/8) s.
func key(d time.Duration) int {
	v := d.Seconds()
	b := math.Float64bits(v)
	exp := int(b>>52) - 1022
	frac := math.Float64frombits(b&(1<<52-1) | 1022<<52) // [0.5, 1)
	k := exp*perTwo - perTwo
	for _, f := range fractions { // no branches: eight comparisons cost less than a search
		k += int(math.Float64bits(f-frac) >> 63) // 1 if f < frac
	}
	return k
}

// snapshot is the state of a histogram at one time.
type snapshot struct {
	count  uint64
	sum    float64 // seconds
	zero   uint64
	counts [buckets]uint64
}

func (h *Histogram) snapshot() *snapshot {
	s := &snapshot{zero: h.zero.Load(), sum: float64(h.sumNanos.Load()) / 1e9}
	s.count = s.zero
	for i := range s.counts {
		s.counts[i] = h.counts[i].Load()
		s.count += s.counts[i]
	}
	return s
}

// Count returns the number of observations.
func (h *Histogram) Count() uint64 { return h.snapshot().count }

// sample is a histogram with its labels, as the client's registry takes it.
type sample struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	h      *Histogram
}

func (m *sample) Desc() *prometheus.Desc { return m.desc }

// Write renders the histogram in both forms: native buckets, and classic ones at
// every power of two, whose counts are exact sums of native buckets.
func (m *sample) Write(out *dto.Metric) error {
	s := m.h.snapshot()
	out.Label = m.labels
	out.Histogram = &dto.Histogram{
		SampleCount: new(s.count), SampleSum: new(s.sum), Bucket: s.classic(),
		Schema: new(int32(schema)), ZeroThreshold: new(math.Exp2(minExp)), ZeroCount: new(s.zero),
	}
	s.native(out.Histogram)
	return nil
}

// classic returns cumulative buckets at 2^e s for e from minExp to maxExp.
func (s *snapshot) classic() []*dto.Bucket {
	sum := s.zero
	list := []*dto.Bucket{{UpperBound: new(math.Exp2(minExp)), CumulativeCount: new(sum)}}
	for e := minExp + 1; e <= maxExp; e++ {
		at := (e - minExp - 1) * perTwo
		for _, n := range s.counts[at : at+perTwo] {
			sum += n
		}
		list = append(list, &dto.Bucket{UpperBound: new(math.Exp2(float64(e))), CumulativeCount: new(sum)})
	}
	return list
}

// native fills spans of used buckets and their differences.
func (s *snapshot) native(h *dto.Histogram) {
	last, before := -1, int64(0)
	for i, n := range s.counts {
		if n == 0 {
			continue
		}
		switch {
		case last < 0:
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(int32(i + minExp*perTwo + 1)),
				Length: new(uint32(1))})
		case i == last+1:
			*h.PositiveSpan[len(h.PositiveSpan)-1].Length++
		default:
			h.PositiveSpan = append(h.PositiveSpan, &dto.BucketSpan{Offset: new(int32(i - last - 1)), Length: new(uint32(1))})
		}
		h.PositiveDelta = append(h.PositiveDelta, int64(n)-before)
		last, before = i, int64(n)
	}
	if last < 0 { // marks an empty native histogram
		h.PositiveSpan = []*dto.BucketSpan{{Offset: new(int32(0)), Length: new(uint32(0))}}
	}
}
