package plugins

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// offPath is the actor behind the request path: it hands outcomes to plugins
// that observe, decisions to shadows, and time to plugins that want it. What
// comes faster than it works is dropped and counted; requests never wait.
type offPath struct {
	m       *Manager
	ended   chan ended
	wanted  atomic.Bool   // a plugin of the rules in force observes
	ends    atomic.Uint64 // requests that ended
	full    atomic.Uint64 // outcomes dropped because ended was full
	gone    atomic.Uint64 // outcomes dropped because their endpoint is no more
	shadows shadows

	batch outcomes // of run
}

const (
	// queuedOutcomes is how many outcomes may wait: 0.8 s of 5,000 requests/s, the
	// time an observe that uses up its fuel may take.
	queuedOutcomes = 4096
	// flushAt and flushAfter bound a batch: an outcome that a scorer is to learn
	// from is told while the burst it belongs to goes on, and a call, which costs
	// about a microsecond before the first outcome, is shared by as many as came.
	flushAt    = 64
	flushAfter = 100 * time.Millisecond
	// quietFor is how long no request may have ended before plugins get time for
	// maintenance, and how often they get it then.
	quietFor = time.Second
)

func newOffPath(m *Manager) *offPath {
	o := &offPath{m: m, ended: make(chan ended, queuedOutcomes)}
	o.shadows.init()
	return o
}

// offer takes what came of a request. It does not block.
func (o *offPath) offer(x *scheduler.Observation) {
	o.ends.Add(1)
	if !o.wanted.Load() {
		return
	}
	select {
	case o.ended <- endedOf(x, o.m.now()):
	default:
		o.full.Add(1)
	}
}

// Observe takes what came of a request. It does not block.
func (m *Manager) Observe(x *scheduler.Observation) { m.offPath.offer(x) }

// run works until ctx ends.
func (o *offPath) run(ctx context.Context) error {
	flush := time.NewTimer(flushAfter)
	flush.Stop()
	quiet := time.NewTicker(quietFor)
	defer quiet.Stop()
	var last uint64
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-o.ended:
			switch o.batch.add(e) {
			case 1:
				flush.Reset(flushAfter)
			case flushAt:
				flush.Stop()
				o.observe()
			}
		case <-flush.C:
			o.observe()
		case j := <-o.shadows.jobs:
			o.shadows.score(j)
		case <-quiet.C:
			if n := o.ends.Load(); n != last {
				last = n
				continue
			}
			o.idle()
		}
	}
}

// observe tells the plugins of the rules in force of the batch.
func (o *offPath) observe() {
	set, _, release := o.m.rules.Current()
	defer release()
	defer o.batch.reset()
	observers := set.observers
	if len(observers) == 0 {
		return
	}
	o.gone.Add(o.batch.fill(o.m.endpoints.Load(), o.m.now()))
	if o.batch.out.N == 0 {
		return
	}
	for _, p := range observers {
		n := &p.unobserved
		err := p.rest.call(o.m.now, func() error { return p.Observe(&o.batch.out) })
		if err == nil || errors.Is(err, wasm.ErrAbstain) {
			n = &p.observed
		} // a fault is counted, logged and put right by the plugin
		n.Add(uint64(o.batch.out.N))
	}
}

// idle gives every plugin of the rules in force time for maintenance.
func (o *offPath) idle() {
	set, _, release := o.m.rules.Current()
	defer release()
	seen := map[*plugin]bool{}
	for _, p := range set.plugins {
		if !seen[p] && p.Has(wasm.Idle) {
			_ = p.rest.call(o.m.now, func() error { return p.Idle(o.m.now()) }) // as in observe
		}
		seen[p] = true
	}
}
