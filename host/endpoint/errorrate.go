package endpoint

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// errorWeight of one result: the share is over about the last 32 requests. Over
	// fewer, one failure would be 10 %; over more, an endpoint that begins to fail
	// would look healthy for long.
	errorWeight = 1. / 32
	// errorHalfLife halves the share of an endpoint that gets no requests: failures
	// that have not been repeated for minutes mean little.
	errorHalfLife = time.Minute
)

// errorRate is the moving share of failed requests. The zero errorRate is 0. It is
// safe for concurrent use; of two results at the same instant one may be lost,
// which hardly changes a moving mean.
type errorRate struct {
	share atomic.Uint32 // float32 bits, at the time when
	when  atomic.Int64  // Unix nanoseconds, 0 = nothing yet
}

// take records a result at now.
func (e *errorRate) take(failed bool, now time.Time) {
	was := e.share.Load()
	if was == 0 && !failed {
		return // the common case writes nothing
	}
	share := float64(e.at(now)) * (1 - errorWeight)
	if failed {
		share += errorWeight
	}
	if !failed && share < 1e-4 {
		share = 0
	}
	if e.share.CompareAndSwap(was, math.Float32bits(float32(share))) {
		e.when.Store(now.UnixNano())
	}
}

// retract takes back a failed result.
func (e *errorRate) retract(now time.Time) {
	was := e.share.Load()
	share := max(0, (float64(e.at(now))-errorWeight)/(1-errorWeight))
	if e.share.CompareAndSwap(was, math.Float32bits(float32(share))) {
		e.when.Store(now.UnixNano())
	}
}

// at returns the share at now.
func (e *errorRate) at(now time.Time) float32 {
	bits := e.share.Load()
	if bits == 0 {
		return 0
	}
	age := max(0, now.UnixNano()-e.when.Load())
	return math.Float32frombits(bits) * float32(math.Exp2(-float64(age)/float64(errorHalfLife)))
}
