package wasm

import (
	"math"
	"time"
)

// Fuel of one call. A unit is about one instruction: a million take 0.2 to 1 ms in the
// output of C compilers, 0.01 ms in that of Go (one loop around all blocks of a
// function, each iteration charged in full).
const (
	baseUnits   = 200_000     // minimum for any call
	hotUnits    = 2_000_000   // most for a hot call in plain form, about 1 ms
	hotUnitsMax = 128_000_000 // most for a hot call in sliced form, whatever was measured
	startBudget = 4_000_000   // start section, _initialize, alloc, configure in plain form
	startSliced = 500_000_000 // the same in sliced form
	coldBudget  = 500_000_000 // observe, idle
	// least for a hot call of a module with a runtime of its own: a collection in Go's takes 21 million (0.5 ms)
	runtimeUnits = 64_000_000
	margin       = 32        // budget of a call, as a multiple of the measured fuel
	slicedAbove  = 1_000     // units per candidate above which the sliced form is used
	slicedBytes  = 256 << 10 // modules above this begin in sliced form
	hotCallNanos = time.Millisecond
)

// budget limits the fuel of calls of one role.
type budget struct {
	fixed, per float64 // measured units: fixed + per*n
	floor      int64   // sliced form: units of about 1 ms

	units, perUnits int64 // fixed and per, rounded up
}

// of returns the budget of a call with n candidates.
func (b *budget) of(n int) int64 {
	want := b.units + b.perUnits*int64(n)
	return max(min(baseUnits+margin*want, max(hotUnits, 2*want)), b.floor)
}

// measurement is the fuel and time that calls of one role used, by batch size.
type measurement struct {
	n     []int
	units []int64
	took  []time.Duration
}

// measure sets b from smoke calls of v.
func (b *budget) measure(m *measurement, v *variant) {
	*b = budget{}
	rate := 0.0 // units per nanosecond
	for i, n := range m.n {
		if n == 0 {
			b.fixed = max(b.fixed, float64(m.units[i]))
		}
	}
	for i, n := range m.n {
		if n > 0 {
			b.per = max(b.per, (float64(m.units[i])-b.fixed)/float64(n))
		}
		if m.took[i] > 0 {
			rate = max(rate, float64(m.units[i])/float64(m.took[i]))
		}
	}
	b.units, b.perUnits = int64(math.Ceil(b.fixed)), int64(math.Ceil(b.per))
	if !v.sliced {
		return
	}
	least := int64(hotUnits)
	if v.large {
		least = runtimeUnits
	}
	b.floor = min(max(int64(rate*float64(hotCallNanos)), least), hotUnitsMax)
}
