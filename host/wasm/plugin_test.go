package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/internal/snapshot"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/wasm"
)

func loadPath(t testing.TB, rt *wasm.Runtime, path string, opt wasm.Options) *wasm.Plugin {
	t.Helper()
	code, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Load(context.Background(), code, opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestObserve_publishes: what observe learns a scorer reads, by endpoint and
// generation, also after the plugin was swapped.
func TestObserve_publishes(t *testing.T) {
	const file = "../../examples/learned-rate/learned_rate.wasm"
	rt := newRuntime(t, "")
	p := loadPath(t, rt, file, wasm.Options{})
	ids := []uint32{abi.EndpointID(3, 1), abi.EndpointID(7, 2)}
	b := &wasm.Batch{N: 2, EndpointIDs: ids}
	b.Columns[abi.ColUncachedTokens] = []float32{1000, 1000}
	scores := func(p *wasm.Plugin) [2]float32 {
		t.Helper()
		var s [2]float32
		if err := p.Score(b, s[:], nil); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got, want := scores(p), [2]float32{-100, -100}; got != want {
		t.Fatalf("before outcomes: got %v, want %v by the default of 10 tokens/ms", got, want)
	}
	o := &wasm.Outcomes{N: 1, Endpoints: ids}
	o.U32[abi.OutEndpointRow] = []uint32{1}
	o.Columns[abi.OutPromptTokens] = []float32{2000}
	o.Columns[abi.OutTTFTMS] = []float32{1000}
	if err := p.Observe(o); err != nil {
		t.Fatal(err)
	}
	want := [2]float32{-100, -500}
	if got := scores(p); got != want {
		t.Errorf("after an outcome of 2 tokens/ms: got %v, want %v", got, want)
	}
	next := loadPath(t, rt, file, wasm.Options{})
	p.Close()
	if got := scores(next); got != want {
		t.Errorf("after a swap: got %v, want %v", got, want)
	}
	b.EndpointIDs = []uint32{ids[0], abi.EndpointID(7, 3)}
	if got, want := scores(next), [2]float32{-100, -100}; got != want {
		t.Errorf("another endpoint in the same slot: got %v, want %v", got, want)
	}
	if err := next.Idle(time.Now()); !errors.Is(err, wasm.ErrNoRole) {
		t.Errorf("idle: got %v, want %v", err, wasm.ErrNoRole)
	}
	next.Close()
	if err := next.Observe(o); !errors.Is(err, wasm.ErrClosed) {
		t.Errorf("observe after Close: got %v", err)
	}
}

// TestQuarantine: repeated faults silence a plugin, probes with growing waits
// bring it back, and faults after a probe silence it at once.
func TestQuarantine(t *testing.T) {
	rt := newRuntime(t, "")
	p := load(t, rt, "unreachable", wasm.Options{Instances: 2})
	now := time.Now()
	ctx := context.Background()
	for i := range 3 {
		if _, err := callRole(p, "score", wasm.SmokeBatch(7, 99)); faultOf(err) == nil {
			t.Fatalf("call %d: got %v, want a fault", i, err)
		}
		if i < 2 {
			rt.Maintain(ctx, now)
		}
	}
	if _, err := callRole(p, "score", wasm.SmokeBatch(5, 99)); !errors.Is(err, wasm.ErrQuarantined) {
		t.Fatalf("after three faults: got %v, want %v", err, wasm.ErrQuarantined)
	}
	if s := p.Stats(); !s.Quarantined || s.QuarantineReason == "" {
		t.Errorf("stats: %+v", s)
	}
	wait := time.Second
	for range 3 {
		next := rt.Maintain(ctx, now)
		if d := next.Sub(now); d > wait+time.Second/2 || d < wait-time.Second/2 {
			t.Fatalf("probe in %v, want %v", d, wait)
		}
		now = next
		rt.Maintain(ctx, now)
		if _, err := callRole(p, "score", wasm.SmokeBatch(5, 99)); err != nil {
			t.Fatalf("after the probe: %v", err)
		}
		if _, err := callRole(p, "score", wasm.SmokeBatch(7, 99)); faultOf(err) == nil {
			t.Fatalf("got %v, want a fault", err)
		}
		if _, err := callRole(p, "score", wasm.SmokeBatch(5, 99)); !errors.Is(err, wasm.ErrQuarantined) {
			t.Fatalf("the first fault after a probe: got %v, want %v", err, wasm.ErrQuarantined)
		}
		now, wait = time.Now(), 2*wait
	}
}

// TestSwap_stress swaps plugins under load: no call fails, every instance is
// closed, nothing is left. Under the race detector it makes a fifth of the swaps.
func TestSwap_stress(t *testing.T) {
	swaps, workers := 500, 4
	if testdeps.Race {
		swaps = 100
	}
	if testing.Short() {
		swaps, workers = 40, 2
	}
	rt := newRuntime(t, "")
	files := []string{"../../plugins/leastwork.wasm", "../../plugins/prefixfirst.wasm",
		"../../examples/learned-rate/learned_rate.wasm"}
	var h snapshot.Holder[wasm.Plugin]
	next := func(i int) {
		code, err := os.ReadFile(files[i%len(files)])
		if err != nil {
			t.Fatal(err)
		}
		// another version each time, so that nothing is compiled already
		code = bytes.Replace(code, []byte(`"version":"1.0.0"`), fmt.Appendf(nil, `"version":"%05d"`, i), 1)
		p, err := rt.Load(context.Background(), code, wasm.Options{Instances: workers})
		if err != nil {
			t.Fatal(err)
		}
		h.Swap(p, (*wasm.Plugin).Close)
	}
	next(0)
	before := runtime.NumGoroutine()
	var stop atomic.Bool
	var calls, failed atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			b := wasm.SmokeBatch(64, 1)
			scores := make([]float32, 64)
			for !stop.Load() {
				l := h.Acquire()
				if err := l.Value().Score(b, scores, nil); err != nil {
					failed.Add(1)
					t.Error(err)
				}
				l.Release()
				calls.Add(1)
				runtime.Gosched()
			}
		})
	}
	var early, late runtime.MemStats
	for i := range swaps {
		next(i + 1)
		if i == swaps/4 {
			runtime.GC()
			runtime.ReadMemStats(&early)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&late)
	stop.Store(true)
	wg.Wait()
	h.Swap(nil, nil)
	t.Logf("%d swaps, %d calls, heap %d KiB then %d KiB", swaps, calls.Load(), early.HeapAlloc>>10, late.HeapAlloc>>10)
	if failed.Load() > 0 {
		t.Errorf("%d of %d calls failed", failed.Load(), calls.Load())
	}
	if !testing.Short() && late.HeapAlloc > early.HeapAlloc+8<<20 {
		t.Errorf("heap grew from %d to %d bytes", early.HeapAlloc, late.HeapAlloc)
	}
	if got := runtime.NumGoroutine(); got > before {
		t.Errorf("%d goroutines, before %d", got, before)
	}
}

// TestRun: Run maintains plugins by itself: a guest that faults every now and then keeps its
// instances, called from several goroutines at once.
func TestRun_stress(t *testing.T) {
	rt := newRuntime(t, "")
	p := load(t, rt, "unreachable", wasm.Options{Instances: 3})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rt.Run(ctx) }()
	var wg sync.WaitGroup
	var good, faults, other atomic.Int64
	for w := range 3 {
		wg.Go(func() {
			for i := range 1500 {
				n := 5
				if i%700 == 100*w+50 {
					n = 7
				}
				_, err := callRole(p, "score", wasm.SmokeBatch(n, 99))
				switch {
				case err == nil:
					good.Add(1)
				case faultOf(err) != nil:
					faults.Add(1)
				default:
					other.Add(1) // busy or in quarantine
				}
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if good.Load() == 0 || faults.Load() == 0 {
		t.Errorf("%d good, %d faults, %d other", good.Load(), faults.Load(), other.Load())
	}
	rt.Maintain(context.Background(), time.Now().Add(time.Hour))
	if got := p.Stats().Instances; got != 3 {
		t.Errorf("%d instances at the end, want 3", got)
	}
}

// TestLoad_collection: a collection of garbage does not wait for a guest that
// runs for long in sliced form; it gets its turn between two slices. If it waited, no
// more than one would fit beside a guest, however often that runs. On a busy machine few
// fit beside one run, so several runs are tried.
func TestLoad_collection(t *testing.T) {
	rt := newRuntime(t, "")
	code, err := (&guests.Guest{File: "spin_initialize"}).Code()
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for range 20 {
		n, took := collectionsDuringLoad(rt, code)
		t.Logf("%d collections while a guest ran for %v", n, took)
		if most = max(most, n); most >= 5 {
			return
		}
	}
	t.Errorf("%d collections while a guest ran, want 5", most)
}

// collectionsDuringLoad returns how many collections fit beside loading a guest, and how
// long that took.
func collectionsDuringLoad(rt *wasm.Runtime, code []byte) (n int, took time.Duration) {
	done := make(chan time.Duration, 1)
	go func() {
		start := time.Now()
		if p, err := rt.Load(context.Background(), code, wasm.Options{}); err == nil {
			p.Close()
		}
		done <- time.Since(start)
	}()
	for {
		select {
		case took = <-done:
			return n, took
		default:
			runtime.GC()
			n++
		}
	}
}

func TestNew_cache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	rt := newRuntime(t, dir)
	load(t, rt, "ok", wasm.Options{})
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Fatalf("cache folder: %v, %v", st, err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if rt, err := wasm.New(context.Background(), wasm.Config{CacheDir: dir}); err == nil {
		rt.Close()
		t.Error("a cache others may read was accepted")
	}
}

func TestLoad_options(t *testing.T) {
	for _, opt := range []wasm.Options{{Config: []byte("{")}, {Instances: -1}, {MemoryPages: 1 << 20}} {
		if opt.Validate() == nil {
			t.Errorf("%+v is valid", opt)
		}
	}
	rt := newRuntime(t, "")
	p := load(t, rt, "ok", wasm.Options{Instances: 1})
	if err := p.Filter(&wasm.Batch{}, nil); !errors.Is(err, wasm.ErrNoRole) {
		t.Errorf("filter: got %v, want %v", err, wasm.ErrNoRole)
	}
	if _, err := callRole(p, "score", wasm.SmokeBatch(abi.MaxCandidates+1, 99)); faultOf(err) == nil ||
		faultOf(err).Reason != wasm.ReasonTooMany {
		t.Errorf("too many candidates: got %v", err)
	}
	if got := p.Stats(); len(got.Faults) != 0 || got.Instances != 1 {
		t.Errorf("the host's mistake cost the guest: %+v", got)
	}
}

func TestScore_terms(t *testing.T) {
	rt := newRuntime(t, "")
	p := loadPath(t, rt, "../../plugins/prefixfirst.wasm", wasm.Options{})
	defer p.Close()
	b := wasm.SmokeBatch(20, 1)
	scores, terms := make([]float32, 20), make([]float32, 40)
	if err := p.Score(b, scores, terms); err != nil {
		t.Fatal(err)
	}
	for i := range scores {
		if got := terms[i] + terms[20+i]; math.Abs(float64(got-scores[i])) > 1e-6 {
			t.Errorf("candidate %d: terms add up to %v, score %v", i, got, scores[i])
		}
	}
}
