package elastic

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// poolName is the only pool of a virtual fleet.
const poolName = "virtual"

func (s *sim) startControl() error {
	c, err := autoscale.New(autoscale.Group{
		Pools: []autoscale.Pool{{Name: poolName, Config: *s.cfg.Scaling, Driver: cloud{s}}}, Fleet: cloud{s},
		Override: s.cfg.Override, Log: slog.New(slog.DiscardHandler), Inline: true, Audit: s.report.action,
	}, s.wall())
	s.control = c
	return err
}

// add adds an engine that serves after cold milliseconds.
func (s *sim) add(cold float64) {
	s.added++
	s.engines = append(s.engines, newEngine(fmt.Sprintf("e%03d", s.added), &s.cfg.Engine, s.now, s.now+cold))
}

// cloud is the autoscaler's interface to the simulation: the fleet and its driver.
type cloud struct{ s *sim }

// Nodes implements autoscale.Fleet.
func (c cloud) Nodes(string) []autoscale.Node {
	out := make([]autoscale.Node, 0, len(c.s.engines))
	for _, e := range c.s.engines {
		e.warm(c.s.now, 0)
		out = append(out, autoscale.Node{
			ID: e.id, Since: start.Add(time.Duration(e.ordered * float64(time.Millisecond))), Ready: e.up <= c.s.now,
			InFlight: e.inflight, Heat: e.heat,
		})
	}
	return out
}

// Drain implements autoscale.Fleet.
func (c cloud) Drain(_, id string, d autoscale.Drain) {
	for _, e := range c.s.engines {
		if e.id == id {
			e.drain = d != autoscale.Serving
		}
	}
}

// Adopt implements autoscale.Fleet.
func (c cloud) Adopt(string, []autoscale.Machine) error { return nil }

// Remove implements autoscale.Fleet.
func (c cloud) Remove(_, id string) { c.remove(func(e *engine) bool { return e.id == id }) }

func (c cloud) remove(which func(*engine) bool) {
	c.s.engines = slices.DeleteFunc(c.s.engines, func(e *engine) bool {
		if !which(e) {
			return false
		}
		e.removed = c.s.now
		c.s.removed = append(c.s.removed, e)
		return true
	})
}

// List implements autoscale.Driver.
func (c cloud) List(context.Context, string) (*autoscale.Answer, error) {
	return &autoscale.Answer{}, nil
}

// Apply implements autoscale.Driver.
func (c cloud) Apply(_ context.Context, o *autoscale.Order) (*autoscale.Answer, error) {
	have := len(c.s.engines) - len(o.Remove)
	for ; have < o.Desired; have++ {
		c.s.add(float64(c.s.cfg.Cold.Milliseconds()))
	}
	for i := len(c.s.engines) - 1; i >= 0 && have > o.Desired; i-- {
		if e := c.s.engines[i]; e.up > c.s.now {
			c.remove(func(x *engine) bool { return x == e })
			have--
		}
	}
	return &autoscale.Answer{}, nil
}
