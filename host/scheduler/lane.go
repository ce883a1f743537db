package scheduler

import (
	"slices"
	"sync"
)

// A lane is the set of pools that the requests of a model are placed over. Two
// decisions whose lanes have a pool in common exclude each other while they
// choose and charge; others run side by side.
//
// A lane is one lock per pool rather than one lock per set, so that it needs no
// rebuilding when a revision puts other pools together: decisions of the old
// and of the new revision that share a pool share its lock (RATIONALE.md, "Why
// does a lane lock each of its pools?").

// poolLock makes a choice among the endpoints of a pool and its charge one step.
type poolLock struct {
	mu sync.Mutex // taken in the order of pool names; before conversations.mu, homes and endpoint.Load
	_  [56]byte   // the rest of a cache line, so that two lanes do not share one
}

// lane holds the locks of its pools, in the order of the pools' names. It is
// immutable.
type lane []*poolLock

// lock excludes all other decisions over a pool of the lane.
func (l lane) lock() {
	for _, p := range l {
		p.mu.Lock()
	}
}

func (l lane) unlock() {
	for _, p := range slices.Backward(l) {
		p.mu.Unlock()
	}
}

// laneTable keeps the lock of each pool by name for the life of the process, 64
// bytes for each name that a configuration ever had. It is safe for concurrent
// use.
type laneTable struct {
	mu    sync.Mutex // guards pools
	pools map[string]*poolLock
}

// of returns the lane of pools, which must be sorted and distinct.
func (t *laneTable) of(pools []string) lane {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools == nil {
		t.pools = map[string]*poolLock{}
	}
	l := make(lane, len(pools))
	for i, name := range pools {
		if t.pools[name] == nil {
			t.pools[name] = new(poolLock)
		}
		l[i] = t.pools[name]
	}
	return l
}
