package quota

import (
	"math"
	"time"
)

// bucket is what has been taken of a budget per minute and has not come back yet. It
// is guarded by account.mu.
type bucket struct {
	used  float64 // ≥ 0; may exceed the limit, as debt
	rate  float64 // per second, of the last limit
	at    time.Time
	valid bool // at is set
}

// fill gives back what has come back since the last call.
func (b *bucket) fill(limit int, now time.Time) {
	if b.valid {
		if d := now.Sub(b.at).Seconds(); d > 0 {
			b.used = max(0, b.used-d*b.rate)
			b.at = now
		}
	} else {
		b.at, b.valid = now, true
	}
	b.rate = float64(limit) / 60
}

// refill is fill with the limit unchanged.
func (b *bucket) refill(now time.Time) { b.fill(int(b.rate*60+0.5), now) }

// wait returns how long until n more fit, 0 = they fit.
func (b *bucket) wait(n, limit int) time.Duration {
	over := b.used + float64(n) - float64(limit)
	if over <= 1e-9 {
		return 0
	}
	return time.Duration(math.Ceil(over/b.rate*1e3-1e-6)) * time.Millisecond
}

func (b *bucket) remaining(limit int) Remaining {
	if limit <= 0 {
		return Remaining{}
	}
	r := Remaining{Limit: limit, Left: max(0, int(float64(limit)-b.used+1e-9))}
	if b.used > 0 {
		r.Reset = time.Duration(b.used / b.rate * float64(time.Second)).Round(time.Millisecond)
	}
	return r
}

// idle reports whether all that was taken has come back.
func (b *bucket) idle(now time.Time) bool {
	return b.used <= 0 || now.Sub(b.at).Seconds()*b.rate >= b.used
}
