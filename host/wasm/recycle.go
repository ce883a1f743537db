package wasm

import (
	"context"
	"sync/atomic"
)

// growthLimit is how many times what an instance had after its start, and what
// its arena takes, its memory may grow to before another takes its place. Go's
// heap doubles between two collections, an arena that grows in powers of two
// leaves as much behind; a limit of 16 MiB would be five starts of a Go guest.
const growthLimit = 4

// grown tells whether the instance holds more memory than its work explains.
func (in *instance) grown() bool {
	return uint64(in.mem.Size()) > growthLimit*(uint64(in.atStart)+uint64(in.size))
}

// heirs makes instances that take the place of those that grew. A caller that
// gives such a one back gives back its heir instead, if there is one, and goes on
// with the old one otherwise.
type heirs struct {
	wanted atomic.Bool // an instance grew
	ready  atomic.Pointer[instance]
}

// succeed returns what is to be given back to the pool for in, which grew.
func (p *Plugin) succeed(in *instance) *instance {
	heir := p.heirs.ready.Swap(nil)
	if heir == nil {
		p.heirs.wanted.Store(true)
		p.rt.notify()
		return in
	}
	p.stats.recycled.Add(1)
	p.deadMu.Lock()
	p.dead = append(p.dead, in)
	p.deadMu.Unlock()
	p.rt.notify()
	return heir
}

// makeHeirLocked makes the heir that is wanted. The caller holds p.mu.
func (p *Plugin) makeHeirLocked(ctx context.Context) error {
	if p.hot == nil || !p.heirs.wanted.Swap(false) || p.heirs.ready.Load() != nil {
		return nil
	}
	in, err := p.instantiate(ctx, p.hot)
	if err != nil {
		return err
	}
	in.clocked = false
	p.heirs.ready.Store(in)
	return nil
}
