package plugins

import (
	"context"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

func scaleTestView() *autoscale.View {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()
	return &autoscale.View{
		NowMs: at,
		Pools: []autoscale.PoolView{
			{Name: "own", Min: 1, Max: 4, Pending: 2, ColdMs: 60_000, Price: 3, Machines: []autoscale.NodeView{
				{ID: "a", Ready: true, Drain: "serving", InFlight: 3, Sessions: 2, Heat: 5, AgeMs: 7, OldestMs: 9},
				{ID: "b", Ready: true, Drain: "no_sessions", InFlight: 1},
				{ID: "c", Failing: true, Drain: "serving"}, {ID: "d", Drain: "serving"},
			}},
			{Name: "spot", Max: 8, Spot: true, Blocked: true, Machines: []autoscale.NodeView{{ID: "e", Ready: true,
				Drain: "no_requests"}}},
		},
		History: []autoscale.Sample{{AtMs: at - 5000, Rate: 1, Ready: 1},
			{AtMs: at, Rate: 2, Backlog: 3, QueueMs: 4, InFlight: 5, KVUsage: 0.5, Ready: 6, Pending: 7, Desired: 8}},
		Proposal: autoscale.Proposal{Desired: 8, Wish: 9, Window: 10, Rate: 2, Lead: 0.5, Ahead: 0.25, Backlog: 0.125,
			Cold: time.Minute},
	}
}

func TestScaleView(t *testing.T) {
	v := scaleView(scaleTestView())
	wantPools := []wasm.ScalePool{
		{Name: "own", Min: 1, Max: 4, Ready: 1, Pending: 2, Draining: 1, Failed: 1, Outstanding: 4, Price: 3,
			ColdMS: 60_000}, {Name: "spot", Max: 8, Draining: 1, Spot: true, Blocked: true},
	}
	if !reflect.DeepEqual(v.Pools, wantPools) {
		t.Errorf("pools %+v", v.Pools)
	}
	if len(v.Nodes) != 5 || v.Nodes[0] != (wasm.ScaleNode{Name: "a", Ready: true, Inflight: 3, Sessions: 2, Heat: 5,
		AgeMS: 7, OldestMS: 9}) || v.Nodes[1].Drain != 1 || v.Nodes[4].Drain != 2 || v.Nodes[4].Pool != 1 {
		t.Errorf("nodes %+v", v.Nodes)
	}
	if want := (wasm.ScaleProposal{Now: 13, Desired: 8, Wish: 9, Window: 10, Rate: 2, Lead: 0.5, Ahead: 0.25,
		Backlog: 0.125, ColdMS: 60_000}); v.Proposal != want {
		t.Errorf("proposal %+v", v.Proposal)
	}
	want := [abi.NumScaleSamples][]float32{{5000, 0}, {1, 2}, {0, 3}, {0, 4}, {0, 5}, {0, 0.5}, {1, 6}, {0, 7}, {0, 8}}
	if !reflect.DeepEqual(v.Samples, want) {
		t.Errorf("samples %v", v.Samples)
	}
}

func TestScaleOverride(t *testing.T) {
	o := scaleOverride(scaleTestView(), &wasm.ScaleSize{Desired: 6, Pools: []uint32{abi.Unwritten, 2},
		Victims: []uint32{4, 0}, HoldMS: 1.5, TTLMS: 1e300, Reason: "why"})
	want := &autoscale.Override{Desired: 6, Pools: map[string]int{"spot": 2}, Victims: []string{"e", "a"}, HoldMs: 1,
		TTLMs: 1e15, Reason: "why"}
	if !reflect.DeepEqual(o, want) {
		t.Errorf("got %+v, want %+v", o, want)
	}
}

// TestSizer: the version in force is asked at each call; what it cannot or will not
// answer is an abstention or a fault with its reason.
func TestSizer(t *testing.T) {
	rt, err := wasm.New(context.Background(), wasm.Config{Modules: hostmod.Alone()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var current fixed
	m := &Manager{rules: &current}
	force := func(file, cfg string) {
		t.Helper()
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := rt.Load(context.Background(), code, wasm.Options{Config: []byte(cfg)})
		if err != nil {
			t.Fatal(err)
		}
		current.set = &Set{byRole: map[experimentalKey]*plugin{{"x", wasm.Autoscale}: {Plugin: p}},
			cfg: &config.Config{Pools: []config.Pool{{Name: "own", Autoscale: config.Autoscale{Plugin: "x", Shadow: true}},
				{Name: "spot"}}}}
	}
	const hostile = "../../conformance/guests/experimental/hostile.wasm"
	force(hostile, `{"do": 0}`)
	s, shadow := m.Sizer("own")
	if none, _ := m.Sizer("spot"); none != nil || !shadow {
		t.Errorf("the pool without a plugin has %v", none)
	}
	propose := func() (*autoscale.Override, error) { return s.Propose(context.Background(), scaleTestView()) }
	if o, err := propose(); err != nil || o.Desired != 9 || o.Reason != "one more" || !strings.HasPrefix(o.By, "x 1 ") {
		t.Errorf("%+v, %v", o, err)
	}
	force(hostile, `{"do": 4}`)
	if o, err := propose(); o != nil || err != nil {
		t.Errorf("abstention: %+v, %v", o, err)
	}
	force(hostile, `{"do": 5}`)
	if o, err := propose(); o != nil || !errors.Is(err, wasm.ErrUnsupported) {
		t.Errorf("unsupported: %+v, %v", o, err)
	}
	force(hostile, `{"do": 1}`)
	for range 3 {
		if o, err := propose(); o != nil || err == nil || !strings.Contains(err.Error(), "trap") {
			t.Errorf("trap: %+v, %v", o, err)
		}
		rt.Maintain(context.Background(), time.Now())
	}
	if _, err := propose(); !errors.Is(err, wasm.ErrQuarantined) || !strings.Contains(err.Error(), "trap") {
		t.Errorf("quarantine: %v", err)
	}
	force("../../examples/autoscale-schedule/autoscale_schedule.wasm", `{"hours": [20,20,20,20,20,20,20,20,20,20,20,20,`+
		`20,20,20,20,20,20,20,20,20,20,20,20]}`)
	if o, err := propose(); err != nil || o.Desired != 20 || !strings.HasPrefix(o.By, "x 1.0.0 ") {
		t.Errorf("%+v, %v", o, err)
	}
	current.set = &Set{missing: map[experimentalKey]error{{"x", wasm.Autoscale}: errors.New("set aside")}}
	if _, err := propose(); err == nil || err.Error() != "set aside" {
		t.Errorf("set aside: %v", err)
	}
	current.set = &Set{}
	if _, err := propose(); err == nil || !strings.Contains(err.Error(), "push it") {
		t.Errorf("no module: %v", err)
	}
}
