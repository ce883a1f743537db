package sdk

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/plugincheck"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestGo_fleet checks that a guest in Go reads the fleet that the host wrote, and that
// the host reads the guest's answer.
func TestGo_fleet(t *testing.T) {
	checkFleet(t, buildGo(t, "../../sdk/go/vectors/fleet"))
	if code, ok := buildTinyGo(t, "../../sdk/go/vectors/fleet"); ok {
		checkFleet(t, code)
	}
}

func checkFleet(t *testing.T, code []byte) {
	t.Helper()
	rep, err := plugincheck.Check(context.Background(), code, plugincheck.Options{})
	if err != nil || !rep.OK() ||
		!reflect.DeepEqual(rep.Roles, []string{"idle", "x_autoscale", "x_backend_parse", "x_discover"}) {
		t.Fatalf("%v\n%v", err, rep)
	}
	rt, err := wasm.New(context.Background(), wasm.Config{Modules: hostmod.Alone()})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	p, err := rt.Load(context.Background(), code, wasm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	v := &wasm.ScaleView{
		NowMS: 1.7e12,
		Pools: []wasm.ScalePool{
			{Name: "own", Min: 1, Max: 40, Ready: 2, Pending: 3, Draining: 4, Failed: 5, Outstanding: 600, Price: 0.25,
				ColdMS: 7000},
			{Name: "größer", Max: 90, Spot: true, Blocked: true},
		},
		Nodes: []wasm.ScaleNode{
			{Name: "a", Ready: true, Drain: 2, Inflight: 11, Sessions: 13, Heat: 1e5, AgeMS: 17, OldestMS: 19},
			{Name: "http://10.0.0.1:8000", Pool: 1, Failing: true},
		},
		Proposal: wasm.ScaleProposal{Now: 3, Desired: 4, Wish: 50, Window: 60, Rate: 2.5, Lead: 0.5, ColdMS: 1234},
	}
	sum := 2.5 + 0.5 + 50 + 60 + 1 + 40 + 2 + 3 + 4 + 5 + 600 + 0.25 + 7000 + 1 + 90 + 1 + 1 + 2 + 11 + 13 +
		1e5 + 17 + 19 + 1
	for k := range v.Samples {
		for i := range 60 {
			v.Samples[k] = append(v.Samples[k], float32(k*i))
			sum += float64(k * i)
		}
	}
	want := &wasm.ScaleSize{Desired: 5, HoldMS: 1234, TTLMS: 3, Pools: []uint32{abi.Unwritten, 90}, Victims: []uint32{1},
		Reason: fmt.Sprint("größer http://10.0.0.1:8000 ", strconv.FormatFloat(sum, 'f', -1, 64))}
	for range 3 {
		if got, err := p.Autoscale(v); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
		}
	}
	if _, err := p.Autoscale(&wasm.ScaleView{}); !errors.Is(err, wasm.ErrAbstain) {
		t.Errorf("abstention: %v", err)
	}
	checkDocuments(t, p)
	v.Proposal.Desired = 999
	if _, err := p.Autoscale(v); err == nil ||
		err.Error() != `wasm: plugin "gofleet": x_autoscale: status: status 2: too many` {
		t.Errorf("error: %v", err)
	}
}

func checkDocuments(t *testing.T, p *wasm.Plugin) {
	t.Helper()
	figures, err := p.BackendParse([]byte("\x80abc"), 0)
	if want := []wasm.Figure{{ID: abi.FigureRunning, Value: 4}, {ID: abi.FigureKVUsage, Value: 0.5}}; err != nil ||
		!reflect.DeepEqual(figures, want) {
		t.Errorf("figures %v, %v", figures, err)
	}
	if _, err := p.BackendParse(nil, 0); !errors.Is(err, wasm.ErrAbstain) {
		t.Errorf("abstention: %v", err)
	}
	if _, err := p.BackendParse([]byte("?"), 0); !errors.Is(err, wasm.ErrUnsupported) {
		t.Errorf("unsupported: %v", err)
	}
	if text, err := p.Discover([]byte("h:2\n"), 0); err != nil || text != "10.0.0.1:1\nh:2\n" {
		t.Errorf("endpoints %q, %v", text, err)
	}
}
