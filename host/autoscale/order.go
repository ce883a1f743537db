package autoscale

import "time"

// pending is one machine that was ordered and is not ready.
type pending struct {
	since    time.Time
	deadline time.Time
}

// orders are the machines that a pool waits for, the oldest first, and how well the
// driver has fulfilled orders.
type orders struct {
	wait   []pending
	cold   coldStarts
	fails  int       // orders in a row that were not fulfilled
	until  time.Time // no further order before
	failed int       // machines that were never ready, in all
}

// Back-off after machines were not ready in time or the driver refused. One minute:
// less would retry an exhausted zone all the time; fifteen: capacity returns within
// hours.
const (
	leastBackoff = time.Minute
	mostBackoff  = 15 * time.Minute
)

// backoff delays further orders.
func (o *orders) backoff(now time.Time) {
	d := mostBackoff
	if o.fails < 4 {
		d = leastBackoff << o.fails
	}
	o.fails++
	o.until = now.Add(d)
}

func (o *orders) blocked(now time.Time) bool { return now.Before(o.until) }

// add records n ordered machines. They are given up after twice the time that
// nine in ten took.
func (o *orders) add(n int, now time.Time, assumed time.Duration) {
	cold := o.cold.quantile(0.9)
	if cold == 0 {
		cold = assumed
	}
	d := now.Add(max(2*cold, time.Minute))
	for range n {
		o.wait = append(o.wait, pending{now, d})
	}
}

// arrived records n machines that became ready: the oldest orders are fulfilled.
func (o *orders) arrived(n int, now time.Time) {
	for range min(n, len(o.wait)) {
		o.cold.add(now.Sub(o.wait[0].since))
		o.wait = o.wait[1:]
		o.fails, o.until = 0, time.Time{}
	}
}

// expire gives up overdue orders and returns how many machines they were.
func (o *orders) expire(now time.Time) int {
	n := 0
	for len(o.wait) > 0 && now.After(o.wait[0].deadline) {
		o.wait = o.wait[1:]
		n++
	}
	if n > 0 {
		o.failed += n
		o.backoff(now)
	}
	return n
}

// cancel cancels the n youngest orders, or all if there are fewer, and returns how
// many it cancelled.
func (o *orders) cancel(n int) int {
	n = max(0, min(n, len(o.wait))) // more may load than were ordered
	o.wait = o.wait[:len(o.wait)-n]
	return n
}
