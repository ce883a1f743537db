package endpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// Result is what a request or a health probe says about an endpoint's health.
type Result uint8

const (
	// ResultOK is any answer that shows a working engine: 2xx, 4xx, and the
	// back-pressure statuses 429 and 503, which never open a breaker.
	ResultOK Result = iota
	// ResultFailed is a refused or lost connection, a timeout before the first
	// byte, or a 5xx other than 503.
	ResultFailed
	// ResultNeutral shows nothing: the client left.
	ResultNeutral
)

// ResultOf classifies an HTTP status; 0 means no answer came.
func ResultOf(status int) Result {
	if status == 0 || status >= 500 && status != 503 {
		return ResultFailed
	}
	return ResultOK
}

const (
	// breakerFailures in a row open the breaker: one is chance, five would
	// lose too many requests of a dead engine to their retries.
	breakerFailures = 3
	// breakerBase is the first ejection; each further one without a success
	// between doubles it up to breakerMax.
	breakerBase = time.Second
	breakerMax  = time.Minute
	// slowStart is how long the share of new work of an endpoint that returns to
	// service is ramped up.
	slowStart = 30 * time.Second
	// maxEjectedShare of a pool may be ejected by breakers. Above it the pool
	// as a whole is at fault, and choosing among its endpoints does not help.
	maxEjectedShare = 0.5
)

// breaker ejects an endpoint that fails in a row. Closed: openUntil is 0.
// Open: openUntil is in the future. Half-open: it has passed; one probe
// request at a time is let through.
type breaker struct {
	openUntil atomic.Int64 // Unix nanoseconds, 0 = closed
	probing   atomic.Int64 // Unix nanoseconds until which a probe keeps other requests out, 0 = none
	returned  atomic.Int64 // Unix nanoseconds of the return to service, 0 = never left

	mu       sync.Mutex // guards the fields below
	failures int        // in a row
	trips    int        // ejections without a success between
	away     bool       // was ready once and is not
	served   bool       // was ready once
}

// probeHold bounds how long a probe that never reports keeps other requests out.
const probeHold = 30 * time.Second

// Open reports whether the breaker keeps requests away at now: it is open, or
// half-open with a probe under way.
func (l *Load) Open(now time.Time) bool {
	until := l.breaker.openUntil.Load()
	if until == 0 {
		return false
	}
	t := now.UnixNano()
	return t < until || t < l.breaker.probing.Load()
}

// Ejected reports whether the breaker is open or half-open.
func (l *Load) Ejected() bool { return l.breaker.openUntil.Load() != 0 }

// BreakerState is what a breaker does with requests.
type BreakerState uint8

const (
	BreakerClosed   BreakerState = iota // it takes them
	BreakerOpen                         // it takes none
	BreakerHalfOpen                     // the next request is a probe
)

// Breaker describes an endpoint's circuit breaker for operators.
type Breaker struct {
	State    BreakerState
	Failures int           // in a row
	Left     time.Duration // until it lets a probe through, if it is open; 0 = a probe is under way
}

// Breaker returns the state of the breaker at now.
func (l *Load) Breaker(now time.Time) Breaker {
	b := &l.breaker
	b.mu.Lock()
	out := Breaker{Failures: b.failures}
	b.mu.Unlock()
	until := b.openUntil.Load()
	switch {
	case until == 0:
	case l.Open(now):
		out.State, out.Left = BreakerOpen, time.Duration(max(0, until-now.UnixNano()))
	default:
		out.State = BreakerHalfOpen
	}
	return out
}

// Admit asks to send a request. A closed breaker admits all; a half-open one
// admits a single probe until its result is reported.
func (l *Load) Admit(now time.Time) bool {
	b := &l.breaker
	until := b.openUntil.Load()
	if until == 0 {
		return true
	}
	t := now.UnixNano()
	if t < until {
		return false
	}
	held := b.probing.Load()
	return t >= held && b.probing.CompareAndSwap(held, t+int64(probeHold))
}

// Ramp returns the share of new work an endpoint should take at now, in (0, 1]:
// 1, or less for 30 s after it came back into service.
func (l *Load) Ramp(now time.Time) float32 {
	back := l.breaker.returned.Load()
	if back == 0 {
		return 1
	}
	d := now.UnixNano() - back
	if d >= int64(slowStart) {
		l.breaker.returned.CompareAndSwap(back, 0)
		return 1
	}
	return max(0.05, float32(d)/float32(slowStart))
}

// readiness records that the watcher took the endpoint out of service or put it
// back. The first time into service is not a return.
func (l *Load) readiness(ready bool) {
	b := &l.breaker
	b.mu.Lock()
	switch now := time.Now().UnixNano(); {
	case !ready:
		l.ready.Store(0)
	case b.away:
		b.returned.Store(now)
		fallthrough
	default:
		l.ready.Store(now)
	}
	b.away = !ready && b.served
	b.served = b.served || ready
	b.mu.Unlock()
}

// Report passes a result to an endpoint's breaker. load is the Load that the
// request was charged to, so that a late report never reaches the next endpoint
// of the slot. It reports whether the breaker opened.
func (s *Store) Report(load *Load, r Result, now time.Time) (opened bool) {
	if r != ResultNeutral {
		load.errors.take(r == ResultFailed, now)
	}
	switch r {
	case ResultOK:
		load.succeeded(now)
	case ResultNeutral:
		load.breaker.probing.Store(0)
	case ResultFailed:
		return load.failed(now, s)
	}
	return false
}

// Retract takes back a ResultFailed that was reported for load, because something else
// was at fault. A breaker that this result opened closes.
func (s *Store) Retract(load *Load, now time.Time) {
	load.errors.retract(now)
	b := &load.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = max(0, b.failures-1)
	if b.openUntil.Load() != 0 && b.failures < breakerFailures {
		b.trips = max(0, b.trips-1)
		b.openUntil.Store(0)
		b.probing.Store(0)
	}
}

func (l *Load) succeeded(now time.Time) {
	b := &l.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	until := b.openUntil.Load()
	if until != 0 && now.UnixNano() < until {
		return // an answer that was under way when it opened
	}
	b.failures, b.trips = 0, 0
	if until != 0 {
		b.returned.Store(now.UnixNano())
		b.openUntil.Store(0)
		b.probing.Store(0)
	}
}

func (l *Load) failed(now time.Time, s *Store) bool {
	b := &l.breaker
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	until := b.openUntil.Load()
	switch {
	case until != 0 && now.UnixNano() < until:
		return false // open already
	case until == 0 && (b.failures < breakerFailures || !s.mayEject(l)):
		return false
	}
	d := breakerMax
	if b.trips < 6 {
		d = min(d, breakerBase<<b.trips)
	}
	b.trips++
	b.probing.Store(0)
	b.openUntil.Store(now.Add(d).UnixNano())
	return until == 0
}

// mayEject reports whether another endpoint of l's pool may be ejected. Two
// that fail at the same instant may both pass; the bound is advisory by one.
func (s *Store) mayEject(l *Load) bool {
	snap := s.Load()
	pool := ""
	for i, o := range snap.Loads {
		if o == l {
			pool = snap.Infos[i].Pool
		}
	}
	size, ejected := 0, 0
	for i, o := range snap.Loads {
		if o == nil || snap.Infos[i].Pool != pool {
			continue
		}
		size++
		if o.Ejected() {
			ejected++
		}
	}
	return float64(ejected+1) <= maxEjectedShare*float64(size)
}
