package wasm

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stats are a plugin's counters since it was loaded.
type Stats struct {
	Name, Version, Digest string
	Calls                 uint64 // answered calls of filter, score and pick
	Abstained             uint64
	Busy                  uint64 // calls without a free instance
	Faults                map[Reason]uint64
	Refills               uint64 // instances made after faults
	Recycled              uint64 // instances replaced because their memory grew
	Instances             int    // free ones at this moment
	Quarantined           bool
	QuarantineReason      string
	Sliced                bool    // the hot roles return to Go between slices
	UnitsPerCandidate     float64 // fuel, as calibrated
	LastUnits             int64   // fuel of the last timed call
	LoadNanos             int64   // processor time of a call with 64 candidates when it was loaded
	CallNanos             float64 // moving mean over timed calls (one in 64)
	CallNanosMax          int64   // longest timed call
	ObserveCalls          uint64
	Published             int
}

type counters struct {
	calls, abstained, busy, refills, recycled, observed atomic.Uint64
	lastUnits, maxNanos, calibrated                     atomic.Int64
	meanNanos                                           atomic.Int64 // moving mean, 1/16 weight

	mu     sync.Mutex // guards what follows
	faults map[Reason]uint64
	last   *Fault // not yet logged
	silent uint64 // faults since the last logged one
}

func (c *counters) sample(d time.Duration, units int64, _ int) {
	c.lastUnits.Store(units)
	ns := d.Nanoseconds()
	if ns > c.maxNanos.Load() {
		c.maxNanos.Store(ns)
	}
	old := c.meanNanos.Load()
	if old == 0 {
		old = ns
	}
	c.meanNanos.Store(old + (ns-old)/16)
}

func (c *counters) fault(f *Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.faults == nil {
		c.faults = map[Reason]uint64{}
	}
	c.faults[f.Reason]++
	c.last = f
	c.silent++
}

// takeFault returns the last fault that was not logged and the number of those.
func (c *counters) takeFault() (*Fault, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, n := c.last, c.silent
	c.last, c.silent = nil, 0
	return f, n
}

// Stats returns the plugin's counters.
func (p *Plugin) Stats() Stats {
	c := &p.stats
	s := Stats{
		Name: p.name, Version: p.manifest.Version, Digest: p.digest,
		Calls: c.calls.Load(), Abstained: c.abstained.Load(), Busy: c.busy.Load(), Refills: c.refills.Load(),
		Recycled:    c.recycled.Load(),
		Quarantined: !p.breaker.allow(), QuarantineReason: p.breaker.reason(),
		Sliced: p.hot != nil && p.hot.sliced, UnitsPerCandidate: p.unitsPerCandidate(),
		LastUnits: c.lastUnits.Load(), LoadNanos: c.calibrated.Load(), CallNanos: float64(c.meanNanos.Load()),
		CallNanosMax: c.maxNanos.Load(),
		ObserveCalls: c.observed.Load(), Published: len(p.pubs), Faults: map[Reason]uint64{},
	}
	c.mu.Lock()
	for r, n := range c.faults {
		s.Faults[r] = n
	}
	c.mu.Unlock()
	s.Instances = p.pool.idle()
	return s
}
