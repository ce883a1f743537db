package wasm_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestSwap_memory swaps modules of C and Go, each another one, that score and go,
// and measures the memory after 100, 200, … of them: on the heap, and of the
// system, where guests' memory and compiled code are.
func TestSwap_memory(t *testing.T) {
	testdeps.Sequential(t)
	swaps, every := 500, 100
	if testing.Short() {
		swaps, every = 100, 20
	}
	rt, _, _ := withChild(t, childServes)
	var modules [][]byte
	for _, name := range []string{"leastwork", "prefixfirst", "roundrobin"} {
		code, err := os.ReadFile("../../plugins/" + name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		modules = append(modules, code)
	}
	b := wasm.SmokeBatch(200, 1)
	scores := make([]float32, b.N)
	var heap, system []uint64
	for i := range swaps + 1 {
		// The version is part of the manifest, in the data.
		code := bytes.Replace(modules[i%len(modules)], []byte("1.0.0"), fmt.Appendf(nil, "%05d", i), 1)
		p, err := rt.Load(context.Background(), code, wasm.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			if err := p.Score(b, scores, nil); err != nil {
				t.Fatal(err)
			}
		}
		p.Close()
		if i > 0 && i%every == 0 {
			h, s := held(t)
			heap, system = append(heap, h), append(system, s)
		}
	}
	t.Logf("held after every %d swaps: heap %d, system %d KiB", every, heap, system)
	last := len(heap) - 1
	if heap[last] > heap[0]+256 || system[last] > system[0]+4096 {
		t.Error("memory of earlier plugins is not released")
	}
}

// held returns how many KiB live on the heap after a collection, and how many the
// process has of the system but for its files (0 where there is no such account).
func held(t testing.TB) (heap, system uint64) {
	t.Helper()
	runtime.GC() // runs finalizers' first half
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return m.HeapAlloc >> 10, 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Anonymous:"); ok {
			if _, err := fmt.Sscan(rest, &system); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m.HeapAlloc >> 10, system
}
