package plugins

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// offPath works off the request path: it passes outcomes to plugins that observe and
// decisions to shadows, and calls idle. Its queues are bounded; when one is full, the
// outcome or decision is dropped and counted, so that requests never wait.
type offPath struct {
	m       *Manager
	ended   chan ended
	wanted  atomic.Bool   // a plugin of the rules in force observes
	ends    atomic.Uint64 // requests that ended
	full    atomic.Uint64 // outcomes dropped because ended was full
	gone    atomic.Uint64 // outcomes dropped because their endpoint was removed
	shadows shadows

	batch outcomes // of run
}

const (
	// queuedOutcomes is the length of the queue: 0.8 s of 5,000 requests/s, the time that
	// an observe that uses up its fuel may take.
	queuedOutcomes = 4096
	// flushAt and flushAfter limit a batch: a scorer learns from an outcome while the
	// burst that it belongs to goes on, and the fixed cost of a call, about a
	// microsecond, is shared by the outcomes of the batch.
	flushAt    = 64
	flushAfter = 100 * time.Millisecond
	// quietFor is the time without a finished request after which idle is called, and
	// the interval of its calls.
	quietFor = time.Second
)

func newOffPath(m *Manager) *offPath {
	o := &offPath{m: m, ended: make(chan ended, queuedOutcomes)}
	o.shadows.init()
	return o
}

// offer queues the outcome of a request. It does not block.
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

// Observe queues the outcome of a request for plugins. It does not block.
func (m *Manager) Observe(x *scheduler.Observation) { m.offPath.offer(x) }

// run processes the queues until ctx ends.
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

// observe passes the batch to the observers of the revision in force.
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
		} // the plugin counts and logs a fault, and replaces the instance
		n.Add(uint64(o.batch.out.N))
	}
}

// idle calls idle of every plugin of the revision in force.
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
