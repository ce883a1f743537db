package autoscale

import (
	"math"
	"time"
)

// Signal is what was measured of one pool at a tick.
type Signal struct {
	Now time.Time

	// Work is what was offered since the last tick, in endpoint-seconds: the uncached
	// prompt tokens divided by the rate at which an endpoint computes prompts, and
	// the cost of answers.
	Work float64
	// Requests arrived since the last tick, including those that wait for the first
	// endpoint.
	Requests int
	// Backlog is accepted work that is not done, in endpoint-seconds.
	Backlog float64
	// QueueWait is the age of the oldest request that waits.
	QueueWait time.Duration
	InFlight  int     // requests that are not done
	KVUsage   float64 // mean share of KV memory in use by requests, in [0, 1]

	// Ready endpoints serve, Pending ones were ordered and are not ready. Draining
	// endpoints are neither.
	Ready, Pending int
	// ColdStart is the measured time from order to readiness (p90); 0 = unknown.
	ColdStart time.Duration
	// Missing reports that there are no measurements; Work and Backlog mean nothing.
	// Without traffic they are not missing but zero.
	Missing bool
}

// Reasons of a Proposal: what determined its size.
const (
	ReasonWork    = "work"       // the rate of offered work
	ReasonLead    = "lead"       // its growth over a cold start
	ReasonBacklog = "backlog"    // accepted work that is not done
	ReasonWindow  = "window"     // a size needed within the window
	ReasonStep    = "step"       // the greatest change at once
	ReasonMin     = "min"        // the lower bound
	ReasonMax     = "max"        // the upper bound
	ReasonMissing = "no_metrics" // no change: there are no measurements
	ReasonLoading = "loading"    // no change: no step down while endpoints load
	ReasonIdle    = "idle"       // no request for long: zero
	ReasonWake    = "wake"       // requests wait for the first endpoint
)

// Proposal is a proposed size and how it was computed.
type Proposal struct {
	Desired int    // within Min and Max
	Reason  string // one of the Reason constants

	Rate    float64       // smoothed offered work, endpoint-seconds per second
	Lead    float64       // added for growth over a cold start, same unit
	Ahead   float64       // endpoint-seconds that will have accumulated when a machine ordered now serves
	Backlog float64       // endpoints added to work off the backlog and Ahead
	Wish    int           // by work, lead and backlog alone, unbounded
	Window  int           // greatest Wish within the window
	Cold    time.Duration // cold start that was assumed
}

// Constants of the loop. RATIONALE.md has the measurements.
const (
	rateTime    = 30 * time.Second // of the smoothing of the rate
	slopeTime   = 3 * time.Minute  // over which growth is measured
	slopeLeast  = time.Minute      // over less, growth is noise
	steady      = 0.7              // share of its time up to which an endpoint keeps up with its work
	clearTime   = 30 * time.Second // in which a backlog is to be worked off
	freeBacklog = 1.0              // endpoint-seconds per endpoint that are no backlog: requests being computed
	downShare   = 0.1              // greatest step down
)

// Loop turns signals into sizes. It is not safe for concurrent use.
type Loop struct {
	cfg   Config
	rate  float64
	seen  float64 // weight of the ticks in rate, rising to 1
	last  time.Time
	rates []point // of the last slopeTime
	sizes []point // wishes of the last window
	up    time.Time
	busy  time.Time // last time with a request
}

type point struct {
	at time.Time
	v  float64
}

// NewLoop returns the loop of a pool that has size endpoints at the time now.
// The size counts as needed until the window has passed: a restart of the router
// does not shrink a warm pool.
func NewLoop(cfg Config, size int, now time.Time) *Loop {
	return &Loop{cfg: cfg.withDefaults(), last: now, busy: now, sizes: []point{{now, float64(size)}}}
}

// SetConfig takes a changed configuration; the history stays.
func (l *Loop) SetConfig(cfg Config) { l.cfg = cfg.withDefaults() }

// Tick evaluates the signal of a tick and returns the size that the pool needs.
// Ticks that do not advance the time propose no change.
func (l *Loop) Tick(s *Signal) Proposal {
	size := s.Ready + s.Pending
	dt := s.Now.Sub(l.last)
	if s.Missing || dt <= 0 {
		// Not even a bound is applied: missing measurements must not start a machine.
		return Proposal{Desired: size, Reason: ReasonMissing, Rate: l.rate, Wish: size, Window: size}
	}
	l.last = s.Now
	if s.Requests > 0 || s.InFlight > 0 {
		l.busy = s.Now
	}
	p := l.wish(s, dt)
	return l.bound(p, s)
}

// wish computes the size from work alone.
func (l *Loop) wish(s *Signal, dt time.Duration) Proposal {
	a := 1 - math.Exp(-dt.Seconds()/rateTime.Seconds())
	l.seen += a * (1 - l.seen) // the average is of the ticks so far, not of zeros before them
	l.rate += a / l.seen * (finite(s.Work)/dt.Seconds() - l.rate)
	l.rates = append(trim(l.rates, s.Now.Add(-slopeTime)), point{s.Now, l.rate})
	p := Proposal{Rate: l.rate, Cold: l.cfg.ColdStart}
	if s.ColdStart > 0 {
		p.Cold = s.ColdStart
	}
	p.Lead = min(max(0, l.slope()*p.Cold.Seconds()), l.rate)
	p.Ahead = max(0, p.Rate-max(steady, l.cfg.Target)*float64(s.Ready)) * p.Cold.Seconds()
	p.Backlog = max(0, finite(s.Backlog)+p.Ahead-freeBacklog*float64(s.Ready+s.Pending)) / clearTime.Seconds()
	p.Wish = ceil((p.Rate+p.Lead)/l.cfg.Target + p.Backlog)
	p.Reason = ReasonWork
	if ceil(p.Rate/l.cfg.Target+p.Backlog) < p.Wish {
		p.Reason = ReasonLead
	}
	if ceil((p.Rate+p.Lead)/l.cfg.Target) < p.Wish {
		p.Reason = ReasonBacklog
	}
	return p
}

// slope returns the growth of the rate per second, 0 until slopeLeast has passed.
func (l *Loop) slope() float64 {
	first, last := l.rates[0], l.rates[len(l.rates)-1]
	d := last.at.Sub(first.at)
	if d < slopeLeast {
		return 0
	}
	return (last.v - first.v) / d.Seconds()
}

// bound applies the window, the steps and the bounds.
func (l *Loop) bound(p Proposal, s *Signal) Proposal {
	size := s.Ready + s.Pending
	floor := l.cfg.Min
	idle := l.cfg.Min == 0 && s.InFlight == 0 && s.Now.Sub(l.busy) >= l.cfg.IdleAfter
	if floor == 0 && !idle && size > 0 {
		floor = 1 // the last one is removed only when the pool is idle
	}
	n := p.Wish
	if size == 0 && (s.InFlight > 0 || s.Requests > 0) && n < 1 {
		n, p.Reason = 1, ReasonWake
	}
	window := max(l.cfg.Window, 2*p.Cold)
	l.sizes = append(trim(l.sizes, s.Now.Add(-min(window, maxWindow))), point{s.Now, float64(min(n, l.cfg.Max))})
	p.Window = int(greatest(l.sizes))
	switch {
	case idle:
		// What is left of the average would order the last endpoint again.
		l.rate, n, p.Reason = 0, 0, ReasonIdle
	case n > size:
		if most := max(2*size, size+1); n > most {
			n, p.Reason = most, ReasonStep
		}
	case n < size:
		n, p.Reason = l.down(p, s)
	}
	if n > l.cfg.Max {
		n, p.Reason = l.cfg.Max, ReasonMax
	}
	if n < floor {
		n, p.Reason = floor, ReasonMin
	}
	if n > size {
		l.up = s.Now
	}
	p.Desired = n
	return p
}

// down returns the size after a step down, or the current size with the reason for
// keeping it.
func (l *Loop) down(p Proposal, s *Signal) (int, string) {
	size := s.Ready + s.Pending
	if p.Window >= size {
		return size, ReasonWindow
	}
	if s.Pending > 0 || !l.up.IsZero() && s.Now.Sub(l.up) < p.Cold {
		return size, ReasonLoading
	}
	step := max(1, int(downShare*float64(size)))
	if least := size - step; p.Window < least {
		return least, ReasonStep
	}
	return p.Window, p.Reason
}

// trim drops the points before the time from; it keeps one of them if nothing
// else would be left.
func trim(p []point, from time.Time) []point {
	i := 0
	for i < len(p)-1 && p[i].at.Before(from) {
		i++
	}
	return append(p[:0], p[i:]...)
}

func greatest(p []point) float64 {
	v := p[0].v
	for _, x := range p[1:] {
		v = max(v, x.v)
	}
	return v
}

// ceil rounds up to a size, with a tolerance of a millionth for rounding errors.
func ceil(v float64) int {
	return int(min(math.Ceil(v-1e-6), MaxSize))
}

// finite returns v, or 0 if it is not a finite number of at least 0.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}
