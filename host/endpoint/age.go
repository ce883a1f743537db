package endpoint

import (
	"sync"
	"sync/atomic"
	"time"
)

// agePeriods bounds the periods of ages. A period is at least the time between two
// calls of oldest: with the autoscaler's 5 s, all periods are 21 minutes, longer than
// a drain waits by default.
const agePeriods = 256

// ages counts requests in flight by the period in which they began, so that the
// age of the oldest is known without a list of them. All methods may be called
// concurrently.
type ages struct {
	period atomic.Uint32 // the current one, below agePeriods
	counts [agePeriods]atomic.Int32

	mu    sync.Mutex // guards begun, and changes of period
	begun [agePeriods]time.Time
}

// begin counts a request and returns its period.
func (a *ages) begin() (period uint32) {
	period = a.period.Load()
	a.counts[period].Add(1)
	return period
}

// end takes a request of a period out.
func (a *ages) end(period uint32) { a.counts[period].Add(-1) }

// oldest returns the age of the oldest request, 0 if there is none, and begins
// another period. The age is that of its period: too great by at most the time
// between two calls, and too small for requests that began before the first.
func (a *ages) oldest(now time.Time) (age time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	current := a.period.Load()
	if a.begun[current].IsZero() {
		a.begun[current] = now
	}
	for i := uint32(1); i <= agePeriods; i++ {
		if p := (current + i) % agePeriods; a.counts[p].Load() > 0 {
			age = max(0, now.Sub(a.begun[p]))
			break
		}
	}
	// A period that still has requests is not used again: those that begin count
	// as of the current one until it is free.
	next := (current + 1) % agePeriods
	if now.After(a.begun[current]) && a.counts[next].Load() == 0 {
		a.begun[next] = now
		a.period.Store(next)
	}
	return age
}
