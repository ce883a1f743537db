package scaling

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Meter measures the offered work, in endpoint-seconds, from the requests that were
// placed. It is safe for concurrent use.
type Meter struct {
	mu      sync.Mutex              // guards what follows
	answers map[string]*answerCosts // by pool
	heats   map[uint32]*heat        // by epoch of an endpoint
	seen    map[uint32]charged      // by epoch: what was counted so far
	pools   map[uint32]string       // by epoch
	metered map[string]bool         // pools that were measured before
}

// answerCosts are the answers of one pool, smoothed.
type answerCosts struct {
	tokens float64 // of an answer
	itlMS  float64 // between two tokens
}

// heat is a decaying count of the tokens computed on an endpoint.
type heat struct {
	tokens float64
	at     time.Time
}

type charged struct{ requests, uncached uint64 }

// Constants of the meter.
const (
	// assumedRate is the prefill rate in tokens/s until one was learned: of an 8B
	// model on an A100.
	assumedRate = 14_000
	// assumedAnswer and assumedITL describe an answer until there was one.
	assumedAnswer = 256
	assumedITL    = 15 // ms
	// decodeTogether is how many answers a well used engine generates at once: a
	// token costs the time between tokens divided by that.
	decodeTogether = 24
	answerWeight   = 0.02            // of the last answer
	heatTime       = 5 * time.Minute // in which heat decays to a third
	maxHeats       = 4 * endpoint.MaxEndpoints
)

func newMeter() *Meter {
	return &Meter{answers: map[string]*answerCosts{}, heats: map[uint32]*heat{}, seen: map[uint32]charged{},
		pools: map[uint32]string{}, metered: map[string]bool{}}
}

// Observe learns from a request that ended.
func (m *Meter) Observe(o *scheduler.Observation) {
	if o.Outcome.End != exchange.EndComplete || o.Outcome.Status != 200 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := o.Outcome.OutputTokens; o.Outcome.HasUsage && n > 0 {
		a := m.costs(m.pools[o.Epoch])
		a.tokens += answerWeight * (float64(n) - a.tokens)
		if n > 1 && o.Outcome.E2E > o.Outcome.TTFT {
			itl := float64((o.Outcome.E2E - o.Outcome.TTFT).Microseconds()) / 1000 / float64(n-1)
			a.itlMS += answerWeight * (itl - a.itlMS)
		}
	}
	computed := o.PromptTokens - o.PredictedCached
	if o.Outcome.HasUsage && o.Outcome.HasCached {
		computed = o.Outcome.PromptTokens - o.Outcome.CachedTokens
	}
	m.warmLocked(o.Epoch, float64(max(0, computed)), time.Now())
}

func (m *Meter) costs(pool string) *answerCosts {
	a := m.answers[pool]
	if a == nil {
		a = &answerCosts{tokens: assumedAnswer, itlMS: assumedITL}
		m.answers[pool] = a
	}
	return a
}

func (m *Meter) warmLocked(epoch uint32, tokens float64, now time.Time) float64 {
	h := m.heats[epoch]
	if h == nil {
		if len(m.heats) >= maxHeats {
			clear(m.heats) // old epochs; heat need not be exact
		}
		h = &heat{at: now}
		m.heats[epoch] = h
	}
	h.tokens = h.tokens*math.Exp(-now.Sub(h.at).Seconds()/heatTime.Seconds()) + tokens
	h.at = now
	return h.tokens
}

// heat returns the heat of an endpoint.
func (m *Meter) heat(epoch uint32, now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.warmLocked(epoch, 0, now)
}

// signal measures the pools since the last call for them.
func (m *Meter) signal(snap *endpoint.Snapshot, pools []string, now time.Time) autoscale.Signal {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := autoscale.Signal{Now: now}
	alive := 0
	for id := range snap.N {
		info := snap.Info(endpoint.ID(id))
		if info == nil || !slices.Contains(pools, info.Pool) {
			continue
		}
		m.pools[info.Epoch] = info.Pool
		load := snap.Loads[id]
		rate := float64(load.PrefillRate())
		if rate == 0 {
			rate = assumedRate
		}
		var c charged
		c.requests, c.uncached = load.Charged()
		last := m.seen[info.Epoch]
		if !m.metered[info.Pool] {
			last, s.Missing = c, true // earlier requests were not offered since the last tick
		}
		m.seen[info.Epoch] = c
		n := float64(c.requests - last.requests)
		a := m.costs(info.Pool)
		s.Work += float64(c.uncached-last.uncached)/rate + n*a.tokens*a.itlMS/1000/decodeTogether
		s.Requests += int(n)
		s.Backlog += float64(load.Outstanding()) / rate
		s.InFlight += int(load.Inflight())
		if snap.Ready.Has(endpoint.ID(id)) {
			s.KVUsage += float64(snap.KVUsage[id])
			alive++
		}
	}
	if alive > 0 {
		s.KVUsage /= float64(alive)
	}
	for _, p := range pools {
		m.metered[p] = true
	}
	m.forgetLocked(snap)
	return s
}

// leave stops measuring the pools: the next signal of them has no measurements.
func (m *Meter) leave(pools []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range pools {
		delete(m.metered, p)
	}
}

// forgetLocked drops what is kept of endpoints that were removed.
func (m *Meter) forgetLocked(snap *endpoint.Snapshot) {
	if len(m.seen) <= 2*snap.N+64 {
		return
	}
	live := epochs(snap)
	for e := range m.seen {
		if !live[e] {
			delete(m.seen, e)
			delete(m.pools, e)
			delete(m.heats, e)
		}
	}
}
