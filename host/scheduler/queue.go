package scheduler

import "time"

// Queue reports how long requests of a profile wait while every eligible endpoint is at
// its cap.
type Queue struct {
	Deadline time.Duration // longest wait, 0 = they are refused at once
	// MaxDelay is the longest expected wait with which a request enters the queue; 0 =
	// any.
	MaxDelay time.Duration
	Limit    int // requests that may wait, of all profiles
}

// Wait is what a request that was refused for capacity may wait for.
type Wait struct {
	Queue
	Lane     string   // name of the queue: Pools, joined
	Pools    []string // sorted; must not be changed
	Priority int      // higher = sooner
	Tokens   int      // to compute on the endpoint that has most of the prompt
}

// mustQueue reports whether the request has to wait although there is a place, because
// requests that go first wait for it.
func (d *decision) mustQueue() bool {
	r := d.r
	return r.Behind != nil && d.mode == modePlace && d.prof.Queue.Deadline > 0 && r.Behind(d.model.queue, d.dec.Priority)
}

// capacityRefusal returns the refusal of a request for which every endpoint is at its
// cap.
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
	err.Wait = &Wait{Queue: d.prof.Queue, Lane: d.model.queue, Pools: d.model.poolNames,
		Priority: d.dec.Priority, Tokens: int(tokens)}
	return err
}
