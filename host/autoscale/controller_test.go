package autoscale

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

func wantReady(t *testing.T, r *rig, pool string, want int) {
	t.Helper()
	if got := r.ready(pool); got != want {
		t.Errorf("%s: %d endpoints serve at %v, want %d; status %+v", pool, got, r.now.Sub(start), want,
			r.c.Status().Proposal)
	}
}

func TestController_follows(t *testing.T) {
	r := newRig(t, newCloud(t, time.Minute), nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 20}})
	r.have("p", 2)
	r.work = 6.9
	r.run(5 * time.Minute)
	if n := r.ready("p"); n < 10 {
		t.Errorf("%d endpoints serve after 5 minutes, want 10 at least", n)
	}
	r.run(30 * time.Minute)
	wantReady(t, r, "p", 10)
	r.work = 2
	r.run(30 * time.Minute)
	wantReady(t, r, "p", 3)
	if r.made > r.peak {
		t.Errorf("%d machines made for %d needs", r.made, r.peak)
	}
}

// TestController_flat: under an hour of even load, no action is taken once the size
// has settled.
func TestController_flat(t *testing.T) {
	for _, size := range []int{2, 6, 15} {
		r := newRig(t, func() *cloud { c := newCloud(t, 3*time.Minute); c.have("p", size); return c }(), nil,
			Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 20}})
		r.work = 4
		r.run(40 * time.Minute)
		r.actions = nil
		r.run(time.Hour)
		if len(r.actions) > 0 {
			t.Errorf("from %d: flat load, yet %+v", size, r.actions)
		}
		wantReady(t, r, "p", 6)
	}
}

func TestController_startsWarm(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 8)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 20}})
	r.work = 1
	r.run(4 * time.Minute)
	wantReady(t, r, "p", 8)
}

func TestController_missingHolds(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 4)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 20}})
	r.missing = true
	r.run(time.Hour)
	wantReady(t, r, "p", 4)
	if len(r.actions) != 0 {
		t.Errorf("blind, yet %+v", r.actions)
	}
}

func TestController_zero(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Max: 4, IdleAfter: 10 * time.Minute}})
	r.work = 0.3
	r.run(3 * time.Minute)
	r.work = 0
	r.run(9 * time.Minute)
	if r.ready("p") == 0 {
		t.Error("at zero before its time")
	}
	r.run(3 * time.Minute)
	wantReady(t, r, "p", 0)
	r.actions = nil
	r.run(30 * time.Minute)
	if len(c.nodes["p"]) != 0 || len(r.actions) != 0 {
		t.Errorf("idle, yet %+v", r.actions)
	}
	if st := r.c.Status(); st.Capacity != CapacityNone {
		t.Errorf("capacity %s", st.Capacity)
	}
	r.work = 0.1
	r.run(2 * time.Minute)
	wantReady(t, r, "p", 1)
}

func TestController_drainKeepsRequests(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 3)
	for _, m := range c.nodes["p"] {
		m.InFlight, m.Sessions = 2, 1
	}
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 4, DrainTimeout: 20 * time.Minute}})
	r.work = 0.9
	r.run(12 * time.Minute)
	i := slices.IndexFunc(c.nodes["p"], func(m *machine) bool { return m.drain != Serving })
	if i < 0 {
		t.Fatal("nothing drains")
	}
	m := c.nodes["p"][i]
	r.run(10 * time.Minute)
	if c.find("p", m.ID) == nil || m.drain != NoRequests {
		t.Fatalf("endpoint with requests: %v, want no_requests", m.drain)
	}
	m.InFlight = 0
	r.run(time.Minute)
	if c.find("p", m.ID) != nil {
		t.Error("drained endpoint was not given back")
	}
}

func TestController_drainTimeout(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	for _, m := range c.nodes["p"] {
		m.InFlight = 1
	}
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 4, DrainTimeout: 4 * time.Minute}})
	r.work = 0.1
	r.run(15 * time.Minute)
	wantReady(t, r, "p", 1)
	if len(c.nodes["p"]) != 1 {
		t.Errorf("%d machines, want 1: the drain is bounded", len(c.nodes["p"]))
	}
}

// TestController_undrainFirst: draining endpoints return to service before a machine
// is ordered.
func TestController_undrainFirst(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 4)
	for _, m := range c.nodes["p"] {
		m.InFlight = 1
	}
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 8}})
	r.work = 0.6
	r.run(7 * time.Minute)
	r.work = 1.9
	r.run(30 * time.Second)
	wantReady(t, r, "p", 3)
	if r.made != 4 || len(r.verbs(VerbUndrain)) == 0 {
		t.Errorf("%d machines made, %d brought back", r.made, len(r.verbs(VerbUndrain)))
	}
}

func TestController_victims(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 5)
	for i, m := range c.nodes["p"] {
		m.Heat = float64(1000 * (10 - i))
	}
	c.nodes["p"][1].Sessions = 0
	c.nodes["p"][1].Heat = 10
	c.nodes["p"][4].Sessions = 3
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 5}})
	cold := c.nodes["p"][1].ID
	r.work = 2.7
	r.run(10 * time.Minute)
	drains := r.verbs(VerbDrain)
	if len(drains) != 1 || drains[0].IDs[0] != cold {
		t.Errorf("drained %+v, want %s", drains, cold)
	}
}

func TestController_failing(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 3)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 3, Max: 5}})
	r.work = 1.5
	r.run(time.Minute)
	bad := c.nodes["p"][0]
	bad.down = true
	r.run(time.Minute)
	if c.find("p", bad.ID) == nil {
		t.Fatal("an endpoint that stumbles was given up at once")
	}
	bad.Failing = true
	r.run(3 * time.Minute)
	if c.find("p", bad.ID) != nil {
		t.Error("failing endpoint still there")
	}
	if n := r.ready("p"); n < 3 {
		t.Errorf("%d endpoints serve, want 3", n)
	}
}

func TestController_notice(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 3)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 5}})
	r.work = 2
	r.run(time.Minute)
	id := c.nodes["p"][1].ID
	c.nodes["p"][1].InFlight = 1
	r.c.Notice("p", id, r.now.Add(2*time.Minute))
	r.run(tick)
	if c.find("p", id).drain != NoRequests {
		t.Errorf("after a notice: %v", c.find("p", id).drain)
	}
	r.run(4 * time.Minute)
	if c.find("p", id) != nil {
		t.Error("still there after its deadline")
	}
	if n := r.ready("p"); n < 3 {
		t.Errorf("%d endpoints serve, want 3", n)
	}
}

// TestController_driver runs drivers that misbehave. An incremental one adds machines
// for each new key: however it fails, there must never be more machines than orders.
func TestController_driver(t *testing.T) {
	cases := []struct {
		name  string
		apply func(r *rig, calls int, o *Order) (*Answer, error)
		ready int // after half an hour
	}{
		{"refuses for a while", func(r *rig, calls int, o *Order) (*Answer, error) {
			if calls < 3 {
				return nil, errDriver
			}
			return r.obey(o)
		}, 4},
		{"does it and reports an error", func(r *rig, calls int, o *Order) (*Answer, error) {
			a, _ := r.obey(o)
			if calls < 4 {
				return nil, context.DeadlineExceeded
			}
			return a, nil
		}, 4},
		{"always hangs", func(*rig, int, *Order) (*Answer, error) { return nil, context.DeadlineExceeded }, 1},
		{"accepts and does nothing", func(*rig, int, *Order) (*Answer, error) { return &Answer{}, nil }, 1},
		{"adds by key alone", func(r *rig, calls int, o *Order) (*Answer, error) {
			if r.keys[o.Key] > 0 {
				r.keys[o.Key]++
				return &Answer{}, nil
			}
			a, _ := r.obey(o)
			if calls == 1 {
				return nil, context.DeadlineExceeded
			}
			return a, nil
		}, 4},
		{"lists machines it does not have", func(r *rig, calls int, o *Order) (*Answer, error) {
			r.obey(o)
			a := &Answer{}
			for i := range 50 {
				a.Machines = append(a.Machines, Machine{ID: fmt.Sprint("ghost", i), URL: "http://127.0.0.1:1"})
			}
			return a, nil
		}, 4},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c := newCloud(t, time.Minute)
			c.have("p", 1)
			r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 8}})
			calls := 0
			c.apply = func(o *Order) (*Answer, error) { calls++; return tc.apply(r, calls, o) }
			r.work = 2.5
			r.run(30 * time.Minute)
			if c.made > r.peak {
				t.Errorf("%d machines made for %d needs", c.made, r.peak)
			}
			wantReady(t, r, "p", tc.ready)
			if calls > 60 {
				t.Errorf("driver called %d times in 30 minutes", calls)
			}
		})
	}
}

// TestController_retriesOneKey: an attempt that failed is repeated with its key.
func TestController_retriesOneKey(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 1)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 2}})
	n := 0
	c.apply = func(o *Order) (*Answer, error) {
		if n++; n < 4 {
			return nil, errDriver
		}
		return c.obey(o)
	}
	r.work = 5
	r.run(10 * time.Minute)
	if len(c.orders) < 4 || c.orders[0].Key != c.orders[1].Key || c.orders[0].Key != c.orders[3].Key {
		t.Errorf("orders %+v", c.orders)
	}
}

func TestController_scarcity(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("own", 1)
	c.stock["own"] = 2
	r := newRig(t, c, nil, Pool{Name: "own", Config: Config{Target: 0.7, Min: 1, Max: 8}},
		Pool{Name: "spot", Config: Config{Target: 0.7, Max: 8}, Spot: true})
	r.work = 2.7
	r.run(20 * time.Minute)
	if own, spot := r.ready("own"), r.ready("spot"); own != 2 || spot != 2 {
		t.Errorf("own %d, spot %d, want 2 and 2", own, spot)
	}
	r.work = 0.5
	r.run(30 * time.Minute)
	if own, spot := r.ready("own"), r.ready("spot"); own != 1 || spot != 0 {
		t.Errorf("own %d, spot %d, want 1 and 0: the overflow goes first", own, spot)
	}
}

func TestController_reportsScarce(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 1)
	c.stock["p"] = 1
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 8}})
	r.work = 3
	seen := false
	for range 200 {
		r.run(tick)
		seen = seen || r.c.Status().Capacity == CapacityScarce
	}
	if !seen {
		t.Error("machines that do not come never made the capacity scarce")
	}
}

// TestController_warm: machines that were ordered are warmed before they serve;
// the first of a pool serves at once, and an error keeps none out of service.
func TestController_warm(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.warmErr = errDriver
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Max: 4, WarmTimeout: time.Minute}})
	r.work = 0.3
	r.run(3 * time.Minute)
	if slices.Contains(c.warmedIDs, "p1") || r.ready("p") == 0 {
		t.Errorf("the first machine: warmed %v, %d serve", c.warmedIDs, r.ready("p"))
	}
	r.work = 2.5
	r.run(5 * time.Minute)
	wantReady(t, r, "p", 4)
	if len(c.warmedIDs) != 3 || len(r.verbs(VerbDriver)) != 3 {
		t.Errorf("warmed %v, errors %+v", c.warmedIDs, r.verbs(VerbDriver))
	}
}

func TestController_dryRun(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 20, DryRun: true}})
	r.work = 5
	r.run(20 * time.Minute)
	wantReady(t, r, "p", 2)
	if len(c.orders) != 0 || len(r.verbs(VerbOrder)) == 0 || !r.actions[0].DryRun {
		t.Errorf("orders %+v, actions %+v", c.orders, r.actions)
	}
	if n := len(r.actions); n > 5 {
		t.Errorf("%d actions for one proposal", n)
	}
}

func TestController_static(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 4)
	r := newRig(t, c, func(g *Group) { g.Pools[0].Driver = nil },
		Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 4}})
	r.work = 1
	r.run(20 * time.Minute)
	wantReady(t, r, "p", 2)
	if len(c.nodes["p"]) != 4 {
		t.Errorf("%d machines, want 4: parked, not removed", len(c.nodes["p"]))
	}
	r.work = 2.6
	r.run(2 * time.Minute)
	wantReady(t, r, "p", 4)
}
