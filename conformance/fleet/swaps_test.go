package fleet

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// goScorer builds the example scorer with Go's standard toolchain.
func goScorer(t testing.TB) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "scorer.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, ".")
	build.Dir = filepath.Join("..", "..", "examples", "scorer-go")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, b)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// goVariant returns code with a different text in its data. A custom section is not
// enough: the compile cache ignores it.
func goVariant(t testing.TB, code []byte, number int) []byte {
	t.Helper()
	const text = "all goroutines are asleep"
	if !bytes.Contains(code, []byte(text)) {
		t.Fatalf("no text %q in the module", text)
	}
	return bytes.Replace(code, []byte(text), fmt.Appendf(nil, "%0*d", len(text), number), 1)
}

// TestPlugin_swapsUnderLoad checks that no request fails while plugins are swapped, and
// that the router releases the memory of previous plugins.
func TestPlugin_swapsUnderLoad(t *testing.T) {
	swaps := 200
	if testing.Short() {
		swaps = 20
	}
	swapUnderLoad(t, swaps, 2)
}

// swapUnderLoad pushes C modules in alternation under the load of 12 clients and,
// evenly distributed among them, goSwaps Go modules, each a distinct module that must be
// compiled. It measures the router's memory after every fifth of the swaps. The
// comparison starts after the first fifth, when the router has reached its usual size.
func swapUnderLoad(t *testing.T, swaps, goSwaps int) {
	inGo := goScorer(t)
	engines := startEngines(t, 3)
	file := filepath.Join(t.TempDir(), "mine.wasm")
	save(t, file, guest(t, "first", 0))
	// The buffers for requests must be full before the first measurement.
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}",
		"{name: default, holdout: 0, scorers: [{plugin: mine}]}",
		fmt.Sprintf("plugins: [{name: mine, file: %q}]\nlimits: {decisions: 1MiB, index: 16MiB}\n", file))
	model := engines[0].Model
	var stop atomic.Bool
	var sent, failed atomic.Int64
	var wg sync.WaitGroup
	for c := range 12 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, err := harness.Post(r.URL+"/v1/chat/completions", "",
					chatBody(model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), i%2 == 0, 4))
				if sent.Add(1); err != nil || a.Status != 200 {
					failed.Add(1)
					t.Errorf("%v %+v", err, a)
				}
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)
	var took [2][]time.Duration // durations of pushes: C, Go
	begun, before := time.Now(), gauges(t, r)
	every := swaps / goSwaps
	var heap, beside []float64 // MB
	for i := range swaps {
		if i > 0 && i%(swaps/5) == 0 {
			before = gauges(t, r)
			h, b := heldBy(t, r)
			heap, beside = append(heap, h), append(beside, b)
		}
		harness.Await(t, 30*time.Second, "requests placed by the previous plugin",
			func() bool { return sent.Load() >= int64(3*i) })
		code, kind := guest(t, []string{"first", "worst"}[i%2], i+1), 0
		if i%every == every/8 {
			code, kind = goVariant(t, inGo, i), 1
		}
		at := time.Now()
		if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", code); s != 200 {
			t.Fatalf("swap %d: %d %s", i, s, b)
		}
		took[kind] = append(took[kind], time.Since(at))
	}
	whole := time.Since(begun)
	stop.Store(true)
	wg.Wait()
	harness.Await(t, 10*time.Second, "one plugin is left", func() bool {
		_, b := adminDo(t, r, "GET", "/v1/plugins", nil)
		return strings.Count(string(b), `"source":`) == 1
	})
	h, b := heldBy(t, r)
	heap, beside = append(heap, h), append(beside, b)
	end := gauges(t, r)
	for _, d := range took {
		slices.Sort(d)
	}
	space := (end["process_virtual_memory_bytes"] - before["process_virtual_memory_bytes"]) / 1e6
	t.Logf("%d swaps of C (median %v) and %d of Go (median %v) in %v, %d requests, %d failed; goroutines %v → %v; MB "+
		"after each fifth: heap %.1f, outside the heap %.1f; address space %+.0f MB in the last",
		len(took[0]), took[0][len(took[0])/2], len(took[1]), took[1][len(took[1])/2], whole.Round(time.Millisecond),
		sent.Load(), failed.Load(),
		before["go_goroutines"], end["go_goroutines"], heap, beside, space)
	last := len(heap) - 1
	if end["go_goroutines"] > before["go_goroutines"]+20 || heap[last] > heap[0]+heapSlack ||
		beside[last] > beside[0]+besideSlack || space > spaceSlack {
		t.Error("memory or goroutines of previous plugins are not released")
	}
}

// How much more memory, in MB, a router may hold after all swaps than after the first
// fifth. On the heap it keeps its records of requests, 1 kB each; a plugin that is not
// released would hold 30 kB in C and 5 MB in Go. Outside the heap are guests' memory and
// compiled code, 0.5 MB and 20 MB per plugin, and the overhead of Go's runtime. Every
// instance that is not released holds 16 MiB of address space.
const (
	heapSlack   = 16
	besideSlack = 8
	spaceSlack  = 300
)

// heldBy returns how many MB are live on a router's heap after a collection, and how
// many MB of its anonymous memory are outside the heap.
func heldBy(t testing.TB, r *harness.Router) (heap, beside float64) {
	t.Helper()
	if status, b := harness.GetBody(r.Admin+"/debug/pprof/heap?gc=1", r.Token); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", r.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	g := gauges(t, r)
	_, rest, _ := bytes.Cut(b, []byte("Anonymous:"))
	var kb float64
	if _, err := fmt.Sscan(string(rest), &kb); err != nil {
		t.Fatal(err)
	}
	return g["go_memstats_heap_alloc_bytes"] / 1e6,
		kb/1e3*1.024 - (g["go_memstats_heap_sys_bytes"]-g["go_memstats_heap_released_bytes"])/1e6
}
