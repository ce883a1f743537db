package wasm

import (
	"context"
	"sync/atomic"
)

// growthLimit is the growth at which an instance is replaced, as a multiple of its
// memory after the start and of its arena. Go's heap doubles between two collections,
// and an arena that grows in powers of two leaves as much unused; a fixed limit of
// 16 MiB would be five times the initial memory of a Go guest.
const growthLimit = 4

// grown reports whether the memory of the instance exceeds growthLimit.
func (in *instance) grown() bool {
	return uint64(in.mem.Size()) > growthLimit*(uint64(in.atStart)+uint64(in.size))
}

// replacements holds an instance that replaces one that grew. A caller that returns a
// grown instance to the pool returns the replacement instead if it is ready, and the
// grown one otherwise.
type replacements struct {
	wanted atomic.Bool // an instance grew
	ready  atomic.Pointer[instance]
}

// swapGrown returns the replacement of in, which grew, or in if none is ready.
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

// makeReplacementLocked creates a replacement if one is wanted. The caller holds p.mu.
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
