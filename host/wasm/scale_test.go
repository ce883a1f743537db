package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// scaleView is two pools, three endpoints and two ticks.
func scaleView() *wasm.ScaleView {
	v := &wasm.ScaleView{
		NowMS: 1.7e12,
		Pools: []wasm.ScalePool{
			{Name: "own", Min: 1, Max: 4, Ready: 2, Pending: 1, Price: 3, ColdMS: 60_000, Outstanding: 7},
			{Name: "spot", Max: 8, Ready: 1, Spot: true, Blocked: true, Price: 1},
		},
		Nodes: []wasm.ScaleNode{
			{Name: "own-a", Ready: true, Inflight: 5, Sessions: 2, Heat: 1e6, AgeMS: 10}, {Name: "own-b", Ready: true, Drain: 1},
			{Name: "spot-a", Pool: 1, Failing: true, OldestMS: 99},
		},
		Proposal: wasm.ScaleProposal{Now: 4, Desired: 5, Wish: 6, Window: 5, Rate: 2.5, Lead: 0.25, ColdMS: 60_000},
	}
	for k := range v.Samples {
		v.Samples[k] = []float32{float32(k), float32(k) + 0.5}
	}
	return v
}

func loadFile(t testing.TB, rt *wasm.Runtime, file, config string) *wasm.Plugin {
	t.Helper()
	code, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Load(context.Background(), code, wasm.Options{Config: []byte(config)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

const hostile = "../../conformance/guests/experimental/hostile.wasm"

// TestAutoscale_hostile: what a guest may do wrong in the role is a fault with its
// reason, the instance is replaced, and after three the plugin is not called.
func TestAutoscale_hostile(t *testing.T) {
	rt := newRuntime(t, "")
	for do, want := range map[int]wasm.Reason{
		1: wasm.ReasonTrap, 2: wasm.ReasonFuel, 3: wasm.ReasonStatus, 6: "", 7: wasm.ReasonStatus, 10: wasm.ReasonUnwritten,
		11: wasm.ReasonIndex, 12: wasm.ReasonNotFinite,
		13: wasm.ReasonNotFinite, 14: wasm.ReasonNotFinite, 15: wasm.ReasonIndex, 16: wasm.ReasonIndex, 17: wasm.ReasonIndex,
		18: wasm.ReasonIndex, 21: wasm.ReasonIndex,
	} {
		t.Run(fmt.Sprint(do), func(t *testing.T) {
			p := loadFile(t, rt, hostile, fmt.Sprintf(`{"do": %d}`, do))
			for range 3 {
				began := time.Now()
				size, err := p.Autoscale(scaleView())
				f := faultOf(err)
				if f == nil || size != nil || f.Role != "x_autoscale" || want != "" && f.Reason != want {
					t.Fatalf("%+v, %v; want a fault for %s", size, err, want)
				}
				if d := time.Since(began); d > 20*time.Second {
					t.Errorf("took %v", d)
				}
				if _, err := p.Autoscale(scaleView()); !errors.Is(err, wasm.ErrBusy) && !errors.Is(err, wasm.ErrQuarantined) {
					t.Errorf("before the instance is made anew: %v", err)
				}
				rt.Maintain(context.Background(), time.Now())
			}
			if _, err := p.Autoscale(scaleView()); !errors.Is(err, wasm.ErrQuarantined) {
				t.Errorf("after three faults: %v", err)
			}
		})
	}
}

// TestAutoscale_harmless: a good answer, an abstention, an unsupported role, a
// header that was written over, text that would harm a terminal.
func TestAutoscale_harmless(t *testing.T) {
	rt := newRuntime(t, "")
	ask := func(do int) (*wasm.ScaleSize, error) {
		t.Helper()
		p := loadFile(t, rt, hostile, fmt.Sprintf(`{"do": %d}`, do))
		size, err := p.Autoscale(scaleView())
		if n := len(p.Stats().Faults); n != 0 {
			t.Errorf("%d: %d faults", do, n)
		}
		return size, err
	}
	if _, err := ask(4); !errors.Is(err, wasm.ErrAbstain) {
		t.Error(err)
	}
	if _, err := ask(5); !errors.Is(err, wasm.ErrUnsupported) {
		t.Error(err)
	}
	want := &wasm.ScaleSize{Desired: 6, Pools: []uint32{abi.Unwritten, abi.Unwritten}, Reason: "one more"}
	for _, do := range []int{0, 19} {
		if got, err := ask(do); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v, %v", do, got, err)
		}
	}
	if got, err := ask(20); err != nil || got.Reason != "??e more" {
		t.Errorf("%+v, %v", got, err)
	}
	p := loadFile(t, rt, hostile, "{}")
	v := scaleView()
	for range abi.MaxScaleSamples {
		v.Samples[0] = append(v.Samples[0], 0)
	}
	if _, err := p.Autoscale(v); faultOf(err) == nil || faultOf(err).Reason != wasm.ReasonTooMany {
		t.Errorf("too many samples: %v", err)
	}
	if err := p.Score(wasm.SmokeBatch(1, 1), make([]float32, 1), nil); !errors.Is(err, wasm.ErrNoRole) {
		t.Errorf("score: %v", err)
	}
}

// TestAutoscale_schedule: the example keeps the least size of the hour, and that of
// the hour in which a machine ordered now will serve.
func TestAutoscale_schedule(t *testing.T) {
	rt := newRuntime(t, "")
	hours := "[1,1,1,1,1,1,1,1,9,9,9,9,9,9,9,9,9,9,3,1,1,1,1,1]"
	p := loadFile(t, rt, "../../examples/autoscale-schedule/autoscale_schedule.wasm",
		`{"hours": `+hours+`, "offset_minutes": 60}`)
	for _, c := range []struct {
		utc      string
		proposed uint32
		want     uint32
		why      string
	}{
		{"03:00", 2, 2, "built-in, above the least size 1 of hour 4"}, {"03:00", 0, 1, "least size 1 of hour 4"},
		{"06:58", 2, 2, "built-in, above the least size 1 of hour 7"}, {"06:59:30", 2, 9, "least size 9 of hour 8"},
		{"07:00", 2, 9, "least size 9 of hour 8"},
		{"16:59:30", 2, 9, "least size 9 of hour 17"}, {"17:00", 2, 3, "least size 3 of hour 18"},
		{"23:30", 0, 1, "least size 1 of hour 0"}, {"12:00", 20, 20, ""},
	} {
		at, err := time.Parse("2006-01-02 15:04:05", "2026-03-01 "+(c.utc + ":00")[:8])
		if err != nil {
			t.Fatal(err)
		}
		v := scaleView()
		v.NowMS, v.Proposal.Desired = float64(at.UnixMilli()), c.proposed
		got, err := p.Autoscale(v)
		if err != nil || got.Desired != c.want || !strings.HasPrefix(got.Reason, c.why) {
			t.Errorf("%s, proposed %d: %+v, %v; want %d %q", c.utc, c.proposed, got, err, c.want, c.why)
		}
	}
	code, _ := os.ReadFile("../../examples/autoscale-schedule/autoscale_schedule.wasm")
	for _, bad := range []string{"{}", `{"hours": [1,2]}`,
		`{"hours": ` + strings.Replace(hours, "9", "2000", 1) + `}`,
		`{"hours": ` + strings.Replace(hours, "9", "-1", 1) + `}`,
		`{"hours": ` + hours + `, "offset_minutes": 1441}`} {
		if _, err := rt.Load(context.Background(), code, wasm.Options{Config: []byte(bad)}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// TestAutoscale_spot: the example fills the spot pool first while it has any,
// keeps a floor of the others, and exchanges own machines above it.
func TestAutoscale_spot(t *testing.T) {
	p := loadFile(t, newRuntime(t, ""), "../../examples/autoscale-spot/autoscale_spot.wasm", `{"floor": 2}`)
	for _, c := range []struct {
		own, spot, spotMax, proposed, desired uint32
		blocked                               bool
		ownSize                               uint32
	}{
		{own: 2, spot: 3, spotMax: 8, proposed: 7, desired: 7, ownSize: 2},
		{own: 2, spot: 8, spotMax: 8, proposed: 12, desired: 12, ownSize: 4}, // more than spot and floor
		{own: 0, spot: 1, spotMax: 8, proposed: 1, desired: 2, ownSize: 2},   // the floor
		{own: 4, spot: 1, spotMax: 8, proposed: 5, desired: 6, ownSize: 2},   // exchange one
		{own: 3, spot: 3, spotMax: 8, proposed: 5, desired: 5, ownSize: 2},   // and give one up
		{own: 2, spot: 3, spotMax: 8, proposed: 5, desired: 5, ownSize: 2},   // done
		{own: 2, spot: 3, spotMax: 8, proposed: 0, desired: 0, ownSize: abi.Unwritten},
	} {
		v := scaleView()
		v.Pools[0].Ready, v.Pools[0].Pending, v.Pools[1].Ready, v.Pools[1].Max, v.Pools[1].Blocked = c.own, 0, c.spot,
			c.spotMax, c.blocked
		v.Proposal.Desired = c.proposed
		got, err := p.Autoscale(v)
		if err != nil || got.Desired != c.desired || got.Pools[0] != c.ownSize || got.Pools[1] != abi.Unwritten {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	v := scaleView() // the spot pool is blocked
	if _, err := p.Autoscale(v); !errors.Is(err, wasm.ErrAbstain) {
		t.Errorf("blocked: %v", err)
	}
}

// FuzzReadScale: whatever bytes a guest leaves, an answer is within the bounds.
func FuzzReadScale(f *testing.F) {
	f.Add(uint32(3), uint32(1), uint64(0), uint64(0), uint32(3), uint32(0), uint32(1))
	f.Add(uint32(math.MaxUint32), uint32(math.MaxUint32), math.Float64bits(math.NaN()), uint64(1)<<63,
		uint32(math.MaxUint32), uint32(math.MaxUint32), uint32(1<<31))
	f.Fuzz(func(t *testing.T, desired, nvictims uint32, hold, ttl uint64, reason, pool, victim uint32) {
		v := scaleView()
		s, err := wasm.ReadScaleResult(v, desired, nvictims, hold, ttl, reason, pool, victim)
		if err != nil {
			return
		}
		ok := s.Desired <= abi.MaxScaleSize && s.HoldMS >= 0 && s.TTLMS >= 0 && !math.IsInf(s.HoldMS+s.TTLMS, 0) &&
			len(s.Victims) <= len(v.Nodes) && len(s.Reason) <= abi.MaxScaleReason
		for _, n := range s.Victims {
			ok = ok && int(n) < len(v.Nodes)
		}
		for _, n := range s.Pools {
			ok = ok && (n <= abi.MaxScaleSize || n == abi.Unwritten)
		}
		if !ok {
			t.Errorf("%+v", s)
		}
	})
}
