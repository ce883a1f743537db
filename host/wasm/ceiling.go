package wasm

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// defaultCallTime is the processor time that a call of a hot role with
// ceilingCandidates may take. A scorer in C takes 1 to 20 µs there, one of Go's
// standard toolchain 20 to 60, with a collection of garbage 500. Less would refuse
// useful plugins on a slow machine; at 2 ms one processor places 500 requests a second,
// and a profile may have several plugins.
const (
	defaultCallTime   = 2 * time.Millisecond
	ceilingCandidates = 64
)

// How a plugin that became slow is detected. One call in sampleEvery (plain form) or
// sampleSliced (sliced form) is sampled by the clock. After a call that took more than
// half of its ceiling or used much more fuel than measured, the next watchCalls calls are
// timed. A
// plugin goes into quarantine after slowCalls timed calls over the ceiling, less those
// below it; a call far over it counts as slowCalls. The processor time of the thread is
// measured, so that waiting for a processor does not count.
const (
	sampleSliced = 8
	watchCalls   = 64
	slowCalls    = 3
	farOver      = 16 // times the ceiling
	suspectUnits = 4  // times what was measured
	suspectLeast = baseUnits / 2
)

// plainTime is the longest time that a call with the largest smoke batch may take in
// plain form, which cannot be preempted and delays a garbage collection.
const plainTime = 250 * time.Microsecond

// Ceiling returns the processor time that a call with n candidates may take.
func (p *Plugin) Ceiling(n int) time.Duration {
	return p.opt.CallTime * time.Duration(max(1, (n+ceilingCandidates-1)/ceilingCandidates))
}

// watch detects calls that take too long.
type watch struct {
	left atomic.Int32 // calls yet to be timed one after another
	over atomic.Int32 // timed calls over the ceiling, less those below it
}

// due reports whether a call is to be timed although it is not sampled.
func (w *watch) due() bool { return w.left.Load() > 0 && w.left.Add(-1) >= 0 }

// suspect makes the next calls timed.
func (w *watch) suspect() { w.left.Store(watchCalls) }

// record records the time of a call and reports whether the plugin is too slow.
func (w *watch) record(took, ceiling time.Duration) (slow bool) {
	if took > ceiling/2 {
		w.suspect()
	}
	if took <= ceiling {
		if n := w.over.Load(); n > 0 {
			w.over.CompareAndSwap(n, n-1)
		}
		return false
	}
	by := int32(1)
	if took > farOver*ceiling {
		by = slowCalls
	}
	if w.over.Add(by) < slowCalls {
		return false
	}
	w.over.Store(0)
	return true
}

// suspicious returns the units above which a call with n candidates is to be timed.
func (b *budget) suspicious(n int) int64 {
	return max(suspectLeast, suspectUnits*(b.units+b.perUnits*int64(n)))
}

// sampled runs a role and records the elapsed time, which is cheaper to read than the
// processor time. A long call makes the next calls timed.
func (p *Plugin) sampled(in *instance, r Role, n int, budget int64) error {
	t := time.Now()
	err := in.run(r, budget)
	took := time.Since(t)
	p.stats.sample(took, in.used(), n)
	if took > p.Ceiling(n)/2 {
		p.watch.suspect()
	}
	return err
}

// timed runs a role and compares its processor time with the ceiling.
func (p *Plugin) timed(in *instance, r Role, n int, budget int64) error {
	t := time.Now()
	cpu, err := in.processorTime(r, budget)
	p.stats.sample(time.Since(t), in.used(), n)
	if ceiling := p.Ceiling(n); p.watch.record(cpu, ceiling) && err == nil {
		return &Fault{Plugin: p.name, Reason: ReasonTime,
			Detail: fmt.Sprintf("calls take too long: the last took %v of processor time with %d candidates, at most %v",
				cpu.Round(time.Microsecond), n, ceiling)}
	}
	return err
}

// processorTime runs a role and returns the processor time that it took.
func (in *instance) processorTime(r Role, budget int64) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime()
	err := in.run(r, budget)
	return threadTime() - began, err
}

// timings is the number of calls that are timed at load. Their median is used.
const timings = 7

// timeRoles returns the most that the median call of a hot role takes with n
// candidates, and the role. An error is that of a call.
func (p *Plugin) timeRoles(in *instance, n int) (most time.Duration, slowest Role, err error) {
	for r := Filter; r <= Pick; r++ {
		if !p.Has(r) {
			continue
		}
		took, err := p.timeRole(in, r, n)
		if err != nil {
			return 0, r, err
		}
		if took > most {
			most, slowest = took, r
		}
	}
	return most, slowest, nil
}

// timeRole returns the median time of several calls, of three if they are slow.
func (p *Plugin) timeRole(in *instance, r Role, n int) (time.Duration, error) {
	var took []time.Duration
	for i := range timings {
		b := SmokeBatch(n, uint64(1000+i))
		err := p.once(in, r, b)
		if err != nil && !errors.Is(err, ErrAbstain) {
			if f, ok := errors.AsType[*Fault](err); ok {
				f.Role = r.String()
			}
			return 0, err
		}
		took = append(took, in.took)
		if i == 2 && slices.Min(took) > p.Ceiling(n) {
			break
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// checkTime returns an error if the calls of a plugin take more than their ceiling.
func (p *Plugin) checkTime(in *instance) error {
	took, r, err := p.timeRoles(in, ceilingCandidates)
	if err != nil {
		return err
	}
	p.stats.calibrated.Store(took.Nanoseconds())
	if ceiling := p.Ceiling(ceilingCandidates); took > ceiling {
		return fmt.Errorf("a call of %v with %d candidates takes %v of processor time, at most %v: make it faster, or "+
			"raise limits.call of the plugin",
			r, ceilingCandidates, took.Round(time.Microsecond), ceiling)
	}
	return nil
}
