package virtual

import "time"

// event is something that happens at a time: a request arrives, an engine's step
// ends, or a change takes effect.
type event struct {
	at      time.Duration
	seq     uint64 // order among events of one time
	request *Request
	engine  *engine
	change  *Change
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue is a binary heap of events, the earliest first. container/heap would
// allocate for each.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) push(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	h := q.heap
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(&h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *queue) pop() event {
	h := q.heap
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], event{}
	q.heap = h[:last]
	h = q.heap
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(h) {
			return first
		}
		if down+1 < len(h) && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&h[i]) {
			return first
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
}
