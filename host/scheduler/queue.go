package scheduler

import "time"

// Queue says how requests of a profile wait while every endpoint that could take
// them is at its cap.
type Queue struct {
	Deadline time.Duration // longest wait, 0 = they are refused at once
	Limit    int           // requests that may wait, of all profiles
}

// Wait says what a request that was refused for capacity may wait for.
type Wait struct {
	Queue
	Lane     string   // the pools by name
	Pools    []string // the same; must not be changed
	Priority int      // higher = sooner
	Tokens   int      // to compute where it would cost least
}

// waits reports whether the request waits although there is a place: others that
// may not be overtaken wait for it.
func (d *decision) mustQueue() bool {
	r := d.r
	return r.Behind != nil && d.mode == modePlace && d.prof.Queue.Deadline > 0 && r.Behind(d.model.queue, d.dec.Priority)
}

// full returns the refusal of a request that no endpoint has room for.
func (d *decision) capacityRefusal() *DeniedError {
	err := errCapacity()
	if !d.r.MayWait || d.prof.Queue.Deadline <= 0 {
		return err
	}
	tokens := float32(d.tokens)
	for i := range d.cands {
		if c := &d.cands[i]; c.state == candKept || c.why == reasonCap {
			tokens = min(tokens, c.uncached)
		}
	}
	err.Wait = &Wait{Queue: d.prof.Queue, Lane: d.model.queue, Pools: d.model.poolNames, Priority: d.dec.Priority, Tokens: int(tokens)}
	return err
}
