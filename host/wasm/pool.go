package wasm

import "sync"

// pool holds a plugin's free instances, the last used first: its caches are
// warm. It never makes an instance; missing ones are made by Plugin.mend.
type pool struct {
	mu     sync.Mutex // guards what follows
	free   []*instance
	out    int // with callers
	want   int
	closed bool
}

// get returns a free instance, or ErrBusy or ErrClosed.
func (p *pool) get() (*instance, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if p.closed {
		return nil, ErrClosed
	}
	if n == 0 {
		return nil, ErrBusy
	}
	in := p.free[n-1]
	p.free = p.free[:n-1]
	p.out++
	return in, nil
}

// put returns an instance from get.
func (p *pool) put(in *instance) {
	p.mu.Lock()
	p.out--
	closed := p.closed
	if !closed {
		p.free = append(p.free, in)
	}
	p.mu.Unlock()
	if closed {
		in.close()
	}
}

// add puts a fresh instance in, and closes it where none is wanted.
func (p *pool) add(in *instance) {
	p.mu.Lock()
	room := !p.closed && len(p.free)+p.out < p.want
	if room {
		p.free = append(p.free, in)
	}
	p.mu.Unlock()
	if !room {
		in.close()
	}
}

// drop tells that an instance from get is gone.
func (p *pool) drop() {
	p.mu.Lock()
	p.out--
	p.mu.Unlock()
}

// missing returns how many instances are to be made.
func (p *pool) missing() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return 0
	}
	return max(0, p.want-len(p.free)-p.out)
}

// close closes what is free; what is out is closed when it comes back.
func (p *pool) close() {
	p.mu.Lock()
	free := p.free
	p.free, p.closed = nil, true
	p.mu.Unlock()
	for _, in := range free {
		in.close()
	}
}
