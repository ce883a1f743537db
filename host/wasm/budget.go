package wasm

import "time"

// Fuel of one call. A unit is about one instruction: a million take 0.2 to
// 1 ms in code as C compilers write it, 0.01 ms as Go's does (one loop around
// all blocks of a function, each turn of it paid in full).
const (
	baseUnits    = 200_000     // what any call may use
	hotUnits     = 2_000_000   // most for a hot call in plain form, about 1 ms
	hotUnitsMax  = 128_000_000 // most for a hot call in sliced form, whatever was measured
	startBudget  = 4_000_000   // start section, _initialize, alloc, configure in plain form
	startSliced  = 500_000_000 // the same in sliced form
	coldBudget   = 500_000_000 // observe, idle
	margin       = 32          // a call may use this many times what was measured
	slicedAbove  = 1_000       // units per candidate above which the sliced form is used
	slicedBytes  = 256 << 10   // modules above this begin in sliced form
	hotCallNanos = time.Millisecond
)

// budget is what calls of one role may use.
type budget struct {
	fixed, per float64 // measured units: fixed + per*n
	floor      int64   // sliced form: units of about 1 ms
}

// of returns the budget of a call with n candidates.
func (b *budget) of(n int) int64 {
	want := b.fixed + b.per*float64(n)
	most := max(hotUnits, 2*want)
	return max(int64(min(baseUnits+margin*want, most)), b.floor)
}

// measure sets b from the units and times of smoke calls with sizes n.
func (b *budget) measure(n []int, units []int64, took []time.Duration, sliced bool) {
	b.fixed, b.per, b.floor = 0, 0, 0
	rate := 0.0 // units per nanosecond
	for i := range n {
		if n[i] == 0 {
			b.fixed = max(b.fixed, float64(units[i]))
		}
	}
	for i := range n {
		if n[i] > 0 {
			b.per = max(b.per, (float64(units[i])-b.fixed)/float64(n[i]))
		}
		if took[i] > 0 {
			rate = max(rate, float64(units[i])/float64(took[i]))
		}
	}
	if sliced {
		b.floor = min(max(int64(rate*float64(hotCallNanos)), hotUnits), hotUnitsMax)
	}
}
