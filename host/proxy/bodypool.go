package proxy

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Body buffers come in powers of two from 16 KB to 1 GB. A body grows with what
// has arrived, never with what Content-Length merely announces.
const (
	minClass     = 14
	maxClass     = 30
	maxBodyLimit = 1 << maxClass

	// mapClass is the class from which buffers are mapped, outside Go's heap:
	// untouched pages cost no memory, so such a buffer may have the announced size
	// at once.
	mapClass = 16 - minClass

	firstMapped  = 1 << 20  // greatest first buffer for an announced body
	firstChunked = 64 << 10 // first buffer for a body of unknown length
)

// bodyPool is the memory for the request bodies of one proxy. The zero value is
// ready. It is safe for concurrent use.
type bodyPool struct {
	heap   [mapClass]sync.Pool
	mapped [maxClass - minClass + 1]mapPool
	held   atomic.Int64 // bytes of the buffers that requests hold
}

// class returns the class of the smallest buffer that holds n bytes.
func class(n int) int { return max(bits.Len(uint(max(n, 1)-1)), minClass) - minClass }

// get returns a buffer of at least n bytes.
func (p *bodyPool) get(n int) *[]byte {
	c := class(n)
	size := 1 << (c + minClass)
	p.held.Add(int64(size))
	if c >= mapClass {
		return p.mapped[c].get(size)
	}
	if v := p.heap[c].Get(); v != nil {
		return v.(*[]byte)
	}
	b := make([]byte, size)
	return &b
}

// put takes a buffer back.
func (p *bodyPool) put(b *[]byte) {
	c := class(len(*b))
	p.held.Add(-int64(len(*b)))
	if c >= mapClass {
		p.mapped[c].put(b)
		return
	}
	p.heap[c].Put(b)
}

// trimPeriod is how long a mapped buffer must have been unused to be returned to
// the system: the buffers of a burst are gone after two periods.
const trimPeriod = time.Second

// mapPool keeps mapped buffers of one size.
type mapPool struct {
	mu    sync.Mutex // guards what follows
	free  []*[]byte
	low   int  // fewest free ones in this period
	timer bool // trim will run
}

func (p *mapPool) get(size int) *[]byte {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		p.low = min(p.low, n-1)
		p.mu.Unlock()
		return b
	}
	p.mu.Unlock()
	b := mapBytes(size)
	return &b
}

func (p *mapPool) put(b *[]byte) {
	p.mu.Lock()
	p.free = append(p.free, b)
	arm := !p.timer
	p.timer = true
	p.mu.Unlock()
	if arm {
		time.AfterFunc(trimPeriod, p.trim)
	}
}

// trim unmaps the buffers that were not used in the last period.
func (p *mapPool) trim() {
	p.mu.Lock()
	n := min(p.low, len(p.free))
	old := append([]*[]byte(nil), p.free[:n]...)
	rest := copy(p.free, p.free[n:])
	clear(p.free[rest:])
	p.free = p.free[:rest]
	p.low = rest
	p.timer = rest > 0
	again := p.timer
	p.mu.Unlock()
	for _, b := range old {
		unmapBytes(*b)
	}
	if again {
		time.AfterFunc(trimPeriod, p.trim)
	}
}
