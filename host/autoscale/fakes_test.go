package autoscale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cloud is a fleet and the driver of its pools in virtual time: machines serve
// after the cold start.
type cloud struct {
	t     *testing.T
	now   time.Time
	cold  time.Duration
	nodes map[string][]*machine // by pool
	made  int                   // machines ever made
	keys  map[string]int        // orders taken, by key
	adopt error

	apply  func(o *Order) (*Answer, error) // instead of the well-behaved driver
	stock  map[string]int                  // machines a pool can have; absent = any
	orders []Order

	warmedIDs []string
	warmErr   error
}

type machine struct {
	Node
	up    time.Time
	drain Drain
	down  bool // not ready whatever its age
}

func newCloud(t *testing.T, cold time.Duration) *cloud {
	return &cloud{t: t, now: start, cold: cold, nodes: map[string][]*machine{}, keys: map[string]int{},
		stock: map[string]int{}}
}

// have adds n machines that serve.
func (c *cloud) have(pool string, n int) {
	for range n {
		c.make(pool).up = c.now
	}
}

func (c *cloud) make(pool string) *machine {
	c.made++
	m := &machine{Node: Node{ID: fmt.Sprintf("%s%d", pool, c.made), Since: c.now}, up: c.now.Add(c.cold)}
	c.nodes[pool] = append(c.nodes[pool], m)
	return m
}

func (c *cloud) Nodes(pool string) []Node {
	var out []Node
	for _, m := range c.nodes[pool] {
		m.Ready = !m.down && !c.now.Before(m.up)
		out = append(out, m.Node)
	}
	return out
}

func (c *cloud) find(pool, id string) *machine {
	for _, m := range c.nodes[pool] {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func (c *cloud) Drain(pool, id string, d Drain) {
	if m := c.find(pool, id); m != nil {
		m.drain = d
	}
}

func (c *cloud) Adopt(pool string, m []Machine) error { return c.adopt }

func (c *cloud) Remove(pool, id string) {
	c.nodes[pool] = slices.DeleteFunc(c.nodes[pool], func(m *machine) bool { return m.ID == id })
}

func (c *cloud) List(context.Context, string) (*Answer, error) { return &Answer{}, nil }

func (c *cloud) Warm(_ context.Context, pool string, m Machine) error {
	c.warmedIDs = append(c.warmedIDs, m.ID)
	if n := c.find(pool, m.ID); n == nil || n.drain != NoRequests {
		c.t.Errorf("%s takes requests while it is warmed", m.ID)
	}
	return c.warmErr
}

func (c *cloud) Apply(ctx context.Context, o *Order) (*Answer, error) {
	c.orders = append(c.orders, *o)
	if o.Reason == "" {
		c.t.Errorf("an order without a reason: %+v", o)
	}
	if c.apply != nil {
		return c.apply(o)
	}
	return c.obey(o)
}

// obey does what a good driver does: it starts or cancels machines until as many
// exist as were ordered.
func (c *cloud) obey(o *Order) (*Answer, error) {
	c.keys[o.Key]++
	have := len(c.nodes[o.Pool]) - len(o.Remove)
	for ; have < o.Desired; have++ {
		if most, ok := c.stock[o.Pool]; ok && have >= most {
			return &Answer{}, nil
		}
		c.make(o.Pool)
	}
	for i := len(c.nodes[o.Pool]) - 1; i >= 0 && have > o.Desired; i-- {
		if m := c.nodes[o.Pool][i]; c.now.Before(m.up) {
			c.Remove(o.Pool, m.ID)
			have--
		}
	}
	return &Answer{}, nil
}

func (c *cloud) ready(pool string) int {
	n := 0
	for _, x := range c.Nodes(pool) {
		if x.Ready && c.find(pool, x.ID).drain == Serving {
			n++
		}
	}
	return n
}

// rig is a controller over a cloud.
type rig struct {
	*cloud
	c       *Controller
	actions []Action
	work    float64 // offered, endpoint-seconds per second
	backlog float64
	missing bool
	inFl    int
	peak    int // greatest size that was wanted
}

func newRig(t *testing.T, c *cloud, change func(*Group), pools ...Pool) *rig {
	r := &rig{cloud: c}
	for i := range pools {
		if pools[i].Driver == nil {
			pools[i].Driver = c
		}
	}
	g := Group{Pools: pools, Fleet: c, Log: slog.New(slog.DiscardHandler), Inline: true,
		Audit: func(a Action) { r.actions = append(r.actions, a) }}
	if change != nil {
		change(&g)
	}
	var err error
	if r.c, err = New(g, c.now); err != nil {
		t.Fatal(err)
	}
	return r
}

const tick = 5 * time.Second

// run lets d of virtual time pass.
func (r *rig) run(d time.Duration) {
	for end := r.now.Add(d); r.now.Before(end); {
		r.now = r.now.Add(tick)
		s := Signal{Now: r.now, Work: r.work * tick.Seconds(), Backlog: r.backlog, Missing: r.missing, InFlight: r.inFl}
		if r.work > 0 {
			s.Requests, s.InFlight = 1, max(1, r.inFl)
		}
		r.c.Tick(context.Background(), s)
		r.peak = max(r.peak, r.c.Status().Desired)
	}
}

func (r *rig) verbs(verb string) []Action {
	return slices.DeleteFunc(slices.Clone(r.actions), func(a Action) bool { return a.Verb != verb })
}

var errDriver = errors.New("no quota")
