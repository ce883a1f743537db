package autoscale

import (
	"slices"
	"time"
)

// resize changes the group towards a size, as far as pools and drivers allow.
func (c *Controller) resize(want int, reason string, now time.Time) {
	size := 0
	for _, m := range c.pools {
		if !m.listed {
			return // the driver's machines are not known
		}
		size += m.size()
	}
	if c.pools[0].DryRun {
		if want == c.dry {
			return // proposed before
		}
		c.dry = want
	}
	switch {
	case want > size:
		c.grow(want-size, reason, now)
	case want < size:
		c.shrink(size-want, reason, now)
	}
}

// grow returns draining endpoints to service, then orders machines, in the order of
// the pools.
func (c *Controller) grow(n int, reason string, now time.Time) {
	for _, m := range c.pools {
		for _, id := range m.returnable() {
			if n == 0 {
				return
			}
			if m.size() >= c.share(m) {
				break
			}
			c.undrain(m, id, now)
			n--
		}
	}
	for _, m := range c.pools {
		if m.Driver == nil || m.orders.blocked(now) {
			continue
		}
		k := min(n, m.Max-m.total(), c.share(m)-m.size())
		if k <= 0 {
			continue
		}
		c.report(m, Action{Time: now, Verb: VerbOrder, N: k, Reason: reason})
		if m.DryRun {
			return
		}
		m.orders.add(k, now, m.ColdStart)
		m.dirty, m.why = true, reason
		n -= k
	}
}

// share returns how many endpoints an override allows the pool.
func (c *Controller) share(m *member) int {
	if o := c.override.o; o != nil && !c.group.Shadow {
		if n, ok := o.Pools[m.Name]; ok {
			return n
		}
	}
	return MaxSize
}

// shrink cancels orders, then drains endpoints; first in pools that have more than
// an override allows, then in the last pools.
func (c *Controller) shrink(n int, reason string, now time.Time) {
	for _, m := range slices.Backward(c.pools) {
		n -= c.shrinkPool(m, min(n, m.size()-max(m.Min, c.share(m))), reason, now)
	}
	for _, m := range slices.Backward(c.pools) {
		n -= c.shrinkPool(m, min(n, m.size()-m.Min), reason, now)
	}
}

// shrinkPool removes spare endpoints from a pool and returns how many.
func (c *Controller) shrinkPool(m *member, spare int, reason string, now time.Time) (gone int) {
	if spare <= 0 {
		return 0
	}
	if len(m.orders.wait) > m.loading && !m.DryRun {
		gone = m.orders.cancel(min(spare, len(m.orders.wait)-m.loading))
	}
	if gone > 0 {
		m.dirty, m.why = true, reason
		c.report(m, Action{Time: now, Verb: VerbCancel, N: gone, Reason: reason})
	}
	for _, id := range c.choose(m, spare-gone) {
		c.beginDrain(m, id, NoSessions, now, now.Add(m.DrainTimeout), reason)
		gone++
	}
	return gone
}

// choose returns the ids of the k endpoints of a pool to remove first.
func (c *Controller) choose(m *member, k int) []string {
	var can []Node
	for i := range m.nodes {
		n := m.nodes[i]
		if m.drains[n.ID] != nil || n.Failing || n.Held {
			continue
		}
		n.Price, n.Spot = max(n.Price, m.Price), n.Spot || m.Spot
		can = append(can, n)
	}
	can = victims(can)
	if o := c.override.o; o != nil && !c.group.Shadow {
		slices.SortStableFunc(can, func(a, b Node) int {
			return -compareBool(slices.Contains(o.Victims, a.ID), slices.Contains(o.Victims, b.ID))
		})
	}
	var out []string
	for i := range can {
		if len(out) == k {
			break
		}
		out = append(out, can[i].ID)
	}
	return out
}
