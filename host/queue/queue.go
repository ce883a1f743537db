// Package queue lets requests wait while every endpoint that could take them is at
// its limit, and decides which request tries next when a place may be free.
//
// Requests that wait for the same pools form a lane. In a lane, requests of higher
// priority go first; within a priority, tenants take turns by deficit round robin,
// charged in tokens to compute, so that one tenant's long prompts do not delay
// another's short ones (Shreedhar & Varghese, "Efficient Fair Queuing using Deficit
// Round Robin", 1995).
//
// A turn is a chance, not a place: the request that has it calls the scheduler
// again, under the rules in force then, and keeps waiting if there is still no
// place.
package queue

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/timing"
)

const (
	// quantum is what a tenant may compute per round, in tokens: a usual prompt. A
	// smaller one costs rounds and changes nothing, a larger one allows bursts.
	quantum = 8192
	// maxTries bounds the requests that try one free place one after the other: policy
	// may restrict the first ones to endpoints that are still full.
	maxTries = 8
	// maxCost bounds what one request is charged: the longest prompts there are.
	maxCost = 1 << 20
)

// Want is what a request waits for.
type Want struct {
	Lane     string   // of the pools, for instance their names
	Pools    []string // where it could go; not changed
	Tenant   string
	Priority int // higher = sooner
	Tokens   int // to compute
}

// Queue holds the requests that wait. Its methods may be called concurrently; the
// zero Queue is empty.
type Queue struct {
	waiting atomic.Int64

	mu    sync.Mutex // guards lanes, with their bands and waiters
	lanes map[string]*lane

	placed, expired, left, full, slow atomic.Uint64
	waits                             timing.Histogram
}

// Stats counts since the queue was made.
type Stats struct {
	Waiting int // now

	Placed  uint64
	Expired uint64 // that waited until their deadline
	Left    uint64 // whose clients left
	Full    uint64 // that did not enter: too many waited
	Slow    uint64 // that did not enter: the expected wait was too long
	Waits   timing.Counts
}

// Stats returns the counts.
func (q *Queue) Stats() Stats {
	return Stats{int(q.waiting.Load()), q.placed.Load(), q.expired.Load(), q.left.Load(), q.full.Load(),
		q.slow.Load(), q.waits.Load()}
}

// lane holds the requests that wait for the same pools.
type lane struct {
	name  string
	pools []string
	n     int     // requests
	rate  rate    // of placements
	late  bool    // a place became free while all requests had turns
	bands []*band // by falling priority; none is empty
}

// round is one chance that is passed from request to request of a lane.
type round struct {
	lane  *lane
	tries int // how many requests may still try
	began bool
}

// Waiter is one request that waits. It belongs to one goroutine.
type Waiter struct {
	q     *Queue
	want  Want
	cost  int
	since time.Time
	turn  chan struct{} // cap 1

	lane  *lane
	round *round // of its turn, or of the last one that was in vain; guarded by q.mu
	has   bool   // it has a turn; guarded by q.mu
}

// Enter lets a request wait. It returns nil if limit requests wait already.
func (q *Queue) Enter(w Want, limit int, now time.Time) *Waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if int(q.waiting.Load()) >= limit {
		q.full.Add(1)
		return nil
	}
	if q.lanes == nil {
		q.lanes = map[string]*lane{}
	}
	l := q.lanes[w.Lane]
	if l == nil {
		l = &lane{name: w.Lane, pools: w.Pools}
		l.rate.begin(now)
		q.lanes[w.Lane] = l
	}
	// A place that became free while the lane was empty gave no turn.
	first := l.n == 0
	x := &Waiter{q: q, want: w, cost: min(max(w.Tokens, 1), maxCost), since: now, turn: make(chan struct{}, 1), lane: l}
	l.n++
	l.put(x)
	q.waiting.Add(1)
	if first {
		q.give(&round{lane: l, tries: 1})
	}
	return x
}

// Busy reports whether requests wait in a lane that a request of this priority may
// not overtake.
func (q *Queue) Busy(name string, priority int) bool {
	if q.waiting.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lanes[name]
	return l != nil && len(l.bands) > 0 && l.bands[0].priority >= priority
}

// Oldest returns how long the request that waits longest for any of the pools has
// waited, 0 if none does.
func (q *Queue) Oldest(pools []string, now time.Time) (waited time.Duration) {
	if q.waiting.Load() == 0 {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		if !slices.ContainsFunc(l.pools, func(p string) bool { return slices.Contains(pools, p) }) {
			continue
		}
		for _, b := range l.bands {
			for _, t := range b.ring { // each in the order of arrival
				waited = max(waited, now.Sub(t.waiters[0].since))
			}
		}
	}
	return waited
}

// Wake gives a turn to the lanes of a pool, in which a place became free.
func (q *Queue) Wake(pool string) {
	if q.waiting.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		for _, p := range l.pools {
			if p == pool {
				q.chance(l)
				break
			}
		}
	}
}

// Tick gives a turn to every lane: places also become free without a call of Wake,
// when a limit is raised or an endpoint is added. It is called a few times a second.
func (q *Queue) Tick() {
	if q.waiting.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		q.chance(l)
	}
}

// chance gives a lane a turn. q.mu is held.
func (q *Queue) chance(l *lane) {
	if !q.give(&round{lane: l, tries: maxTries}) {
		l.late = true
	}
}

// give gives the turn of a round to the next request of its lane. It reports whether
// there was one. q.mu is held.
func (q *Queue) give(r *round) bool {
	if r.tries == 0 {
		return false
	}
	w := r.lane.next(r)
	if w == nil {
		return false
	}
	r.tries, r.began = r.tries-1, true
	w.round, w.has = r, true
	w.turn <- struct{}{} // has room: it has one turn at a time
	return true
}

// pass passes on the turn of w, which is over. q.mu is held.
func (q *Queue) pass(w *Waiter) {
	q.give(w.round)
	if l := w.lane; l.late && l.n > 0 {
		l.late = false
		q.chance(l)
	}
}

// Turn receives a value when it is the waiter's turn; a call of Again or Leave must
// follow.
func (w *Waiter) Turn() <-chan struct{} { return w.turn }

// Again ends a turn in which there was no place: the waiter keeps its position and
// its tenant's deficit, and the next one tries.
func (w *Waiter) Again() {
	w.q.mu.Lock()
	defer w.q.mu.Unlock()
	w.has = false
	w.q.pass(w)
}

// End is the reason for which a waiter leaves.
type End uint8

const (
	Placed  End = iota // it was placed or answered
	Expired            // its deadline has passed
	Left               // its client left
)

// Leave ends the wait. A turn that it has is passed on; if it was placed, there may
// be room for more requests.
func (w *Waiter) Leave(how End, now time.Time) {
	q := w.q
	q.mu.Lock()
	defer q.mu.Unlock()
	l := w.lane
	l.take(w, how == Placed)
	if how == Placed {
		l.rate.take(work(w.want.Tokens), now)
	}
	if l.n--; l.n == 0 {
		delete(q.lanes, l.name)
	}
	q.waiting.Add(-1)
	q.waits.Add(now.Sub(w.since))
	switch how {
	case Placed:
		q.placed.Add(1)
	case Expired:
		q.expired.Add(1)
	case Left:
		q.left.Add(1)
	}
	if !w.has {
		return
	}
	if how == Placed { // there may be room for more, even for requests that tried in vain
		w.round.tries, w.round.began = maxTries, false
	}
	q.pass(w)
}
