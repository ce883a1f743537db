// Package telemetry renders what the other packages count.
//
// Packages count with plain structs (Stats) and know nothing of metrics; the
// host registers, for each, a function that turns one Stats into samples when a
// scrape asks ([Registry.Collect], [Registry.GaugeFunc], [Registry.CounterFunc]).
// What must be counted as it happens (latencies, tokens) goes into the
// histograms and counters of [Metrics], whose hot calls are one or two atomic
// additions and allocate nothing.
package telemetry

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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

// GaugeFunc registers a gauge whose value f returns at each scrape. labels are
// pairs of name and value. Registering one name with the same labels twice is a
// bug and panics.
func (r *Registry) GaugeFunc(name, help string, f func() float64, labels ...string) {
	r.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: pairs(labels)}, f))
}

// CounterFunc registers a counter whose value f returns at each scrape. It must
// never fall. labels are as for GaugeFunc; the name ends in _total.
func (r *Registry) CounterFunc(name, help string, f func() float64, labels ...string) {
	r.reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: pairs(labels)}, f))
}

// Collect registers a function that emits samples at each scrape: for sets that
// come and go, such as endpoints. Scrapes may run it at once with itself.
func (r *Registry) Collect(f func(*Emitter)) {
	r.reg.MustRegister(&collector{emit: f, descs: map[string]*prometheus.Desc{}})
}

// Handler serves the metrics as Prometheus text, OpenMetrics or protobuf, as
// the scraper asks; native histograms need protobuf. Four scrapes may run at
// once, each for 10 s: a scraper that hangs cannot pile up work. A sample that
// cannot be rendered is left out, the others are served.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{
		EnableOpenMetrics: true, MaxRequestsInFlight: 4, Timeout: 10 * time.Second, ErrorHandling: promhttp.ContinueOnError,
	})
}

// pairs turns name, value, name, value … into a map.
func pairs(labels []string) prometheus.Labels {
	if len(labels)%2 != 0 {
		panic("BUG: telemetry: label without a value")
	}
	m := make(prometheus.Labels, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	return m
}

// collector is a prometheus.Collector that says nothing in advance, so that its
// series may change from scrape to scrape.
type collector struct {
	emit func(*Emitter)

	mu    sync.Mutex // guards descs
	descs map[string]*prometheus.Desc
}

func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.emit(&Emitter{c: c, ch: ch})
}

// desc returns the description of a metric name with these label names.
func (c *collector) desc(name, help string, labels []string) *prometheus.Desc {
	if len(labels)%2 != 0 {
		panic("BUG: telemetry: label without a value for " + name)
	}
	key := name
	names := make([]string, 0, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		names = append(names, labels[i])
		key += "\x00" + labels[i]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.descs[key]
	if d == nil {
		d = prometheus.NewDesc(name, help, names, nil)
		c.descs[key] = d
	}
	return d
}

// Emitter takes the samples of one scrape. It is valid during the call of the
// function it was given to.
type Emitter struct {
	c  *collector
	ch chan<- prometheus.Metric
}

// Gauge emits one sample. labels are pairs of name and value; within one scrape
// a name must always come with the same label names and never twice with the
// same values.
func (e *Emitter) Gauge(name, help string, value float64, labels ...string) {
	e.sample(prometheus.GaugeValue, name, help, value, labels)
}

// Counter emits one sample of a counter; see Gauge.
func (e *Emitter) Counter(name, help string, value float64, labels ...string) {
	e.sample(prometheus.CounterValue, name, help, value, labels)
}

// Histogram emits one distribution that another package counted: count values
// of the given sum, buckets[i] of them in (bounds[i-1], bounds[i]] (not
// cumulative, bounds rising; a last bucket beyond all bounds may be missing from
// bounds). See Gauge for labels.
func (e *Emitter) Histogram(name, help string, count uint64, sum float64, bounds []float64, buckets []uint64, labels ...string) {
	d, values := e.c.desc(name, help, labels), labelValues(labels)
	cumulative := make(map[float64]uint64, len(bounds))
	n := uint64(0)
	for i := range min(len(bounds), len(buckets)) {
		n += buckets[i]
		cumulative[bounds[i]] = n
	}
	m, err := prometheus.NewConstHistogram(d, max(count, n), sum, cumulative, values...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	e.ch <- m
}

func labelValues(labels []string) []string {
	values := make([]string, 0, len(labels)/2)
	for i := 1; i < len(labels); i += 2 {
		values = append(values, labels[i])
	}
	return values
}

func (e *Emitter) sample(kind prometheus.ValueType, name, help string, value float64, labels []string) {
	d := e.c.desc(name, help, labels)
	m, err := prometheus.NewConstMetric(d, kind, value, labelValues(labels)...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	e.ch <- m
}
