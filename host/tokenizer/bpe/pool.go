package bpe

import (
	"runtime"
	"sync"
)

// pool keeps idle encoders, whose caches are warm: one for each CPU at most.
// A sync.Pool would empty them at every second collection.
type pool struct {
	make func() *encoder

	mu   sync.Mutex // guards idle
	idle []*encoder // the last one used is the next one taken
}

// get returns an idle encoder or a new one; it never waits.
func (p *pool) get() *encoder {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		e := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return e
	}
	p.mu.Unlock()
	return p.make()
}

func (p *pool) put(e *encoder) {
	p.mu.Lock()
	if len(p.idle) < runtime.GOMAXPROCS(0) {
		p.idle = append(p.idle, e)
	}
	p.mu.Unlock()
}
