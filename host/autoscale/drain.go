package autoscale

import (
	"slices"
	"time"
)

// sessionTime bounds how long a draining endpoint still serves the sessions it
// has: long enough for a turn or two of an agent, short compared with the price
// of the machine.
const sessionTime = 30 * time.Second

// drain moves draining endpoints to their next stage, and begins to drain endpoints
// that fail or were given notice.
func (c *Controller) drain(now time.Time) {
	c.applyNotices(now)
	for _, m := range c.pools {
		c.drainFailing(m, now)
		for i := range m.nodes {
			n := &m.nodes[i]
			d := m.drains[n.ID]
			if d == nil || d.stage == NoRequests {
				continue
			}
			if n.Sessions == 0 || now.Sub(d.since) >= min(sessionTime, m.DrainTimeout/4) {
				c.stage(m, n.ID, d, NoRequests)
			}
		}
	}
}

// drainFailing begins to drain one endpoint that has failed for long.
func (c *Controller) drainFailing(m *member, now time.Time) {
	if m.Driver == nil || m.DryRun {
		return
	}
	for i := range m.nodes {
		if n := &m.nodes[i]; n.Failing && m.drains[n.ID] == nil {
			c.beginDrain(m, n.ID, NoRequests, now, now, "failing")
			return
		}
	}
}

// applyNotices begins to drain the endpoints that were given notice.
func (c *Controller) applyNotices(now time.Time) {
	c.mu.Lock()
	all := c.notices
	c.notices = nil
	c.mu.Unlock()
	for _, x := range all {
		for _, m := range c.pools {
			if m.Name != x.pool || !slices.ContainsFunc(m.nodes, func(n Node) bool { return n.ID == x.id }) {
				continue
			}
			if m.drains[x.id] == nil {
				c.beginDrain(m, x.id, NoRequests, now, x.deadline, "notice: its machine will be taken away")
			}
			if d := m.drains[x.id]; d != nil {
				d.final = true
			}
		}
	}
}

// beginDrain begins to drain an endpoint at a stage.
func (c *Controller) beginDrain(m *member, id string, stage Drain, now, deadline time.Time, reason string) {
	c.report(m, Action{Time: now, Verb: VerbDrain, N: 1, IDs: []string{id}, Reason: reason})
	if m.DryRun {
		return
	}
	d := &draining{since: now, deadline: deadline, stage: Serving}
	m.drains[id] = d
	m.count()
	c.stage(m, id, d, stage)
}

func (c *Controller) stage(m *member, id string, d *draining, s Drain) {
	d.stage = s
	c.group.Fleet.Drain(m.Name, id, s)
}

// undrain brings an endpoint back into service.
func (c *Controller) undrain(m *member, id string, now time.Time) {
	delete(m.drains, id)
	m.count()
	c.group.Fleet.Drain(m.Name, id, Serving)
	c.report(m, Action{Time: now, Verb: VerbUndrain, N: 1, IDs: []string{id}, Reason: "needed again"})
}

// drained lists the endpoints that can be removed, and those whose removal was
// ordered and is not done.
func (m *member) drained(now time.Time) []string {
	var out []string
	for i := range m.nodes {
		n := &m.nodes[i]
		d := m.drains[n.ID]
		if d == nil || d.stage != NoRequests {
			continue
		}
		if n.Held && !d.final && !d.removing {
			continue
		}
		if d.removing || n.InFlight == 0 || !now.Before(d.deadline) {
			out = append(out, n.ID)
		}
	}
	return out
}

// returnable lists the draining endpoints that can serve again, those with the most
// cached tokens first.
func (m *member) returnable() []string {
	var back []Node
	for i := range m.nodes {
		n := m.nodes[i]
		if d := m.drains[n.ID]; d != nil && !d.final && !d.removing && n.Ready && !n.Failing {
			back = append(back, n)
		}
	}
	back = victims(back)
	slices.Reverse(back)
	out := make([]string, len(back))
	for i := range back {
		out[i] = back[i].ID
	}
	return out
}
