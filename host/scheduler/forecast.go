package scheduler

import (
	"sync/atomic"
	"time"
)

// forecast is what an answer is expected to take on an endpoint, by what was learned
// there; 0 = nothing was learned.
type forecast struct {
	ttft time.Duration // from the charge to the first token
	tpot time.Duration // of each further token
}

// forecastOf returns what the request is expected to take on a column: the prompts that
// wait there and its own at the learned prefill rate, and a step of decoding. The lane
// is locked.
func (d *decision) forecastOf(at int) (f forecast) {
	itl := d.loads[at].ITLMillis()
	f.tpot = time.Duration(itl * float32(time.Millisecond))
	if rate := d.b.Rates[at]; rate > 0 {
		tokens := d.live.outstanding[at] + d.cands[d.order[at]].uncached
		f.ttft = time.Duration(tokens/rate*float32(time.Second)) + f.tpot
	}
	return f
}

// Forecasts compares forecasts with what came, both in seconds, summed over Count
// answers.
type Forecasts struct {
	Count     uint64  `json:"count"`
	Predicted float64 `json:"predicted_seconds"`
	Observed  float64 `json:"observed_seconds"`
	Error     float64 `json:"error_seconds"` // sum of the absolute differences
}

// forecastCounts is the counts behind Forecasts; sums are in nanoseconds.
type forecastCounts struct{ count, predicted, observed, differed atomic.Int64 }

func (c *forecastCounts) add(predicted, observed time.Duration) {
	if predicted <= 0 || observed <= 0 {
		return
	}
	c.count.Add(1)
	c.predicted.Add(int64(predicted))
	c.observed.Add(int64(observed))
	c.differed.Add(int64((predicted - observed).Abs()))
}

func (c *forecastCounts) load() Forecasts {
	seconds := func(v *atomic.Int64) float64 { return time.Duration(v.Load()).Seconds() }
	return Forecasts{uint64(c.count.Load()), seconds(&c.predicted), seconds(&c.observed), seconds(&c.differed)}
}
