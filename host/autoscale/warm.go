package autoscale

import (
	"context"
	"time"
)

// Warmer is a Driver that prepares a machine before it takes requests: it loads
// adapters, or sends the prompts that most requests begin with. Warm is called once
// for each machine that was ordered, when it is ready for the first time, and
// bounded by Config.WarmTimeout; after that the machine serves, whether Warm failed
// or not. It may be called by several goroutines at once.
type Warmer interface {
	Warm(ctx context.Context, pool string, m Machine) error
}

// warmed is the end of a call of Warm.
type warmed struct {
	id  string
	err error
}

// warm has the driver prepare machines that became ready, unless no other endpoint
// serves: then they serve at once.
func (c *Controller) warm(ctx context.Context, now time.Time) {
	for _, m := range c.pools {
		c.endWarm(m, now)
		fresh := m.fresh
		m.fresh = nil
		w, ok := m.Driver.(Warmer)
		if !ok || m.WarmTimeout == 0 || m.DryRun || len(fresh) == 0 || !c.othersServe(fresh) {
			continue
		}
		for _, id := range fresh {
			m.warming[id] = true
			c.group.Fleet.Drain(m.Name, id, NoRequests)
			c.callWarm(ctx, m, w, id)
		}
	}
}

// othersServe reports whether any endpoint serves that is not in fresh.
func (c *Controller) othersServe(fresh []string) bool {
	n := -len(fresh)
	for _, m := range c.pools {
		n += m.ready - len(m.warming)
	}
	return n > 0
}

func (c *Controller) callWarm(ctx context.Context, m *member, w Warmer, id string) {
	run := func() {
		ctx, cancel := context.WithTimeout(ctx, m.WarmTimeout)
		defer cancel()
		m.warmed <- warmed{id, w.Warm(ctx, m.Name, Machine{ID: id})}
	}
	if c.group.Inline {
		run()
		return
	}
	c.calls.Go(run)
}

// endWarm puts machines into service whose warming has ended.
func (c *Controller) endWarm(m *member, now time.Time) {
	for {
		select {
		case d := <-m.warmed:
			delete(m.warming, d.id)
			if m.drains[d.id] == nil {
				c.group.Fleet.Drain(m.Name, d.id, Serving)
			}
			if d.err != nil {
				c.report(m, Action{Time: now, Verb: VerbDriver, IDs: []string{d.id}, Reason: "warm: " + d.err.Error()})
			}
		default:
			return
		}
	}
}
