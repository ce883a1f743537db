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

// goVariant is code with another text in its data. A custom section would not
// do: the compile cache does not see it.
func goVariant(t testing.TB, code []byte, number int) []byte {
	t.Helper()
	const text = "all goroutines are asleep"
	if !bytes.Contains(code, []byte(text)) {
		t.Fatalf("no text %q in the module", text)
	}
	return bytes.Replace(code, []byte(text), fmt.Appendf(nil, "%0*d", len(text), number), 1)
}

// TestPlugin_swapsUnderLoad: no request fails while plugins are swapped, and
// nothing of those before stays.
func TestPlugin_swapsUnderLoad(t *testing.T) {
	swaps := 200
	if testing.Short() {
		swaps = 20
	}
	swapUnderLoad(t, swaps, 2)
}

// swapUnderLoad pushes modules of C by turns under the load of 12 clients, and
// in between, evenly, goSwaps of Go, each a module of its own that is compiled
// anew. A quarter goes ahead of what is measured: the router must have reached
// its size.
func swapUnderLoad(t *testing.T, swaps, goSwaps int) {
	inGo := goScorer(t)
	r, engines, _ := fleetWith(t, guest(t, "first", 0), "{name: default, holdout: 0, scorers: [{plugin: mine}]}")
	model := engines[0].Model
	var stop atomic.Bool
	var sent, failed atomic.Int64
	var wg sync.WaitGroup
	for c := range 12 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, err := harness.Post(r.URL+"/v1/chat/completions", "", chatBody(model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), i%2 == 0, 4))
				if sent.Add(1); err != nil || a.Status != 200 {
					failed.Add(1)
					t.Errorf("%v %+v", err, a)
				}
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)
	var took [2][]time.Duration // of pushes: C, Go
	begun, before := time.Now(), gauges(t, r)
	every := swaps / goSwaps
	for i := range swaps {
		if i == swaps/4 {
			before = gauges(t, r)
		}
		harness.Await(t, 30*time.Second, "requests by the plugin before", func() bool { return sent.Load() >= int64(3*i) })
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
	end := gauges(t, r)
	for _, d := range took {
		slices.Sort(d)
	}
	t.Logf("%d swaps of C (median %v) and %d of Go (median %v) in %v, %d requests, %d failed; goroutines %v → %v, resident %.1f → %.1f MB",
		len(took[0]), took[0][len(took[0])/2], len(took[1]), took[1][len(took[1])/2], whole.Round(time.Millisecond), sent.Load(), failed.Load(),
		before["go_goroutines"], end["go_goroutines"], before["process_resident_memory_bytes"]/1e6, end["process_resident_memory_bytes"]/1e6)
	if end["go_goroutines"] > before["go_goroutines"]+20 || end["process_resident_memory_bytes"] > 1.3*before["process_resident_memory_bytes"]+60e6 {
		t.Error("something of the plugins before stays")
	}
}
