package wasm_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestScore_recycled: an instance whose memory grows is replaced off the call,
// no caller is without one meanwhile, and one that does not grow stays.
func TestScore_recycled(t *testing.T) {
	rt := newRuntime(t, "")
	leak, ok := load(t, rt, "leak", wasm.Options{Instances: 1}), load(t, rt, "ok", wasm.Options{Instances: 1})
	b := wasm.SmokeBatch(7, 99)
	for range 3000 { // 3,000 pages at a limit of 256, 8 at the start
		for _, p := range []*wasm.Plugin{leak, ok} {
			scores, err := callRole(p, "score", b)
			if err != nil {
				t.Fatal(err)
			}
			if math.IsNaN(float64(scores[6])) {
				t.Fatal("no score")
			}
		}
		rt.Maintain(context.Background(), time.Now())
	}
	// 64 calls to be looked at, 64 more than the start and the arena explain.
	if got := leak.Stats(); got.Recycled < 3000/128-2 || got.Recycled > 3000/64+2 || got.Refills != 0 ||
		got.Instances != 1 {
		t.Errorf("a guest that leaks: %+v", got)
	}
	if got := ok.Stats(); got.Recycled != 0 {
		t.Errorf("a guest that does not: %+v", got)
	}
}

// TestScore_recycled_stress: callers, Maintain and Close at once.
func TestScore_recycled_stress(t *testing.T) {
	rt := newRuntime(t, "")
	for range 5 {
		p := load(t, rt, "leak", wasm.Options{Instances: 3})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = rt.Run(ctx) })
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				b := wasm.SmokeBatch(7, 99)
				// Those that run Maintain may come late: go on until they did.
				for i := 0; i < 600 || i < 1e6 && p.Stats().Recycled == 0; i++ {
					if _, err := callRole(p, "score", b); err != nil {
						t.Error(err)
					}
				}
			})
		}
		callers.Wait()
		p.Close()
		stop()
		wg.Wait()
		if got := p.Stats(); got.Recycled == 0 {
			t.Errorf("%+v", got)
		}
	}
}
