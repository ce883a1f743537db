//go:build !race

package wasm_test

import (
	"os"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestHostCalls_priced: no host call buys much more time for its fuel than the
// dearest instructions do. The guest does a thing many times by the number of
// candidates; thing 0 is a loop of divisions. (The race detector slows host calls
// down, but no guest.)
func TestHostCalls_priced(t *testing.T) {
	code, err := os.ReadFile("testdata/prices.wasm")
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, "")
	p, err := rt.Load(t.Context(), code, wasm.Options{Grants: []string{abi.ModuleLog, abi.ModuleMetrics}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	tr, err := p.NewTracer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	// per returns the nanoseconds of a unit of fuel in a thing.
	per := func(thing int) float64 {
		b, best := wasm.SmokeBatch(100+thing, 1), time.Hour
		scores := make([]float32, b.N)
		for range 20 {
			began := time.Now()
			if err := p.Score(b, scores, nil); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(began))
		}
		x, err := tr.Call(wasm.Score, b, false)
		if err != nil {
			t.Fatal(err)
		}
		return float64(best) / float64(x.Units)
	}
	reference := per(0)
	for i, name := range []string{"random_get of 16 KiB", "random_get of 8 bytes", "clock_time_get", "sched_yield",
		"fd_write", "poll_oneoff", "log", "metrics add"} {
		got := per(i + 1)
		t.Logf("%-22s %.2f ns per unit, a division %.2f", name, got, reference)
		if got > 4*reference {
			t.Errorf("%s: %.2f ns for a unit of fuel, a division buys %.2f", name, got, reference)
		}
	}
}
