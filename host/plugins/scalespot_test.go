package plugins

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// market is a fleet and the drivers of its pools in virtual time: machines serve a
// minute after they were ordered, as long as the pool has any.
type market struct {
	now   time.Time
	made  int
	stock map[string]int
	nodes map[string][]autoscale.Node
}

func (m *market) Nodes(pool string) []autoscale.Node {
	out := slices.Clone(m.nodes[pool])
	for i := range out {
		out[i].Ready = m.now.Sub(out[i].Since) >= time.Minute
	}
	return out
}

func (m *market) Drain(string, string, autoscale.Drain) {}

func (m *market) Adopt(string, []autoscale.Machine) error { return nil }

func (m *market) Remove(pool, id string) {
	m.nodes[pool] = slices.DeleteFunc(m.nodes[pool], func(n autoscale.Node) bool { return n.ID == id })
}

func (m *market) List(context.Context, string) (*autoscale.Answer, error) {
	return &autoscale.Answer{}, nil
}

func (m *market) Apply(_ context.Context, o *autoscale.Order) (*autoscale.Answer, error) {
	for len(m.nodes[o.Pool])-len(o.Remove) < min(o.Desired, m.stock[o.Pool]) {
		m.made++
		m.nodes[o.Pool] = append(m.nodes[o.Pool], autoscale.Node{ID: fmt.Sprint(o.Pool, m.made), Since: m.now})
	}
	return &autoscale.Answer{}, nil
}

func (m *market) serving(pool string) (n int) {
	for _, x := range m.Nodes(pool) {
		if x.Ready {
			n++
		}
	}
	return n
}

// TestScaleSpot: the example in the real controller. While the spot market is empty
// the own pool grows as without it; when spot machines can be had own ones are
// exchanged for them down to the floor; when the market is empty again the own pool
// takes over. Never less serves than the load needs.
func TestScaleSpot(t *testing.T) {
	rt, err := wasm.New(t.Context(), wasm.Config{Modules: hostmod.Alone()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	code, err := os.ReadFile("../../examples/autoscale-spot/autoscale_spot.wasm")
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Load(t.Context(), code, wasm.Options{Config: []byte(`{"floor": 2}`)})
	if err != nil {
		t.Fatal(err)
	}
	h := &Manager{rules: fixed{&Set{byRole: map[experimentalKey]*plugin{{"cheap", wasm.Autoscale}: {Plugin: p}},
		cfg: &config.Config{Pools: []config.Pool{{Name: "own", Autoscale: config.Autoscale{Plugin: "cheap"}}}}}}}
	m := &market{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), stock: map[string]int{"own": 16},
		nodes: map[string][]autoscale.Node{}}
	for range 2 {
		m.made++
		m.nodes["own"] = append(m.nodes["own"], autoscale.Node{ID: fmt.Sprint("own", m.made), Since: m.now.Add(-time.Hour)})
	}
	rules := autoscale.Config{Target: 0.7, Max: 16, ColdStart: time.Minute}
	c, err := autoscale.New(autoscale.Group{Fleet: m, Log: slog.New(slog.DiscardHandler), Inline: true,
		Pools: []autoscale.Pool{{Name: "own", Config: rules, Driver: m, Price: 3},
			{Name: "spot", Config: rules, Driver: m, Price: 1, Spot: true}}}, m.now)
	if err != nil {
		t.Fatal(err)
	}
	const work, needed = 2.7, 4
	run := func(d time.Duration, least int) {
		t.Helper()
		for end := m.now.Add(d); m.now.Before(end); {
			m.now = m.now.Add(5 * time.Second)
			c.SetOverride(h.Sizer("own"))
			c.Tick(t.Context(), autoscale.Signal{Now: m.now, Work: work * 5, Requests: 1, InFlight: 1})
			if n := m.serving("own") + m.serving("spot"); n < least {
				t.Fatalf("%v: %d machines serve, %d are needed", m.now.Format(time.TimeOnly), n, least)
			}
			if s := c.Status(); s.Fault != "" {
				t.Fatal(s.Fault)
			}
		}
	}
	want := func(own, spot int) {
		t.Helper()
		if a, b := m.serving("own"), m.serving("spot"); a != own || b != spot {
			t.Errorf("own %d, spot %d, want %d and %d; %+v", a, b, own, spot, c.Status().Override)
		}
	}
	run(40*time.Minute, 2)
	want(4, 0)
	m.stock["spot"] = 16
	run(60*time.Minute, needed)
	want(2, 2)
	m.stock["spot"], m.nodes["spot"] = 0, nil // all of it is taken away
	run(40*time.Minute, 2)
	want(4, 0)
}
