package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// maxValues bounds the label values of one set; further values count as
// otherValue, so that no input can make the metrics grow without bound.
const (
	maxValues  = 64
	otherValue = "other"
)

// set is a family of T, one per value of one label (or a single one without a
// label). Get of a known value takes no lock and allocates nothing.
type set[T any] struct {
	known atomic.Pointer[map[string]*T]
	mu    sync.Mutex // serialises additions to known
}

func (s *set[T]) get(value string) *T {
	if m := s.known.Load(); m != nil {
		if v := (*m)[value]; v != nil {
			return v
		}
	}
	return s.add(value)
}

func (s *set[T]) add(value string) *T {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := map[string]*T{}
	if m := s.known.Load(); m != nil {
		if len(*m) >= maxValues && (*m)[value] == nil {
			value = otherValue
		}
		if v := (*m)[value]; v != nil {
			return v
		}
		next = maps.Clone(*m)
	}
	v := new(T)
	next[value] = v
	s.known.Store(&next)
	return v
}

func (s *set[T]) all() map[string]*T {
	if m := s.known.Load(); m != nil {
		return *m
	}
	return nil
}

// HistogramSet is a family of histograms, one per value of a label.
type HistogramSet struct {
	set   set[Histogram]
	desc  *prometheus.Desc
	label string // "" = none
}

// NewHistogramSet registers a family of duration histograms, declared by d with at most
// one label.
func (r *Registry) NewHistogramSet(d *metric.Desc) *HistogramSet {
	s := &HistogramSet{desc: descs[d], label: onlyLabel(d, metric.Histogram)}
	r.reg.MustRegister(s)
	return s
}

// With returns the histogram of a label value; the caller may keep it. At most
// 64 values are distinguished, the rest is "other".
func (s *HistogramSet) With(value string) *Histogram { return s.set.get(value) }

// Describe implements prometheus.Collector.
func (s *HistogramSet) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s *HistogramSet) Collect(ch chan<- prometheus.Metric) {
	for value, h := range s.set.all() {
		m := &sample{desc: s.desc, h: h}
		if s.label != "" {
			m.labels = []*dto.LabelPair{{Name: new(s.label), Value: new(value)}}
		}
		ch <- m
	}
}

// Counter counts up. It is safe for concurrent use.
type Counter struct{ n atomic.Uint64 }

// Add adds n.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Value returns the count.
func (c *Counter) Value() uint64 { return c.n.Load() }

// CounterSet is a family of counters, one per value of a label.
type CounterSet struct {
	set   set[Counter]
	desc  *prometheus.Desc
	label string // "" = none
}

// NewCounterSet registers a family of counters, declared by d with at most
// one label.
func (r *Registry) NewCounterSet(d *metric.Desc) *CounterSet {
	s := &CounterSet{desc: descs[d], label: onlyLabel(d, metric.Counter)}
	r.reg.MustRegister(s)
	return s
}

// With returns the counter of a label value; see HistogramSet.With.
func (s *CounterSet) With(value string) *Counter { return s.set.get(value) }

// Describe implements prometheus.Collector.
func (s *CounterSet) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s *CounterSet) Collect(ch chan<- prometheus.Metric) {
	for value, c := range s.set.all() {
		var values []string
		if s.label != "" {
			values = []string{value}
		}
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.CounterValue, float64(c.Value()), values...)
	}
}

// onlyLabel returns the name of the label of d, "" if it has none.
func onlyLabel(d *metric.Desc, kind metric.Kind) string {
	if d.Kind() != kind || len(d.Labels()) > 1 {
		panic("BUG: telemetry: a set of the " + d.Kind().String() + " " + d.Name())
	}
	if len(d.Labels()) == 0 {
		return ""
	}
	return d.Labels()[0]
}
