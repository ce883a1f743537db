package autoscale

import (
	"context"
	"errors"
	"testing"
	"time"
)

// fixed is an override that proposes the same at each call.
type fixed struct {
	o   *Override
	err error
	v   *View
}

func (f *fixed) Propose(_ context.Context, v *View) (*Override, error) { f.v = v; return f.o, f.err }

func TestController_override(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	f := &fixed{o: &Override{Desired: 5, Reason: "because"}}
	r := newRig(t, c, func(g *Group) { g.Override = f }, Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 6}})
	r.work = 1
	r.run(3 * time.Minute)
	wantReady(t, r, "p", 5)
	if len(f.v.Pools) != 1 || len(f.v.History) == 0 || len(f.v.Pools[0].Machines) != 5 {
		t.Errorf("view %+v", f.v)
	}
	f.o = &Override{Desired: 1000}
	r.run(3 * time.Minute)
	wantReady(t, r, "p", 6)

	f.o, f.err = nil, errors.New("trap")
	r.run(40 * time.Minute)
	wantReady(t, r, "p", 2) // the built-in: 1 / 0.7
	if st := r.c.Status(); st.Fault != "trap" {
		t.Errorf("fault %q", st.Fault)
	}
	f.o, f.err = &Override{Desired: 3, TTLMs: 120_000}, nil
	r.run(tick)
	f.o = nil
	r.run(90 * time.Second)
	wantReady(t, r, "p", 3)
	r.run(30 * time.Minute)
	wantReady(t, r, "p", 2)
	f.o = &Override{Desired: 3, Pools: map[string]int{"q": 1}}
	r.run(tick)
	if st := r.c.Status(); st.Fault == "" {
		t.Error("an unknown pool is no fault")
	}
}

func TestController_shadow(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	r := newRig(t, c, func(g *Group) { g.Override, g.Shadow = &fixed{o: &Override{Desired: 5}}, true },
		Pool{Name: "p", Config: Config{Target: 0.7, Min: 1, Max: 6}})
	r.work = 1
	r.run(10 * time.Minute)
	wantReady(t, r, "p", 2)
	if st := r.c.Status(); st.Override == nil || st.Override.Desired != 5 || !st.Shadow {
		t.Errorf("status %+v", st.Override)
	}
}

func TestConfig_Validate(t *testing.T) {
	for _, c := range []Config{{}, {Min: 3, Max: 2}, {Max: 2000}, {Max: 1, Target: 2}, {Max: 1, Window: -1},
		{Max: 1, Window: 2 * time.Hour}, {Min: -1, Max: 1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
	if err := (&Config{Max: 3}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestController_reportsFaultOnce: the fault of a plugin that fails at every tick is
// counted at each and reported once.
func TestController_reportsFaultOnce(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	f := &fixed{err: errors.New("trap")}
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 2, Max: 6}})
	r.c.SetOverride(f, false)
	r.run(time.Minute)
	f.err = errors.New("fuel")
	r.run(time.Minute)
	if st := r.c.Status(); len(r.verbs(VerbOverride)) != 2 || st.Faults != 24 || st.Fault != "fuel" || st.Override != nil {
		t.Errorf("%d actions, status %d %q", len(r.verbs(VerbOverride)), st.Faults, st.Fault)
	}
	f.o, f.err = &Override{Desired: 4}, nil
	r.run(tick)
	if st := r.c.Status(); st.Fault != "" || st.Override == nil {
		t.Errorf("status %q, %+v", st.Fault, st.Override)
	}
}

// TestController_SetOverride: a plugin's answer stays valid for its TTL when another
// version replaces it, and ends when there is no override.
func TestController_SetOverride(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("p", 2)
	r := newRig(t, c, nil, Pool{Name: "p", Config: Config{Target: 0.7, Min: 2, Max: 6}})
	r.work = 1
	f := &fixed{o: &Override{Desired: 5, TTLMs: time.Hour.Milliseconds()}}
	r.c.SetOverride(f, false)
	r.run(3 * time.Minute)
	wantReady(t, r, "p", 5)
	r.c.SetOverride(&fixed{}, false)
	r.run(20 * time.Minute)
	wantReady(t, r, "p", 5)
	r.c.SetOverride(&fixed{o: &Override{Desired: 6}}, true)
	r.run(tick)
	if st := r.c.Status(); !st.Shadow || st.Override.Desired != 6 || st.Desired > 5 {
		t.Errorf("shadow: %+v", st)
	}
	r.c.SetOverride(nil, false)
	r.run(20 * time.Minute)
	wantReady(t, r, "p", 2)
	if len(f.v.History) < 2 {
		t.Errorf("%d samples", len(f.v.History))
	}
}

// swapPools proposes what examples/autoscale-spot does: the built-in size, with one
// endpoint of the first pool, replaced one after the other.
type swapPools struct{}

func (swapPools) Propose(_ context.Context, v *View) (*Override, error) {
	own, spot, pending := 0, 0, 0
	for i, p := range v.Pools {
		for _, m := range p.Machines {
			if m.Ready && m.Drain == Serving.String() {
				*[]*int{&own, &spot}[i]++
			}
		}
		pending += p.Pending
	}
	o := &Override{Desired: v.Proposal.Desired, Pools: map[string]int{"own": 1}}
	if own > 1 && own+spot == o.Desired && pending == 0 {
		o.Desired++
	}
	return o, nil
}

// TestController_exchange: growing and shrinking respect the sizes of single pools:
// the machines of the expensive pool are replaced by those of the cheap one, and
// there are never fewer than needed.
func TestController_exchange(t *testing.T) {
	c := newCloud(t, time.Minute)
	c.have("own", 4)
	r := newRig(t, c, func(g *Group) { g.Override = swapPools{} },
		Pool{Name: "own", Config: Config{Target: 0.7, Min: 0, Max: 8}},
		Pool{Name: "spot", Config: Config{Target: 0.7, Max: 8}, Spot: true})
	r.work = 2.7
	for range 1000 {
		r.run(tick)
		if n := r.ready("own") + r.ready("spot"); n < 4 {
			t.Fatalf("%d endpoints serve", n)
		}
	}
	if own, spot := r.ready("own"), r.ready("spot"); own != 1 || spot != 3 {
		t.Errorf("own %d, spot %d, want 1 and 3", own, spot)
	}
	if n := len(r.actions); n > 30 {
		t.Errorf("%d actions to exchange three machines", n)
	}
}
