package wasm

import (
	"sync"
	"sync/atomic"
	"time"
)

// A plugin goes into quarantine at strikesToOpen strikes. A fault is one strike, and
// forgiveEvery calls without a fault remove one. Three, because one fault may be caused
// by an unusual request and the second by its retry; 100, so that a plugin with faults
// in more than one percent of its calls goes into quarantine.
const (
	strikesToOpen = 3
	forgiveEvery  = 100
	firstBackoff  = time.Second
	maxBackoff    = 5 * time.Minute
)

// breaker decides whether a plugin is called. allow and ok are for the request
// path and take no lock in the ordinary case.
type breaker struct {
	open    atomic.Bool
	strikes atomic.Int32 // > 0: ok has something to count

	mu        sync.Mutex // guards what follows, and changes of the above
	good      int        // calls since the last change of strikes
	opens     int        // quarantines since strikes were last 0
	slowOpens int        // of opens, those for slow calls; never reset
	until     time.Time  // next probe while open
	lastErr   string     // the fault that opened it
}

func (b *breaker) allow() bool { return !b.open.Load() }

// ok counts a call without a fault and reports whether it removed the last strike.
func (b *breaker) ok() (forgiven bool) {
	if b.strikes.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.good++; b.good < forgiveEvery || b.strikes.Load() == 0 {
		return false
	}
	b.good = 0
	if b.strikes.Add(-1) != 0 {
		return false
	}
	b.opens = 0
	return true
}

// forgiven reports whether no strike is left.
func (b *breaker) forgiven() bool { return b.strikes.Load() == 0 }

// fault counts a fault at now and reports whether it opened the breaker.
func (b *breaker) fault(now time.Time, err error) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.good = 0
	if b.open.Load() || b.strikes.Add(1) < strikesToOpen {
		return false
	}
	b.reopenLocked(now, err)
	return true
}

// slow opens the breaker at once, because a slow plugin delays every request. Its
// back-off only grows: a plugin that becomes slow after many calls passes each probe.
func (b *breaker) slow(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() {
		return
	}
	b.good = 0
	b.strikes.Store(strikesToOpen)
	b.reopenLocked(now, err)
	b.slowOpens++
}

func (b *breaker) reopenLocked(now time.Time, err error) {
	wait := firstBackoff << min(b.opens+b.slowOpens, 20)
	b.opens++
	b.until = now.Add(min(wait, maxBackoff))
	b.lastErr = err.Error()
	b.open.Store(true)
}

// due reports whether a probe is due at now, and if not when it will be; until
// is zero while the breaker is closed.
func (b *breaker) due(now time.Time) (probe bool, until time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open.Load() {
		return false, time.Time{}
	}
	return !now.Before(b.until), b.until
}

// probed ends a probe: without an error the plugin leaves quarantine, and the next
// fault opens the breaker again.
func (b *breaker) probed(now time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.good = 0
	if err != nil {
		b.reopenLocked(now, err)
		return
	}
	b.strikes.Store(strikesToOpen - 1)
	b.open.Store(false)
}

// reason returns the fault that opened the breaker, "" while it is closed.
func (b *breaker) reason() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open.Load() {
		return ""
	}
	return b.lastErr
}
