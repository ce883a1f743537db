// Package telemetry renders what the other packages count.
//
// Packages count with plain structs (Stats) and do not depend on a metrics
// library; for each of them the host registers a function that turns one Stats
// into samples at each scrape ([Registry.Collect]).
// Values that must be counted as they happen (latencies, tokens) go into the
// histograms and counters of [Metrics], whose calls on the request path are one or
// two atomic additions and allocate nothing.
package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvasir-router/kvasir/host/internal/timing"
	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// Registry is the set of metrics of one process. All methods may be called
// concurrently.
type Registry struct {
	reg *prometheus.Registry
}

// New returns a Registry with the metrics of the Go runtime and the process.
func New() *Registry {
	r := &Registry{reg: prometheus.NewRegistry()}
	r.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Collect registers a function that emits samples at each scrape, for members that
// come and go, such as endpoints. Concurrent scrapes call it concurrently.
func (r *Registry) Collect(f func(*Emitter)) {
	r.reg.MustRegister(&collector{f})
}

// Handler serves the metrics as Prometheus text, OpenMetrics or protobuf, as the
// scraper requests; native histograms need protobuf. At most four scrapes run
// concurrently, each for at most 10 s, so that a scraper that hangs does not
// accumulate work. A sample that cannot be rendered is left out; the others are
// served.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 10 * time.Second, ErrorHandling: promhttp.ContinueOnError,
	})
}

// descs are the declarations as the client takes them.
var descs = func() map[*metric.Desc]*prometheus.Desc {
	m := map[*metric.Desc]*prometheus.Desc{}
	for _, d := range metric.All() {
		m[d] = prometheus.NewDesc(d.Name(), d.Help(), d.Labels(), nil)
	}
	return m
}()

// collector is a prometheus.Collector that describes nothing in advance, so that
// its series may change from scrape to scrape.
type collector struct{ emit func(*Emitter) }

func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(ch chan<- prometheus.Metric) { c.emit(&Emitter{ch}) }

// Emitter collects the samples of one scrape. It is valid during the call of the
// function that receives it.
type Emitter struct{ ch chan<- prometheus.Metric }

// Emit emits one sample of a counter or a gauge. labels are the values of d's
// labels, in their order; another number of them, or another kind of metric, is a
// bug and panics. Within one scrape no two samples of d may have the same values.
func (e *Emitter) Emit(d *metric.Desc, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	switch d.Kind() {
	case metric.Counter:
		kind = prometheus.CounterValue
	case metric.Gauge:
	default:
		panic("BUG: telemetry: one sample of the " + d.Kind().String() + " " + d.Name())
	}
	checkLabels(d, labels)
	m, err := prometheus.NewConstMetric(descs[d], kind, value, labels...)
	e.send(d, m, err)
}

// EmitFlag emits 1 for true and 0 for false; see Emit.
func (e *Emitter) EmitFlag(d *metric.Desc, value bool, labels ...string) {
	n := 0.0
	if value {
		n = 1
	}
	e.Emit(d, n, labels...)
}

// EmitHistogram emits one distribution that another package counted: count values
// of the given sum, buckets[i] of them in (bounds[i-1], bounds[i]] (not
// cumulative, bounds rising; a last bucket beyond all bounds may be missing from
// bounds). See Emit for labels.
func (e *Emitter) EmitHistogram(
	d *metric.Desc, count uint64, sum float64, bounds []float64, buckets []uint64, labels ...string,
) {
	if d.Kind() != metric.Histogram {
		panic("BUG: telemetry: a distribution of the " + d.Kind().String() + " " + d.Name())
	}
	checkLabels(d, labels)
	cumulative := make(map[float64]uint64, len(bounds))
	n := uint64(0)
	for i := range min(len(bounds), len(buckets)) {
		n += buckets[i]
		cumulative[bounds[i]] = n
	}
	m, err := prometheus.NewConstHistogram(descs[d], max(count, n), sum, cumulative, labels...)
	e.send(d, m, err)
}

// EmitDurations emits a distribution of durations; see EmitHistogram.
func (e *Emitter) EmitDurations(d *metric.Desc, c *timing.Counts, labels ...string) {
	e.EmitHistogram(d, c.Count, float64(c.SumNanos)/1e9, timing.Bounds(), c.Buckets[:], labels...)
}

// send sends m, or the error that prevents the registry from rendering it.
func (e *Emitter) send(d *metric.Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(descs[d], err)
	}
	e.ch <- m
}

func checkLabels(d *metric.Desc, values []string) {
	if len(values) != len(d.Labels()) {
		panic("BUG: telemetry: the number of label values of " + d.Name())
	}
}
