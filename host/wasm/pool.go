package wasm

import (
	"slices"
	"sync"
	"sync/atomic"
)

// pool holds a plugin's free instances, the last used first: its caches are
// warm. It never creates an instance; Plugin.maintain creates missing ones.
//
// One instance lies in a slot of its own that is taken and filled by one
// atomic step, because callers of one plugin mostly come one after another
// (few requests score at one instant); the others are behind a lock.
type pool struct {
	first  atomic.Pointer[instance]
	alive  atomic.Int32 // free or with callers
	closed atomic.Bool
	want   int

	mu   sync.Mutex // guards free
	free []*instance
}

// get returns a free instance, or ErrBusy or ErrClosed.
func (p *pool) get() (*instance, error) {
	if in := p.first.Swap(nil); in != nil {
		return in, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		if p.closed.Load() {
			return nil, ErrClosed
		}
		return nil, ErrBusy
	}
	in := p.free[n-1]
	p.free = p.free[:n-1]
	return in, nil
}

// put returns an instance from get.
func (p *pool) put(in *instance) {
	if !p.first.CompareAndSwap(nil, in) {
		p.mu.Lock()
		p.free = append(p.free, in)
		p.mu.Unlock()
	}
	if p.closed.Load() { // it came back late
		p.drain()
	}
}

// putLast returns an instance from get behind all others, so that the next get
// returns another one.
func (p *pool) putLast(in *instance) {
	p.mu.Lock()
	p.free = slices.Insert(p.free, 0, in)
	p.mu.Unlock()
	if p.closed.Load() {
		p.drain()
	}
}

// add puts a fresh instance in, and closes it where none is wanted.
func (p *pool) add(in *instance) {
	in.clocked = false
	if p.closed.Load() || int(p.alive.Add(1)) > p.want {
		p.alive.Add(-1)
		in.close()
		return
	}
	p.put(in)
}

// drop counts an instance from get as lost.
func (p *pool) drop() { p.alive.Add(-1) }

// missing returns how many instances are to be made.
func (p *pool) missing() int {
	if p.closed.Load() {
		return 0
	}
	return max(0, p.want-int(p.alive.Load()))
}

// idle returns how many instances are free.
func (p *pool) idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if p.first.Load() != nil {
		n++
	}
	return n
}

// close closes the free instances; others are closed when they are returned.
func (p *pool) close() {
	p.closed.Store(true)
	p.drain()
}

func (p *pool) drain() {
	p.mu.Lock()
	free := p.free
	p.free = nil
	p.mu.Unlock()
	if in := p.first.Swap(nil); in != nil {
		free = append(free, in)
	}
	for _, in := range free {
		in.close()
	}
}
