package bpe

import (
	"runtime"
	"sync"
)

// pool keeps idle encoders with warm caches, at most one per CPU. A sync.Pool
// would drop them at every second garbage collection.
type pool struct {
	make func() *encoder

	mu   sync.Mutex // guards idle
	idle []*encoder // last in, first out
}

// get returns an idle encoder or a new one. It never blocks.
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
