package autoscale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Pool is one pool of a group.
type Pool struct {
	Name string
	Config
	Driver Driver // nil = the machines are fixed: endpoints are parked instead
	Price  float64
	Spot   bool
}

// Group configures a Controller.
type Group struct {
	// Pools serve the same models. The first is filled first; the others take what
	// it cannot get. The loop uses the Config of the first.
	Pools    []Pool
	Fleet    Fleet
	Override Overrider    // nil = the built-in loop
	Shadow   bool         // Override is called and shown, but not followed
	Audit    func(Action) // called for each action, nil = not called
	Log      *slog.Logger
	Fence    uint64
	// Inline calls drivers within Tick, for virtual time. Otherwise a driver
	// that hangs delays its own pool only.
	Inline bool
}

// Controller scales the pools of one group. Tick must be called by one
// goroutine; Status and Notice may be called concurrently.
type Controller struct {
	group    Group
	loop     *Loop
	pools    []*member
	override activeOverride
	history  []Sample
	dry      int // size last proposed in a dry run
	calls    sync.WaitGroup

	mu      sync.Mutex // guards status, notices
	status  Status
	notices []notice
}

type notice struct {
	pool, id string
	deadline time.Time
}

// New returns the controller of a group. Its history begins with the size of the
// group at the time now. It starts no goroutine.
func New(g Group, now time.Time) (*Controller, error) {
	if len(g.Pools) == 0 || g.Fleet == nil || g.Log == nil {
		return nil, errors.New("autoscale: a group needs pools, a fleet and a log")
	}
	c := &Controller{group: g}
	var all []error
	least, most, size := 0, 0, 0
	for i := range g.Pools {
		p := &g.Pools[i]
		if err := p.Validate(); err != nil {
			all = append(all, fmt.Errorf("pool %s: %w", p.Name, err))
		}
		m := newMember(p)
		m.update(g.Fleet.Nodes(p.Name), now)
		m.adoptLoading(now)
		c.pools = append(c.pools, m)
		least, most, size = least+p.Min, most+p.Max, size+m.size()
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	lc := g.Pools[0].Config
	lc.Min, lc.Max = least, min(most, MaxSize)
	c.loop = NewLoop(lc, size, now)
	return c, nil
}

// Notice announces that the machine of an endpoint will be taken away at the
// deadline: the endpoint drains at once and does not return.
func (c *Controller) Notice(pool, id string, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notices) < MaxSize {
		c.notices = append(c.notices, notice{pool, id, deadline})
	}
}

// Status returns what the last tick saw and did.
func (c *Controller) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status
	s.Actions = slices.Clone(s.Actions)
	return s
}

// Wait returns when no driver is being called.
func (c *Controller) Wait() { c.calls.Wait() }

// Retire handles the results of driver calls that have ended, for a controller
// that is no longer ticked, and reports whether no call is running.
func (c *Controller) Retire(now time.Time) bool {
	c.finishCalls(now)
	return !slices.ContainsFunc(c.pools, func(m *member) bool { return m.called })
}

// Tick evaluates the signal of a tick (it sets Ready, Pending and ColdStart
// itself) and acts. ctx bounds the calls of drivers and of the plugin.
func (c *Controller) Tick(ctx context.Context, s Signal) {
	now := s.Now
	c.finishCalls(now)
	s.Ready, s.Pending = 0, 0
	for _, m := range c.pools {
		m.update(c.group.Fleet.Nodes(m.Name), now)
		if n := m.orders.expire(now); n > 0 {
			c.report(m, Action{Time: now, Verb: VerbExpire, N: n, Reason: "machines that were ordered were not ready in time"})
		}
		s.Ready += m.ready
		s.Pending += m.waiting()
	}
	s.ColdStart = c.pools[0].orders.cold.quantile(0.9)
	c.warm(ctx, now)
	c.drain(now)
	p := c.loop.Tick(&s)
	want := c.decide(ctx, &s, &p)
	if !s.Missing {
		c.resize(want, p.Reason, now)
	}
	c.send(ctx, now)
	c.publish(&s, &p, want)
}

// SetOverride changes the override, nil = only the built-in loop proposes, and
// whether it is only compared. It belongs to the goroutine that calls Tick. The last
// answer of an override stays valid for its TTL, unless o is nil.
func (c *Controller) SetOverride(o Overrider, shadow bool) {
	if o == nil {
		c.override = activeOverride{}
	}
	c.group.Override, c.group.Shadow = o, shadow
}

// SetPrice changes the price of a pool of the group and whether it is spot. It
// belongs to the goroutine that calls Tick.
func (c *Controller) SetPrice(pool string, price float64, spot bool) {
	for _, m := range c.pools {
		if m.Name == pool {
			m.Price, m.Spot = price, spot
		}
	}
}

// decide returns the size of the override, if there is one, within the bounds, else
// that of the proposal.
func (c *Controller) decide(ctx context.Context, s *Signal, p *Proposal) int {
	size := s.Ready + s.Pending
	c.recordSample(s, p)
	if c.group.Override == nil || s.Missing {
		c.setOverride(nil)
		return p.Desired
	}
	o, err := c.group.Override.Propose(ctx, c.view(s, p))
	if err == nil && o != nil {
		err = c.check(o)
	}
	switch {
	case err != nil:
		c.override = activeOverride{}
		c.setFault(err, s.Now)
		return p.Desired
	case o != nil:
		c.override = activeOverride{o: o, until: s.Now.Add(time.Duration(o.TTLMs) * time.Millisecond),
			hold: s.Now.Add(time.Duration(o.HoldMs) * time.Millisecond)}
	case c.override.o == nil || s.Now.After(c.override.until):
		c.override = activeOverride{}
		c.setOverride(nil)
		return p.Desired
	}
	c.setOverride(c.override.o)
	if c.group.Shadow {
		return p.Desired
	}
	p.Reason = "plugin: " + c.override.o.Reason
	if s.Now.Before(c.override.hold) {
		return size
	}
	return c.within(c.override.o.Desired, size)
}

// within limits an override's size to the bounds and the greatest step.
func (c *Controller) within(n, size int) int {
	least, most := c.loop.cfg.Min, c.loop.cfg.Max
	n = min(n, max(2*size, size+1))
	return max(least, min(most, n))
}

// check refuses an override with invalid values.
func (c *Controller) check(o *Override) error {
	if o.Desired < 0 || o.Desired > MaxSize {
		return fmt.Errorf("autoscale: plugin: desired %d: want 0 to %d", o.Desired, MaxSize)
	}
	if o.HoldMs < 0 || o.TTLMs < 0 || o.HoldMs > maxWindow.Milliseconds() || o.TTLMs > maxWindow.Milliseconds() {
		return fmt.Errorf("autoscale: plugin: hold %d ms or ttl %d ms: want 0 to %d", o.HoldMs, o.TTLMs,
			maxWindow.Milliseconds())
	}
	for name, n := range o.Pools {
		if n < 0 || !slices.ContainsFunc(c.pools, func(m *member) bool { return m.Name == name }) {
			return fmt.Errorf("autoscale: plugin: %d endpoints of pool %q: unknown pool or negative number", n, name)
		}
	}
	if len(o.Reason) > 256 {
		o.Reason = o.Reason[:256]
	}
	return nil
}
