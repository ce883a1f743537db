package wasm

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/abi"
)

// published is one column that observe publishes, by endpoint. It is written
// by one plugin at a time and read by any number of callers.
type published struct {
	name string
	def  float32
	refs int // publishers and readers that are loaded; guarded by board.mu

	// cells is by slot: epoch<<32 | bits of the value, 0 = never published. A value of
	// another epoch of the slot is ignored.
	cells [1 << abi.EndpointSlotBits]atomic.Uint64
}

func cell(id uint32, bits uint32) uint64 {
	return uint64(id>>abi.EndpointSlotBits+1)<<32 | uint64(bits)
}

func (p *published) set(id uint32, v float32) {
	p.cells[id&(1<<abi.EndpointSlotBits-1)].Store(cell(id, math.Float32bits(v)))
}

// read fills dst with the values of the endpoints ids; ids may be nil.
func (p *published) read(dst []uint32, ids []uint32, def uint32) {
	for i := range dst {
		dst[i] = def
		if i < len(ids) {
			id := ids[i]
			if c := p.cells[id&(1<<abi.EndpointSlotBits-1)].Load(); c>>32 == uint64(id>>abi.EndpointSlotBits+1) {
				dst[i] = uint32(c)
			}
		}
	}
}

// board is a runtime's published columns by name. A column lives as long as a
// plugin that publishes or reads it, so that a swap keeps its values.
type board struct {
	mu   sync.Mutex // guards cols and published.refs
	cols map[string]*published
}

// open returns the column name. Only a publisher makes it; for others ok is
// false if no plugin publishes it. The caller must release it.
func (b *board) open(name string, def float32, publisher bool) (p *published, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p = b.cols[name]
	if p == nil {
		if !publisher {
			return nil, false
		}
		p = &published{name: name, def: def}
		b.cols[name] = p
	}
	p.refs++
	return p, true
}

// defaults returns the published columns with their defaults.
func (b *board) defaults() map[string]float32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]float32{}
	for name, p := range b.cols {
		out[name] = p.def
	}
	return out
}

func (b *board) release(p *published) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.refs--; p.refs == 0 {
		delete(b.cols, p.name)
	}
}
