package queue

import (
	"math"
	"time"
)

const (
	// rateHalfLife is the age at which what was served counts half: long enough for a
	// dozen prompts of a busy engine, short enough to follow a fleet that grows.
	rateHalfLife = 10 * time.Second
	// rateMin is how long a lane must have been served before its rate says anything.
	rateMin = 500 * time.Millisecond
	// requestTokens is the work of a request beside its prompt, in tokens: a step of an
	// engine costs as much for one token as for 140 to 270 (A100, H100).
	requestTokens = 256
)

// rate is the work per second that a lane's requests are placed with, while requests
// wait in it. The zero rate is not known.
type rate struct {
	at   time.Time // the sums are as of then
	work float64   // tokens, decayed
	span float64   // seconds, decayed
}

// begin starts the time of a lane in which nothing waited.
func (r *rate) begin(now time.Time) { *r = rate{at: now} }

// take counts a request that was placed.
func (r *rate) take(work int, now time.Time) {
	dt := max(0, now.Sub(r.at).Seconds())
	keep := math.Exp2(-dt / rateHalfLife.Seconds())
	r.work, r.span, r.at = r.work*keep+float64(work), r.span*keep+dt, now
}

// perSecond returns the rate, 0 = not known.
func (r *rate) perSecond(now time.Time) float64 {
	span := r.span + max(0, now.Sub(r.at).Seconds())
	if r.work == 0 || span < rateMin.Seconds() {
		return 0
	}
	return r.work / span
}

// work is what a request with tokens to compute counts.
func work(tokens int) int { return min(max(tokens, 1), maxCost) + requestTokens }

// Expect returns how long a request would wait that enters now: the work that goes
// before it, at the rate at which the lane was served. Tenants take turns, so that of
// each other tenant only as much goes before as the request's own tenant has. It is false
// while the rate is not known.
func (q *Queue) Expect(w Want, now time.Time) (time.Duration, bool) {
	if q.waiting.Load() == 0 {
		return 0, false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[w.Lane]
	if l == nil {
		return 0, false
	}
	perSecond := l.rate.perSecond(now)
	if perSecond == 0 {
		return 0, false
	}
	seconds := float64(l.ahead(&w)) / perSecond
	if seconds > math.MaxInt64/float64(time.Second)/2 {
		seconds = math.MaxInt64 / float64(time.Second) / 2
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// Slow counts a request that did not enter because its wait would be too long.
func (q *Queue) Slow() { q.slow.Add(1) }

// ahead returns the work that is served before a request that enters.
func (l *lane) ahead(w *Want) (sum int) {
	for _, b := range l.bands {
		if b.priority < w.Priority {
			break
		}
		same := b.priority == w.Priority
		own := work(w.Tokens)
		if same {
			for _, t := range b.ring {
				if t.name == w.Tenant {
					own += t.work()
				}
			}
			sum += own - work(w.Tokens)
		}
		for _, t := range b.ring {
			switch {
			case same && t.name == w.Tenant:
			case same:
				sum += min(t.work(), own)
			default:
				sum += t.work()
			}
		}
	}
	return sum
}

// work is that of a tenant's waiting requests.
func (t *tenant) work() (sum int) {
	for _, w := range t.waiters {
		sum += work(w.want.Tokens)
	}
	return sum
}
