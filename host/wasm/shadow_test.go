package wasm_test

import (
	"math"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestShadow compares a guest that rates by minus waiting with itself, with
// its reverse, and with one that differs in the first place only.
func TestShadow(t *testing.T) {
	rt := newRuntime(t, "")
	p := load(t, rt, "ok", wasm.Options{Instances: 1})
	const n = 6
	b := &wasm.Batch{N: n}
	b.Columns[abi.ColWaiting] = []float32{1, 2, 3, 4, 5, 6}
	for _, c := range []struct {
		name      string
		scores    []float32
		elsewhere uint64
		tau       float64
	}{
		{"the same", []float32{-1, -2, -3, -4, -5, -6}, 0, 1},
		{"the same order", []float32{6, 5, 4, 1, 0, -1}, 0, 1},
		{"the reverse", []float32{1, 2, 3, 4, 5, 6}, 1, -1},
		{"two swapped", []float32{-2, -1, -3, -4, -5, -6}, 1, 1 - 2.0/15},
		{"no opinion", []float32{7, 7, 7, 7, 7, 7}, 0, 0},
	} {
		var s wasm.Shadow
		for range 3 {
			if err := s.Add(p, b, c.scores, make([]float32, n)); err != nil {
				t.Fatal(err)
			}
		}
		got := s.Stats()
		if got.Decisions != 3 || got.Elsewhere != 3*c.elsewhere || math.Abs(got.Agreement-c.tau) > 1e-9 {
			t.Errorf("%s: %+v, want %d elsewhere, agreement %v", c.name, got, 3*c.elsewhere, c.tau)
		}
	}
	var s wasm.Shadow
	if err := s.Add(load(t, rt, "abstain", wasm.Options{Instances: 1}), wasm.SmokeBatch(7, 1), make([]float32, 7),
		make([]float32, 7)); err != nil || s.Stats().Abstained != 1 {
		t.Errorf("an abstention: %v, %+v", err, s.Stats())
	}
}
