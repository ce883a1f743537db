package scheduler

import (
	"sync"
	"sync/atomic"
)

// waitingShards keeps requests that begin at once from waiting for one lock.
const waitingShards = 16

// waitingLists are the placements whose first token has not come, for
// State.Refresh. They are safe for concurrent use; their locks are leaves.
type waitingLists struct {
	seq    atomic.Uint64 // placements ever pushed
	shards [waitingShards]struct {
		mu   sync.Mutex // guards the fields below and the links of the placements
		head *Placement
		_    [48]byte // the rest of a cache line
	}
}

// waitingRef is a placement and which use of its memory is meant.
type waitingRef struct {
	p   *Placement
	seq uint64
}

// push adds p and numbers it.
func (l *waitingLists) push(p *Placement) {
	seq := l.seq.Add(1)
	s := &l.shards[seq%waitingShards]
	s.mu.Lock()
	p.seq = seq
	p.prev, p.next = nil, s.head
	if s.head != nil {
		s.head.prev = p
	}
	s.head = p
	s.mu.Unlock()
}

func (l *waitingLists) remove(p *Placement) {
	s := &l.shards[p.seq%waitingShards]
	s.mu.Lock()
	if p.prev != nil {
		p.prev.next = p.next
	} else if s.head == p {
		s.head = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	}
	p.prev, p.next = nil, nil
	s.mu.Unlock()
}

// all returns the placements that are in the lists.
func (l *waitingLists) all() []waitingRef {
	var out []waitingRef
	for i := range l.shards {
		s := &l.shards[i]
		s.mu.Lock()
		for p := s.head; p != nil; p = p.next {
			out = append(out, waitingRef{p, p.seq})
		}
		s.mu.Unlock()
	}
	return out
}
