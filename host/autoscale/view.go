package autoscale

import (
	"slices"
	"time"
)

// report adds an action to the status, audits it and logs it.
func (c *Controller) report(m *member, a Action) {
	a.Pool, a.DryRun = m.Name, m.DryRun
	c.mu.Lock()
	if n := len(c.status.Actions); n >= maxActions {
		c.status.Actions = slices.Delete(c.status.Actions, 0, n-maxActions+1)
	}
	c.status.Actions = append(c.status.Actions, a)
	c.mu.Unlock()
	if c.group.Audit != nil {
		c.group.Audit(a)
	}
	c.group.Log.Info("autoscale", "pool", a.Pool, "action", a.Verb, "n", a.N, "endpoints", a.IDs, "reason", a.Reason,
		"dry_run", a.DryRun)
}

func (c *Controller) setOverride(o *Override) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Fault, c.status.Override = "", o
}

// setFault counts a fault of the override, and reports it if it is not that of the
// previous tick.
func (c *Controller) setFault(err error, now time.Time) {
	text := err.Error()
	c.mu.Lock()
	known := c.status.Fault == text
	c.status.Fault, c.status.Override = text, nil
	c.status.Faults++
	c.mu.Unlock()
	if !known {
		c.report(c.pools[0], Action{Time: now, Verb: VerbOverride, Reason: text})
	}
}

// recordSample adds the signal to the history that overrides see.
func (c *Controller) recordSample(s *Signal, p *Proposal) {
	if n := len(c.history); n >= Samples {
		c.history = slices.Delete(c.history, 0, n-Samples+1)
	}
	c.history = append(c.history, Sample{
		AtMs: s.Now.UnixMilli(), Rate: p.Rate, Backlog: s.Backlog, QueueMs: s.QueueWait.Milliseconds(), InFlight: s.InFlight,
		KVUsage: s.KVUsage, Ready: s.Ready, Pending: s.Pending, Desired: p.Desired,
	})
}

// view returns what an override sees.
func (c *Controller) view(s *Signal, p *Proposal) *View {
	v := &View{NowMs: s.Now.UnixMilli(), History: slices.Clone(c.history), Proposal: *p}
	for _, m := range c.pools {
		v.Pools = append(v.Pools, PoolView{
			Name: m.Name, Min: m.Min, Max: m.Max, Pending: m.waiting(), Blocked: m.orders.blocked(s.Now),
			ColdMs: m.cold().Milliseconds(), Price: m.Price, Spot: m.Spot, Machines: m.machines(s.Now),
		})
	}
	c.mu.Lock()
	v.Actions = slices.Clone(c.status.Actions)
	c.mu.Unlock()
	return v
}

func (m *member) machines(now time.Time) []NodeView {
	out := make([]NodeView, 0, len(m.nodes))
	for i := range m.nodes {
		n := &m.nodes[i]
		w := NodeView{
			ID: n.ID, Ready: n.Ready, Failing: n.Failing, Drain: Serving.String(), AgeMs: now.Sub(n.Since).Milliseconds(),
			InFlight: n.InFlight,
			OldestMs: n.Oldest.Milliseconds(), Sessions: n.Sessions, Heat: n.Heat,
		}
		if d := m.drains[n.ID]; d != nil {
			w.Drain = d.stage.String()
		}
		out = append(out, w)
	}
	return out
}

// publish sets the status after a tick.
func (c *Controller) publish(s *Signal, p *Proposal, want int) {
	var pools []PoolStatus
	scarce, serve := false, false
	for _, m := range c.pools {
		x := PoolStatus{
			Name: m.Name, Min: m.Min, Max: m.Max, Ready: m.ready, Pending: m.waiting(), Draining: len(m.drains),
			Failing:   m.failing,
			NeverCame: m.orders.failed, DriverErrors: m.errs, DriverError: m.err,
			ColdStart: m.cold().Round(10 * time.Millisecond).String(), Machines: m.machines(s.Now),
		}
		if m.orders.blocked(s.Now) {
			until := m.orders.until
			x.BlockedUntil = &until
		}
		scarce = scarce || m.orders.blocked(s.Now) && want > s.Ready
		serve = serve || m.ready > 0
		pools = append(pools, x)
	}
	state := CapacityOK
	switch {
	case !serve:
		state = CapacityNone
	case scarce:
		state = CapacityScarce
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	st := &c.status
	st.Time, st.Signal, st.Proposal, st.Desired, st.Pools, st.Capacity = s.Now, *s, *p, want, pools, state
	st.Shadow, st.DryRun = c.group.Shadow, c.pools[0].DryRun
}
