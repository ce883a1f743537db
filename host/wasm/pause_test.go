package wasm_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestHostile_neighbours calls every hostile guest again and again while a
// good plugin is called beside it: the good one never fails, and the times of
// its calls are logged.
func TestHostile_neighbours(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 1
	}
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, "")
	good := load(t, rt, "ok", wasm.Options{Instances: 2})
	var stop atomic.Bool
	var took []time.Duration
	var wg sync.WaitGroup
	wg.Go(func() {
		b := wasm.SmokeBatch(64, 1)
		scores := make([]float32, 64)
		pace := time.NewTicker(50 * time.Microsecond) // an open loop, not a race for the processor
		defer pace.Stop()
		for !stop.Load() {
			<-pace.C
			start := time.Now()
			if err := good.Score(b, scores, nil); err != nil {
				t.Error(err)
			}
			took = append(took, time.Since(start))
		}
	})
	faults := 0
	for range rounds {
		for _, g := range all {
			if len(g.Fault) == 0 {
				continue
			}
			p := load(t, rt, g.File, wasm.Options{Grants: g.Grants, Instances: 1})
			if _, err := callRole(p, g.Role, wasm.SmokeBatch(g.N, 99)); faultOf(err) == nil {
				t.Errorf("%s: got %v, want a fault", g.File, err)
			}
			rt.Maintain(context.Background(), time.Now())
			faults++
		}
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(took)
	at := func(q float64) time.Duration { return took[int(q*float64(len(took)-1))] }
	t.Logf("%d calls beside %d faults: p50 %v, p99 %v, p99.9 %v, max %v", len(took), faults, at(0.5), at(0.99), at(0.999),
		at(1))
}
