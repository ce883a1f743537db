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

// replacements makes instances that take the place of those that grew. A caller that
// gives such a one back gives back its replacement instead, if there is one, and goes on
// with the old one otherwise.
type replacements struct {
	wanted atomic.Bool // an instance grew
	ready  atomic.Pointer[instance]
}

// swapGrown returns what is to be given back to the pool for in, which grew.
func (p *Plugin) swapGrown(in *instance) *instance {
	replacement := p.replacements.ready.Swap(nil)
	if replacement == nil {
		p.replacements.wanted.Store(true)
		p.rt.notify()
		return in
	}
	p.stats.recycled.Add(1)
	p.deadMu.Lock()
	p.dead = append(p.dead, in)
	p.deadMu.Unlock()
	p.rt.notify()
	return replacement
}

// makeReplacementLocked makes the replacement that is wanted. The caller holds p.mu.
func (p *Plugin) makeReplacementLocked(ctx context.Context) error {
	if p.hot == nil || !p.replacements.wanted.Swap(false) || p.replacements.ready.Load() != nil {
		return nil
	}
	in, err := p.instantiate(ctx, p.hot)
	if err != nil {
		return err
	}
	in.clocked = false
	p.replacements.ready.Store(in)
	return nil
}
