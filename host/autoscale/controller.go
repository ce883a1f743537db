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
	Driver Driver // nil = the machines are given: endpoints are parked instead
	Price  float64
	Spot   bool
}

// Group configures a Controller.
type Group struct {
	// Pools serve the same models, the one to fill first comes first; the later
	// ones take what it cannot get. The Config of the first rules the loop.
	Pools    []Pool
	Fleet    Fleet
	Override Overrider    // nil = the built-in loop
	Shadow   bool         // Override is asked, shown and not followed
	Audit    func(Action) // called for each action, nil = nobody
	Log      *slog.Logger
	Fence    uint64
	// Inline calls drivers within Tick, for virtual time. Otherwise a driver
	// that hangs holds up its pool only.
	Inline bool
}

// Controller scales the pools of one group. Tick must be called by one
// goroutine; Status and Notice may be called concurrently.
type Controller struct {
	group Group
	loop  *Loop
	pools []*member
	stand standing
	hist  []Sample
	dry   int // size last proposed in a dry run
	calls sync.WaitGroup

	mu      sync.Mutex // guards status, notices
	status  Status
	notices []notice
}

type notice struct {
	pool, id string
	deadline time.Time
}

// New returns the controller of a group, whose size at the time now is its
// starting point. It starts no goroutine.
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
		m.look(g.Fleet.Nodes(p.Name), now)
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

// Notice says that an endpoint will be taken away at the deadline: it drains at
// once, and is not brought back.
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

// Retire takes in what the calls of drivers that were running have done, for a
// controller that is ticked no more, and reports whether none runs.
func (c *Controller) Retire(now time.Time) bool {
	c.settle(now)
	return !slices.ContainsFunc(c.pools, func(m *member) bool { return m.called })
}

// Tick takes the signal of a tick (its Ready, Pending and ColdStart are filled
// in here) and acts. ctx bounds the driver's and the plugin's calls.
func (c *Controller) Tick(ctx context.Context, s Signal) {
	now := s.Now
	c.settle(now)
	s.Ready, s.Pending = 0, 0
	for _, m := range c.pools {
		m.look(c.group.Fleet.Nodes(m.Name), now)
		if n := m.orders.expire(now); n > 0 {
			c.act(m, Action{Time: now, Verb: VerbExpire, N: n, Reason: "machines that were ordered did not come in time"})
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

// SetOverride changes who proposes, nil = nobody but the built-in loop, and whether
// that is only compared. It belongs to the goroutine that calls Tick. What an
// override said before stands as long as it said, unless nobody proposes any more.
func (c *Controller) SetOverride(o Overrider, shadow bool) {
	if o == nil {
		c.stand = standing{}
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

// decide asks the override, if there is one, and keeps it within the bounds.
func (c *Controller) decide(ctx context.Context, s *Signal, p *Proposal) int {
	size := s.Ready + s.Pending
	c.remember(s, p)
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
		c.stand = standing{}
		c.setFault(err, s.Now)
		return p.Desired
	case o != nil:
		c.stand = standing{o: o, until: s.Now.Add(time.Duration(o.TTLMs) * time.Millisecond), hold: s.Now.Add(time.Duration(o.HoldMs) * time.Millisecond)}
	case c.stand.o == nil || s.Now.After(c.stand.until):
		c.stand = standing{}
		c.setOverride(nil)
		return p.Desired
	}
	c.setOverride(c.stand.o)
	if c.group.Shadow {
		return p.Desired
	}
	p.Reason = "plugin: " + c.stand.o.Reason
	if s.Now.Before(c.stand.hold) {
		return size
	}
	return c.within(c.stand.o.Desired, size)
}

// within keeps an override's size inside the bounds and the greatest steps.
func (c *Controller) within(n, size int) int {
	least, most := c.loop.cfg.Min, c.loop.cfg.Max
	n = min(n, max(2*size, size+1))
	return max(least, min(most, n))
}

// check refuses an override that cannot be.
func (c *Controller) check(o *Override) error {
	if o.Desired < 0 || o.Desired > MaxSize {
		return fmt.Errorf("autoscale: plugin wants %d endpoints", o.Desired)
	}
	if o.HoldMs < 0 || o.TTLMs < 0 || o.HoldMs > maxWindow.Milliseconds() || o.TTLMs > maxWindow.Milliseconds() {
		return fmt.Errorf("autoscale: plugin's hold %d ms or ttl %d ms is outside 0 to %d", o.HoldMs, o.TTLMs, maxWindow.Milliseconds())
	}
	for name, n := range o.Pools {
		if n < 0 || !slices.ContainsFunc(c.pools, func(m *member) bool { return m.Name == name }) {
			return fmt.Errorf("autoscale: plugin wants %d endpoints of pool %q", n, name)
		}
	}
	if len(o.Reason) > 256 {
		o.Reason = o.Reason[:256]
	}
	return nil
}
