package sdk

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/plugincheck"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/wasm"
	"github.com/kvasir-router/kvasir/plugins"
)

// buildGo builds a plugin with the Go toolchain that runs the tests.
func buildGo(t *testing.T, dir string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "plugin.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-ldflags=-s -w", "-o", out, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-mod=mod", "GOWORK=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", dir, err, text)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// buildTinyGo builds a plugin with TinyGo; ok is false if TinyGo is not installed.
func buildTinyGo(t *testing.T, dir string) (code []byte, ok bool) {
	t.Helper()
	tiny, ok := testdeps.TinyGo(t)
	if !ok {
		return nil, false
	}
	out := filepath.Join(t.TempDir(), "plugin.wasm")
	cmd := exec.Command("../../sdk/go/build.sh", dir, out)
	cmd.Env = append(os.Environ(), "TINYGO="+tiny)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", dir, err, text)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return code, true
}

// buildRust builds a plugin with cargo; ok is false if cargo or the target is not installed.
func buildRust(t *testing.T, dir string) (code []byte, ok bool) {
	t.Helper()
	if !testdeps.RustWasm(t) {
		return nil, false
	}
	out := filepath.Join(t.TempDir(), "plugin.wasm")
	cmd := exec.Command("../../sdk/rust/build.sh", dir, out)
	cmd.Env = append(os.Environ(), "TARGET_DIR="+t.TempDir())
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", dir, err, text)
	}
	code, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return code, true
}

var grants = []string{abi.ModuleLog, abi.ModuleKV, abi.ModuleMetrics}

// TestGo_guest builds a guest that uses all of the Go SDK, with Go and with TinyGo, runs
// the checks on it and verifies the answer of every role.
func TestGo_guest(t *testing.T) {
	t.Run("go", func(t *testing.T) { checkGoGuest(t, buildGo(t, "testdata/goguest"), true) })
	t.Run("tinygo", func(t *testing.T) {
		if code, ok := buildTinyGo(t, "testdata/goguest"); ok {
			t.Logf("%d bytes", len(code))
			checkGoGuest(t, code, false)
		}
	})
}

// checkGoGuest checks the guest goguest. sliced reports whether it must run in slices.
func checkGoGuest(t *testing.T, code []byte, sliced bool) {
	var logged bytes.Buffer
	m := hostmod.NewMetrics()
	rt, err := wasm.New(t.Context(), wasm.Config{Modules: []*wasm.HostModule{
		hostmod.Log(slog.New(slog.NewTextHandler(&logged, nil))), hostmod.KV(hostmod.NewSpaces(0)), m.Module()}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	if _, err := rt.Load(t.Context(), code, wasm.Options{Grants: grants[:2], Instances: 1}); err == nil ||
		!strings.Contains(err.Error(), abi.ModuleMetrics) {
		t.Errorf("without a grant: got %v, want a refusal that names %s", err, abi.ModuleMetrics)
	}
	p, err := rt.Load(t.Context(), code, wasm.Options{Grants: grants, Config: []byte("2.5"), Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if s := p.Stats(); s.Sliced != sliced {
		t.Errorf("sliced %v, want %v: %+v", s.Sliced, sliced, s)
	}
	checkGoScore(t, p)
	rt.Maintain(t.Context(), time.Now()) // replaces the only instance, which the fault closed
	checkGoOthers(t, p)
	observed := &wasm.Outcomes{N: 3, Endpoints: []uint32{abi.EndpointID(0, 1), abi.EndpointID(1, 1)}}
	observed.U32[abi.OutEndpointRow] = []uint32{1, 1, 0}
	if err := p.Observe(observed); err != nil {
		t.Fatal(err)
	}
	b := wasm.SmokeBatch(3, 1)
	scores := make([]float32, 3)
	if err := p.Score(b, scores, nil); err != nil {
		t.Fatal(err)
	}
	for i, seen := range []float32{1, 2, 0} {
		if want := seen*1000 - 2.5*b.Columns[abi.ColWaiting][i]; scores[i] != want {
			t.Errorf("after observe, candidate %d: got %v, want %v", i, scores[i], want)
		}
	}
	if s := m.Snapshot(); len(s) != 1 ||
		s[0] != (hostmod.Series{Plugin: "goguest", Name: "outcomes", Value: 3, Counter: true}) {
		t.Errorf("metrics: %+v", s)
	}
	if !strings.Contains(logged.String(), `text="observed 3"`) {
		t.Errorf("log: %q", logged.String())
	}
}

func checkGoScore(t *testing.T, p *wasm.Plugin) {
	b := wasm.SmokeBatch(20, 1)
	b.Request[abi.ReqObjective] = 2
	scores, terms := make([]float32, 20), make([]float32, 20)
	if err := p.Score(b, scores, terms); err != nil {
		t.Fatal(err)
	}
	for i, w := range b.Columns[abi.ColWaiting] {
		if scores[i] != -2.5*w-2 || terms[i] != -2.5*w {
			t.Fatalf("candidate %d: score %v, term %v, want %v and %v", i, scores[i], terms[i], -2.5*w-2, -2.5*w)
		}
	}
	if err := p.Score(wasm.SmokeBatch(14, 1), scores, nil); !errors.Is(err, wasm.ErrAbstain) {
		t.Errorf("got %v, want an abstention", err)
	}
	err := p.Score(wasm.SmokeBatch(13, 1), scores, nil)
	if f, ok := errors.AsType[*wasm.Fault](err); !ok || f.Reason != wasm.ReasonStatus ||
		!strings.Contains(f.Detail, "thirteen") {
		t.Errorf("got %v, want the guest's own text", err)
	}
}

func checkGoOthers(t *testing.T, p *wasm.Plugin) {
	b := wasm.SmokeBatch(5, 1)
	drops := make([]uint32, 5)
	if err := p.Filter(b, drops); err != nil {
		t.Fatal(err)
	}
	for i, d := range drops {
		if int(d) != i%2 {
			t.Errorf("candidate %d: drop %d, want %d", i, d, i%2)
		}
	}
	o := wasm.SmokeOrder(b)
	o.Mask[4] = 0
	if err := p.Pick(b, o); err != nil || o.Count[0] != 1 || o.Index[0] != 3 {
		t.Errorf("pick: %v, order %v of %d, want candidate 3", err, o.Index, o.Count)
	}
	if err := p.Idle(time.Now()); err != nil {
		t.Errorf("idle: %v", err)
	}
}

// TestGo_swap swaps a C plugin and a Go plugin under load. No call fails.
func TestGo_swap(t *testing.T) {
	goCode := buildGo(t, "../../examples/scorer-go")
	cCode, err := plugins.Code("leastwork")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := wasm.New(t.Context(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	load := func(code []byte) *wasm.Plugin {
		p, err := rt.Load(t.Context(), code, wasm.Options{Instances: 2})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var mu sync.RWMutex // guards active
	active := load(cCode)
	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		b := wasm.SmokeBatch(64, 1)
		scores := make([]float32, 64)
		for !stop.Load() {
			mu.RLock()
			if err := active.Score(b, scores, nil); err != nil {
				t.Error(err)
			}
			mu.RUnlock()
			calls.Add(1)
		}
	})
	for i := range 12 {
		code := goCode
		if i%2 == 1 {
			code = cCode
		}
		start := time.Now()
		p := load(code)
		took := time.Since(start)
		mu.Lock()
		old := active
		active = p
		mu.Unlock()
		old.Close()
		if i < 4 {
			t.Logf("swap %d: loaded %d bytes in %v", i, len(code), took)
		}
	}
	stop.Store(true)
	wg.Wait()
	active.Close()
	t.Logf("%d calls", calls.Load())
}

func TestGo_example(t *testing.T) {
	check := func(code []byte) {
		t.Helper()
		rep, err := plugincheck.Check(context.Background(), code, plugincheck.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !rep.OK() {
			t.Errorf("\n%v", rep)
		}
		t.Logf("%d bytes, %.0f units per candidate, sliced %v, memory %d KiB", rep.Bytes, rep.UnitsPerCandidate, rep.Sliced,
			rep.MemoryBytes>>10)
	}
	check(buildGo(t, "../../examples/scorer-go"))
	if code, ok := buildTinyGo(t, "../../examples/scorer-go"); ok {
		check(code)
	}
}

// TestGo_shipped checks that the shipped plugins built with Go score exactly, bit for
// bit, like the committed modules, which TinyGo built.
func TestGo_shipped(t *testing.T) {
	rt, err := wasm.New(t.Context(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, name := range []string{"roundrobin", "prefixfirst"} {
		shipped, err := plugins.Code(name)
		if err != nil {
			t.Fatal(err)
		}
		var got [2][]uint32
		for i, code := range [][]byte{shipped, buildGo(t, "../../plugins/"+name)} {
			p, err := rt.Load(t.Context(), code, wasm.Options{Instances: 1})
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(100) {
				n := int(1 + seed*7%64)
				scores, terms := make([]float32, n), make([]float32, n*len(p.Manifest().Roles[wasm.Score].Terms))
				if err := p.Score(wasm.SmokeBatch(n, seed), scores, terms); err != nil {
					t.Fatal(err)
				}
				for _, s := range slices.Concat(scores, terms) {
					got[i] = append(got[i], math.Float32bits(s))
				}
			}
			p.Close()
		}
		if !slices.Equal(got[0], got[1]) {
			t.Errorf("%s: Go and TinyGo differ", name)
		}
	}
}

// TestRust_example checks that the example passes the checks and scores like the one in Go.
func TestRust_example(t *testing.T) {
	code, ok := buildRust(t, "../../examples/scorer-rust")
	if !ok {
		return
	}
	rep, err := plugincheck.Check(context.Background(), code, plugincheck.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !rep.OK() {
		t.Errorf("\n%v", rep)
	}
	t.Logf("%d bytes, %.0f units per candidate, sliced %v, memory %d KiB", rep.Bytes, rep.UnitsPerCandidate, rep.Sliced,
		rep.MemoryBytes>>10)
	prefixfirst, err := plugins.Code("prefixfirst") // the same formula
	if err != nil {
		t.Fatal(err)
	}
	rt, err := wasm.New(t.Context(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	var scores [2][100]float32
	for i, code := range [][]byte{code, prefixfirst} {
		p, err := rt.Load(t.Context(), code, wasm.Options{Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Score(wasm.SmokeBatch(100, 3), scores[i][:], nil); err != nil {
			t.Fatal(err)
		}
	}
	if scores[0] != scores[1] {
		t.Error("Rust and Go differ")
	}
}

// committedC are modules in C whose binaries are in the repository.
var committedC = []string{
	"../../examples/learned-rate/learned_rate", "../../examples/autoscale-schedule/autoscale_schedule",
	"../../examples/autoscale-spot/autoscale_spot",
	"../../examples/engine-madeup/engine_madeup", "../guests/experimental/hostile",
}

// TestC_examples checks the committed modules and, if the compiler is installed, builds
// them again and compares.
func TestC_examples(t *testing.T) {
	code, err := os.ReadFile("../../examples/learned-rate/learned_rate.wasm")
	if err != nil {
		t.Fatal(err)
	}
	config := ""
	check := func(name string, code []byte) {
		t.Helper()
		rep, err := plugincheck.Check(context.Background(), code, plugincheck.Options{Config: []byte(config)})
		if err != nil {
			t.Fatal(err)
		}
		if !rep.OK() {
			t.Errorf("%s\n%v", name, rep)
		}
	}
	check("learned-rate", code)
	for _, e := range []struct{ file, config string }{
		{"autoscale-schedule/autoscale_schedule", `{"hours": [` + strings.Repeat("1,", 23) + `2]}`},
		{"autoscale-spot/autoscale_spot", "{}"}, {"engine-madeup/engine_madeup", ""},
	} {
		code, err := os.ReadFile("../../examples/" + e.file + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		config = e.config
		check(e.file, code)
	}
	config = ""
	if _, err := exec.LookPath("clang-19"); err != nil {
		t.Log("clang-19 is not installed: examples not built")
		return
	}
	check("scorer-c", buildC(t, "../../examples/scorer-c/scorer.c"))
	for _, name := range committedC {
		want, err := os.ReadFile(name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		if got := buildC(t, name+".c"); !bytes.Equal(got, want) {
			t.Errorf("%s.wasm differs from the build of its source", name)
		}
	}
}
