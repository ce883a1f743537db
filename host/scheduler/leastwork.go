package scheduler

// Objective is what a profile's cost minimizes.
type Objective string

const (
	Blend      Objective = "blend"
	TTFT       Objective = "ttft"
	Throughput Objective = "throughput"
)

// Weights are the constants of the least-work cost.
type Weights struct {
	Own          float32 // a: weight of the request's own new tokens
	Interference float32 // per new token and request in flight
	KV           float32 // per token of the requests in flight
}

// objectives are from the replay of 17 policies over 15 scenarios: a = 1 is
// plain predicted TTFT; a = 2 counts that a new token also displaces a cached
// one and was best in mean and p95 TTFT; a = 3 has the highest hit and the best
// worst-case goodput.
var objectives = map[Objective]Weights{
	"":         {Own: 2, Interference: 0.05, KV: 0.1},
	Blend:      {Own: 2, Interference: 0.05, KV: 0.1},
	TTFT:       {Own: 1, Interference: 0.05, KV: 0.1},
	Throughput: {Own: 3, Interference: 0.05, KV: 0.1},
}

// LeastWork is the built-in scorer. It prefers the endpoint with the least work until
// the request's first token, including what the request costs others.
//
//	cost = S * (outstanding + a*new + 0.05*new*inflight + 0.1*kv_active) + delay
//
// Every product and sum is rounded to float32 (Go may fuse x*y + z unless it is
// converted), so that an implementation in another language agrees bit for bit.
// The zero LeastWork has zero weights; use NewLeastWork.
type LeastWork struct{ w Weights }

// NewLeastWork returns the scorer with the weights of an objective; an unknown one has
// those of Blend.
func NewLeastWork(o Objective) *LeastWork {
	w, ok := objectives[o]
	if !ok {
		w = objectives[Blend]
	}
	return &LeastWork{w}
}

// Name implements Scorer.
func (*LeastWork) Name() string { return "leastwork" }

// Unit implements Scorer.
func (*LeastWork) Unit() Unit { return CostTokens }

// Wants implements Wanter.
func (*LeastWork) Wants() ColumnSet { return 0 }

// Score implements Scorer: the scores are minus the costs.
func (l *LeastWork) Score(b *Batch) error {
	n := b.N
	uncached, out, infl := b.Uncached[:n], b.Outstanding[:n], b.Inflight[:n]
	kv, speed, delay, scores := b.KVActive[:n], b.Speed[:n], b.Delay[:n], b.Scores[:n]
	for i := range scores {
		scores[i] = -l.cost(uncached[i], out[i], infl[i], kv[i], speed[i], delay[i])
	}
	return nil
}

// cost returns the cost of a candidate in tokens.
func (l *LeastWork) cost(uncached, outstanding, inflight, kv, speed, delay float32) float32 {
	c := float32(outstanding + float32(l.w.Own*uncached))
	c = float32(c + float32(float32(l.w.Interference*uncached)*inflight))
	c = float32(c + float32(l.w.KV*kv))
	return float32(float32(speed*c) + delay)
}

// terms returns the parts of a recorded candidate's score, for explain.
func (l *LeastWork) terms(c *candTrace) map[string]float32 {
	return map[string]float32{
		"outstanding":  0 - c.outstanding,
		"own":          0 - float32(l.w.Own*c.uncached),
		"interference": 0 - float32(float32(l.w.Interference*c.uncached)*c.inflight),
		"kv_active":    0 - float32(l.w.KV*c.kvActive),
		"speed":        c.speed,
		"decode_delay": 0 - c.delay,
	}
}

// A learned rate changes S only beyond this band: the rates of equal GPUs differ with
// the mix of their prompts. S is bounded: a GPU four times as fast as the mean is the
// widest mix in use (L4 beside H100).
const (
	speedBand = 1.25
	speedMax  = 4
)

// fillSpeeds sets S(w) = mean rate / own rate for candidates with a learned
// prefill rate, 1 for the others. rates is [N], 0 = not learned.
func fillSpeeds(speed, rates []float32) {
	var sum float32
	known := 0
	for _, r := range rates {
		if r > 0 {
			sum += r
			known++
		}
	}
	for i := range speed {
		speed[i] = 1
	}
	if known < 2 {
		return // nothing to compare with
	}
	for i, r := range rates {
		if r <= 0 {
			continue
		}
		if s := float32(float32(sum/float32(known)) / r); s > speedBand || s < 1/float32(speedBand) {
			speed[i] = min(max(s, 1/float32(speedMax)), speedMax)
		}
	}
}
