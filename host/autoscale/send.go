package autoscale

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// result is the result of a call of a driver.
type result struct {
	order  *Order // nil = List
	answer *Answer
	err    error
}

// Delays between attempts of one order, and the failures after which it is given up
// so that another pool can take it.
const (
	leastRetry = time.Second
	mostRetry  = time.Minute
	giveUp     = 5

	// relistEvery is how often a driver is asked for machines that it has accepted
	// the order of and whose address it has not reported.
	relistEvery = 10 * time.Second
	// goneTime is how long a driver may still report a machine that was removed.
	goneTime = 2 * time.Minute
)

// send calls the drivers of pools that changed.
func (c *Controller) send(ctx context.Context, now time.Time) {
	for _, m := range c.pools {
		if m.Driver == nil || m.called || now.Before(m.retry) {
			continue
		}
		switch {
		case !m.listed:
			c.call(ctx, m, nil, now)
		case m.DryRun:
		default:
			m.plan(c.group.Fence, now)
			if m.need != nil {
				c.call(ctx, m, m.need, now)
			} else if m.lists && len(m.orders.wait) > m.loading && now.Sub(m.asked) >= relistEvery {
				c.call(ctx, m, nil, now)
			}
		}
	}
}

// plan makes the next order, if anything changed. An order that was not accepted is
// replaced only by one of another size: orders are absolute, so nothing is lost.
func (m *member) plan(fence uint64, now time.Time) {
	remove := m.drained(now)
	if m.need != nil && len(remove) <= len(m.need.Remove) && m.need.Desired == m.total()-len(m.need.Remove) {
		return
	}
	if !m.dirty && len(remove) == 0 {
		return
	}
	for _, id := range remove {
		m.drains[id].removing = true
	}
	why := "drained"
	if m.dirty {
		why = m.why
	}
	m.seq++
	m.need = &Order{
		Key: fmt.Sprintf("%s-%d-%d", m.Name, fence, m.seq), Pool: m.Name, Fence: fence,
		Desired: m.total() - len(remove), Remove: remove, Current: m.ids(), Reason: why,
	}
	m.dirty = false
}

// call calls the driver, in a goroutine of its own unless the group is inline.
func (c *Controller) call(ctx context.Context, m *member, o *Order, now time.Time) {
	m.called, m.asked = true, now
	run := func() {
		ctx, cancel := context.WithTimeout(ctx, m.DriverTimeout)
		defer cancel()
		r := result{order: o}
		if o == nil {
			r.answer, r.err = m.Driver.List(ctx, m.Name)
		} else {
			r.answer, r.err = m.Driver.Apply(ctx, o)
		}
		m.result <- r
	}
	if c.group.Inline {
		run()
		c.finishCall(m, <-m.result, now)
		return
	}
	c.calls.Go(run)
}

// finishCalls handles the results of calls that have ended.
func (c *Controller) finishCalls(now time.Time) {
	for _, m := range c.pools {
		select {
		case r := <-m.result:
			c.finishCall(m, r, now)
		default:
		}
	}
}

func (c *Controller) finishCall(m *member, r result, now time.Time) {
	m.called = false
	if r.err != nil {
		c.failed(m, r.order, r.err, now)
		return
	}
	m.tries, m.retry, m.err = 0, time.Time{}, ""
	if m.lists = r.answer != nil && r.answer.Machines != nil; m.lists {
		c.adopt(m, r, now)
	}
	if r.order == nil {
		if m.listed {
			return
		}
		m.listed = true
		m.update(c.group.Fleet.Nodes(m.Name), now)
		m.adoptLoading(now)
		return
	}
	if m.need == r.order {
		m.need = nil
	}
	for _, id := range r.order.Remove {
		c.group.Fleet.Remove(m.Name, id)
		delete(m.drains, id)
		delete(m.seen, id)
		m.gone[id] = now
		m.nodes = slices.DeleteFunc(m.nodes, func(n Node) bool { return n.ID == id })
	}
	if len(r.order.Remove) > 0 {
		c.report(m, Action{Time: now, Verb: VerbRemove, N: len(r.order.Remove), IDs: r.order.Remove, Key: r.order.Key,
			Reason: "drained"})
	}
}

// adopt makes the driver's machines endpoints, except those that are refused.
func (c *Controller) adopt(m *member, r result, now time.Time) {
	machines := r.answer.Machines
	if r.order != nil && len(machines) > r.order.Desired+len(r.order.Remove) {
		c.report(m, Action{Time: now, Verb: VerbDriver, N: len(machines), Key: r.order.Key,
			Reason: fmt.Sprintf("the driver lists %d machines, %d were ordered", len(machines), r.order.Desired)})
	}
	machines = m.acceptable(machines, now)
	if err := c.group.Fleet.Adopt(m.Name, machines); err != nil {
		m.errs++
		m.err = err.Error()
		c.report(m, Action{Time: now, Verb: VerbDriver, Reason: err.Error()})
	}
}

// acceptable leaves out machines that were removed, and new ones beyond what the
// pool may have: a driver that lists others each time fills its pool, not the
// router.
func (m *member) acceptable(machines []Machine, now time.Time) []Machine {
	maps.DeleteFunc(m.gone, func(_ string, at time.Time) bool { return now.Sub(at) > goneTime })
	room := m.Max + len(m.drains) - len(m.nodes)
	var out []Machine
	for _, x := range machines {
		_, gone := m.gone[x.ID]
		known := slices.ContainsFunc(m.nodes, func(n Node) bool { return n.ID == x.ID })
		if gone || !known && x.URL != "" && room <= 0 {
			continue
		}
		if !known && x.URL != "" {
			room--
		}
		out = append(out, x)
	}
	return out
}

// failed delays the next attempt, and after several gives the order up.
func (c *Controller) failed(m *member, o *Order, err error, now time.Time) {
	m.errs++
	m.err = err.Error()
	m.retry = now.Add(min(mostRetry, leastRetry<<min(m.tries, 10)))
	m.tries++
	a := Action{Time: now, Verb: VerbDriver, Reason: err.Error()}
	if o != nil {
		a.Key = o.Key
	}
	c.report(m, a)
	if o == nil || m.tries < giveUp {
		return
	}
	if n := m.orders.cancel(len(m.orders.wait) - m.loading); n > 0 {
		m.orders.backoff(now)
		m.dirty, m.why = true, "the driver failed too often"
		c.report(m, Action{Time: now, Verb: VerbCancel, N: n, Key: o.Key, Reason: m.why})
	}
}
