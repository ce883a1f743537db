package scenario

import (
	"math"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/replay"
	"github.com/kvasir-router/kvasir/host/replay/virtual"
)

// Metrics are the results of one run. Times are in seconds, shares in [0, 1].
type Metrics struct {
	Requests float64 `json:"requests"`
	TTFT50   float64 `json:"ttft_p50_s"`
	TTFT95   float64 `json:"ttft_p95_s"`
	TTFT99   float64 `json:"ttft_p99_s"`
	TTFTMean float64 `json:"ttft_mean_s"`
	TPOT50   float64 `json:"tpot_p50_s"`
	TPOT95   float64 `json:"tpot_p95_s"`
	TPOT99   float64 `json:"tpot_p99_s"`
	E2E50    float64 `json:"e2e_p50_s"`
	E2EMean  float64 `json:"e2e_mean_s"`

	Hit     float64 `json:"hit"`                  // share of prompt tokens that engines reused
	Ideal   float64 `json:"ideal_hit"`            // that one endpoint with an unbounded cache would reuse
	Avoided float64 `json:"prefill_tokens_saved"` // prompt tokens that were not computed

	Goodput float64 `json:"goodput"`            // share of requests within the SLO
	Good    float64 `json:"good_per_second"`    // requests within the SLO
	Answers float64 `json:"answers_per_second"` // all requests
	// Score is what policies are ranked by, more is better: Good where the clients begin
	// at once, so that a better policy ends sooner; else Goodput, because the time of an
	// open load's end is that of its last client, whatever the policy.
	Score    float64 `json:"score"`
	SkewBusy float64 `json:"busy_cov"` // coefficient of variation of the engines' busy time
	SkewMax  float64 `json:"busy_max_over_mean"`
	Queue    float64 `json:"queue_mean"` // requests that wait in an engine, mean over engines and scrapes
	QueueMax float64 `json:"queue_max"`

	PredictedHit float64 `json:"predicted_hit"`    // share of prompt tokens that the router expected to be reused
	PredictedOff float64 `json:"prediction_error"` // sum of |predicted - reused| over all prompt tokens
}

// metricsOf computes the metrics of a run.
func metricsOf(r *virtual.Result, slo SLO, ideal float64, closed bool) Metrics {
	n := len(r.Samples)
	ttft, tpot, e2e := make([]float64, 0, n), make([]float64, 0, n), make([]float64, 0, n)
	var prompt, cached, predicted, off, good float64
	for i := range r.Samples {
		s := &r.Samples[i]
		ttft, e2e = append(ttft, float64(s.TTFT)), append(e2e, float64(s.E2E))
		if s.Output > 1 {
			tpot = append(tpot, float64(s.TPOT))
		}
		prompt, cached = prompt+float64(s.Prompt), cached+float64(s.Cached)
		predicted, off = predicted+float64(s.Predicted), off+math.Abs(float64(s.Predicted-s.Cached))
		if float64(s.TTFT) <= time.Duration(slo.TTFT).Seconds() && float64(s.TPOT) <= time.Duration(slo.TPOT).Seconds() {
			good++
		}
	}
	slices.Sort(ttft)
	slices.Sort(tpot)
	slices.Sort(e2e)
	first := math.Inf(1)
	for i := range r.Samples {
		first = min(first, r.Samples[i].Arrival)
	}
	took := max(1e-9, r.End.Seconds()-first)
	m := Metrics{Requests: float64(n), TTFT50: quantile(ttft, 0.5), TTFT95: quantile(ttft, 0.95),
		TTFT99: quantile(ttft, 0.99), TTFTMean: mean(ttft), TPOT50: quantile(tpot, 0.5), TPOT95: quantile(tpot, 0.95),
		TPOT99: quantile(tpot, 0.99), E2E50: quantile(e2e, 0.5), E2EMean: mean(e2e), Hit: cached / max(1, prompt),
		Ideal: ideal, Avoided: cached, Goodput: good / float64(n), Good: good / took, Answers: float64(n) / took,
		PredictedHit: predicted / max(1, prompt), PredictedOff: off / max(1, prompt)}
	m.Score = m.Goodput
	if closed {
		m.Score = m.Good
	}
	m.engines(r)
	return m
}

// closedSeconds is within how many seconds all conversations of a closed load begin.
const closedSeconds = 1

// closed reports whether the clients of a trace begin at once.
func closed(t *replay.Trace) bool {
	n := len(t.Conversations)
	return t.Conversations[n-1].Start-t.Conversations[0].Start <= closedSeconds
}

// engines computes skew and queues.
func (m *Metrics) engines(r *virtual.Result) {
	busy := make([]float64, 0, len(r.Engines))
	for i := range r.Engines {
		e := &r.Engines[i]
		busy = append(busy, e.Busy.Seconds())
		m.Queue += e.MeanWaiting / float64(len(r.Engines))
		m.QueueMax = max(m.QueueMax, float64(e.MaxWaiting))
	}
	if mu := mean(busy); mu > 0 {
		m.SkewBusy, m.SkewMax = deviation(busy)/mu, slices.Max(busy)/mu
	}
}

// quantile returns the nearest-rank quantile of sorted values, 0 of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(1, len(v)))
}

// deviation returns the population's standard deviation.
func deviation(v []float64) float64 {
	mu, sum := mean(v), 0.0
	for _, x := range v {
		sum += (x - mu) * (x - mu)
	}
	return math.Sqrt(sum / float64(max(1, len(v))))
}
