package telemetry

import (
	"time"

	"github.com/kvasir-router/kvasir/host/telemetry/metric"
)

// Kinds of placement, label route of the latency histograms and label kind of
// kvasir_placements_total.
const (
	RouteWarm     = "warm"     // to an endpoint that holds the longest prefix
	RouteSpill    = "spill"    // an endpoint with a longer prefix was excluded because of its load
	RouteCold     = "cold"     // no candidate holds a prefix
	RouteFallback = "fallback" // without a prefix match: prompt not exact, index not trusted
)

// Metrics are the metrics that the request path updates as events happen. All
// methods may be called concurrently and allocate nothing.
type Metrics struct {
	ttft, e2e *HistogramSet
	itl       *Histogram

	placements, requests, failures     *CounterSet
	predictedCached, predictedUncached *Counter
	reportedCached, reportedUncached   *Counter
	unreported, output                 *Counter
	exactPredictions, wrongPredictions *Counter
	predictedOver, predictedUnder      *Counter
	earlierPredictions, earlierTokens  *Counter
}

// NewMetrics registers the metrics of the request path in r.
func NewMetrics(r *Registry) *Metrics {
	m := &Metrics{
		ttft:       r.NewHistogramSet(metric.TTFTSeconds),
		e2e:        r.NewHistogramSet(metric.E2ESeconds),
		itl:        r.NewHistogramSet(metric.ITLSeconds).With(""),
		placements: r.NewCounterSet(metric.Placements),
		requests:   r.NewCounterSet(metric.Requests),
		failures:   r.NewCounterSet(metric.Failures),
		output:     r.NewCounterSet(metric.OutputTokens).With(""),
	}
	predicted := r.NewCounterSet(metric.PromptTokensPredicted)
	m.predictedCached, m.predictedUncached = predicted.With("cached"), predicted.With("uncached")
	reported := r.NewCounterSet(metric.PromptTokensReported)
	m.reportedCached, m.reportedUncached = reported.With("cached"), reported.With("uncached")
	m.unreported = reported.With("unknown")
	checks := r.NewCounterSet(metric.Predictions)
	m.exactPredictions, m.wrongPredictions = checks.With("exact"), checks.With("wrong")
	m.earlierPredictions = checks.With("earlier")
	off := r.NewCounterSet(metric.PredictionErrorTokens)
	m.predictedOver, m.predictedUnder, m.earlierTokens = off.With("over"), off.With("under"), off.With("earlier")
	return m
}

// Placed counts one placement of a kind with its prediction: the tokens of the
// prompt (0 = unknown) and how many of them the endpoint is expected to hold.
func (m *Metrics) Placed(kind string, promptTokens, cachedTokens int) {
	m.placements.With(kind).Add(1)
	if cachedTokens = max(0, min(cachedTokens, promptTokens)); promptTokens > 0 {
		m.predictedCached.Add(uint64(cachedTokens))
		m.predictedUncached.Add(uint64(promptTokens - cachedTokens))
	}
}

// Result describes how one request ended. Zero durations are not counted.
type Result struct {
	Route     string // a Route constant, "" = the request was not placed
	Status    int    // of the answer, 0 = the client left before it
	Cause     string // "" = ended well; else client_gone, upstream_died, timeout, …
	TTFT, E2E time.Duration

	HasUsage, HasCached                   bool // what the engine reported
	PromptTokens, CachedTokens, OutTokens int
	PredictedTokens, PredictedCached      int  // what the router predicted
	HasPrediction                         bool // the prediction claims to be exact
	EarlierBlocks                         bool // but the endpoint may hold blocks that the router has not seen
}

// Ended counts one result.
func (m *Metrics) Ended(r *Result) {
	m.requests.With(statusText(r.Status)).Add(1)
	if r.Cause != "" {
		m.failures.With(r.Cause).Add(1)
	}
	if r.Route != "" && r.TTFT > 0 {
		m.ttft.With(r.Route).Observe(r.TTFT)
	}
	if r.Route != "" && r.E2E > 0 {
		m.e2e.With(r.Route).Observe(r.E2E)
	}
	if !r.HasUsage {
		return
	}
	m.output.Add(uint64(max(r.OutTokens, 0)))
	if r.OutTokens > 1 && r.TTFT > 0 && r.E2E > r.TTFT {
		m.itl.Observe((r.E2E - r.TTFT) / time.Duration(r.OutTokens-1))
	}
	m.reported(r)
}

func (m *Metrics) reported(r *Result) {
	prompt := max(r.PromptTokens, 0)
	if !r.HasCached {
		m.unreported.Add(uint64(prompt))
		return
	}
	cached := max(0, min(r.CachedTokens, prompt))
	m.reportedCached.Add(uint64(cached))
	m.reportedUncached.Add(uint64(prompt - cached))
	if !r.HasPrediction {
		return
	}
	switch d := r.PredictedCached - cached; {
	case d == 0:
		m.exactPredictions.Add(1)
	case d > 0:
		m.wrongPredictions.Add(1)
		m.predictedOver.Add(uint64(d))
	case r.EarlierBlocks:
		m.earlierPredictions.Add(1)
		m.earlierTokens.Add(uint64(-d))
	default:
		m.wrongPredictions.Add(1)
		m.predictedUnder.Add(uint64(-d))
	}
}

// statusText returns the decimal text of an HTTP status without allocating.
func statusText(status int) string {
	if status < 0 || status > 999 {
		return otherValue
	}
	return statusTexts[3*status : 3*status+3]
}

// statusTexts is "000001002…999".
var statusTexts = func() string {
	b := make([]byte, 0, 3000)
	for i := range 1000 {
		b = append(b, byte('0'+i/100), byte('0'+i/10%10), byte('0'+i%10))
	}
	return string(b)
}()
