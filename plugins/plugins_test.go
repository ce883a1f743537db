package plugins_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/wasm"
	"github.com/kvasir-router/kvasir/plugins"
)

func load(t testing.TB, name string, opt wasm.Options) *wasm.Plugin {
	t.Helper()
	code, err := plugins.Code(name)
	if err != nil {
		t.Fatal(err)
	}
	rt, err := wasm.New(context.Background(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Load(context.Background(), code, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// batches are one decision for the built-in scorer and for a plugin, over the same
// columns.
type batches struct {
	native scheduler.Batch
	guest  wasm.Batch
}

func newBatches(n int, rng *rand.Rand) *batches {
	b := &batches{}
	col := func(id int, f func() float32) []float32 {
		c := make([]float32, n)
		for i := range c {
			c[i] = f()
		}
		b.guest.Columns[id] = c
		return c
	}
	small := func() float32 { return float32(rng.IntN(64)) }
	tokens := func() float32 {
		if rng.IntN(8) == 0 {
			return rng.Float32() * 1e30 // far outside what occurs
		}
		return float32(rng.IntN(200_000)) * rng.Float32()
	}
	b.guest.N, b.native.N = n, n
	b.native.Uncached = col(abi.ColUncachedTokens, func() float32 { return max(1, tokens()) })
	b.native.Outstanding = col(abi.ColOutstandingUncachedTokens, tokens)
	b.native.Inflight = col(abi.ColInflight, small)
	b.native.KVActive = col(abi.ColKVActiveTokens, tokens)
	b.native.Speed = col(abi.ColSpeed, func() float32 { return 0.25 + 4*rng.Float32() })
	b.native.Delay = col(abi.ColDecodeDelayTokens, func() float32 { return float32(rng.IntN(2)) * 5000 * rng.Float32() })
	b.native.Scores = make([]float32, n)
	return b
}

var objectives = []struct {
	name scheduler.Objective
	req  uint64
}{{scheduler.Blend, abi.ObjectiveBlend}, {scheduler.TTFT, abi.ObjectiveTTFT},
	{scheduler.Throughput, abi.ObjectiveThroughput}}

// TestLeastWork_native compares the plugin with the built-in scorer, bit for
// bit, with the objective from the request and from the config, with and
// without terms.
func TestLeastWork_native(t *testing.T) {
	p := load(t, "leastwork", wasm.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	for _, o := range objectives {
		fixed := load(t, "leastwork", wasm.Options{Config: []byte(`{"objective": "` + string(o.name) + `"}`)})
		builtin := scheduler.NewLeastWork(o.name)
		for range 300 {
			n := rng.IntN(200)
			b := newBatches(n, rng)
			if err := builtin.Score(&b.native); err != nil {
				t.Fatal(err)
			}
			b.guest.Request[abi.ReqObjective] = o.req
			scores, terms := make([]float32, n), make([]float32, 6*n)
			check := func(what string, p *wasm.Plugin, terms []float32) {
				t.Helper()
				if err := p.Score(&b.guest, scores, terms); err != nil {
					t.Fatal(err)
				}
				for i := range scores {
					if math.Float32bits(scores[i]) != math.Float32bits(b.native.Scores[i]) {
						t.Fatalf("%s %s: candidate %d of %d: got %v, want %v", o.name, what, i, n, scores[i], b.native.Scores[i])
					}
				}
			}
			check("plugin", p, nil)
			check("with terms", p, terms)
			b.guest.Request[abi.ReqObjective] = 99
			check("by config", fixed, nil)
			for i := range n {
				if got, want := terms[i], 0-b.native.Outstanding[i]; got != want {
					t.Fatalf("term outstanding: got %v, want %v", got, want)
				}
			}
		}
	}
}

func TestLeastWork_config(t *testing.T) {
	code, _ := plugins.Code("leastwork")
	rt, err := wasm.New(context.Background(), wasm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, bad := range []string{`{"objective": "speed"}`, `{"objektive": "ttft"}`} {
		if _, err := rt.Load(context.Background(), code, wasm.Options{Config: []byte(bad)}); err == nil {
			t.Errorf("the config %s was accepted", bad)
		}
	}
}

// TestRoundRobin checks that every endpoint wins its share of seeds.
func TestRoundRobin(t *testing.T) {
	p := load(t, "roundrobin", wasm.Options{})
	const n, rounds = 8, 8000
	b := wasm.SmokeBatch(n, 1)
	won, scores := make([]int, n), make([]float32, n)
	for seed := range uint64(rounds) {
		b.Seed = seed
		if err := p.Score(b, scores, nil); err != nil {
			t.Fatal(err)
		}
		best := 0
		for i, s := range scores {
			if s > scores[best] {
				best = i
			}
		}
		won[best]++
	}
	for i, w := range won {
		if w < rounds/n*85/100 || w > rounds/n*115/100 {
			t.Errorf("endpoint %d got %d of %d", i, w, rounds)
		}
	}
}

func TestPrefixFirst(t *testing.T) {
	p := load(t, "prefixfirst", wasm.Options{})
	b := wasm.SmokeBatch(37, 1)
	scores := make([]float32, 37)
	if err := p.Score(b, scores, make([]float32, 2*37)); err != nil {
		t.Fatal(err)
	}
	for i := range scores {
		h, q := b.Columns[abi.ColMatchedRatio][i], b.Columns[abi.ColWaiting][i]
		if want := float32(float32(2*h) - float32(q/float32(q+4))); scores[i] != want {
			t.Errorf("candidate %d: got %v, want %v", i, scores[i], want)
		}
	}
}

// TestPrefixFirst_terms: the terms add up to the score, and none is minus zero.
func TestPrefixFirst_terms(t *testing.T) {
	p := load(t, "prefixfirst", wasm.Options{})
	b := wasm.SmokeBatch(37, 1)
	b.Columns[abi.ColWaiting] = make([]float32, 37)
	scores, terms := make([]float32, 37), make([]float32, 2*37)
	if err := p.Score(b, scores, terms); err != nil {
		t.Fatal(err)
	}
	for i := range scores {
		if terms[i]+terms[37+i] != scores[i] || math.Float32bits(terms[37+i]) != 0 {
			t.Errorf("candidate %d: terms %v and %v of %v", i, terms[i], terms[37+i], scores[i])
		}
	}
}

// TestCode_current builds the plugins and compares them with the committed
// modules, where the compilers are installed.
func TestCode_current(t *testing.T) {
	build := []string{"./build.sh", t.TempDir()}
	if _, err := exec.LookPath("clang-19"); err == nil {
		build = append(build, "leastwork")
	} else {
		t.Logf("leastwork is not compared: %v", err)
	}
	if tiny, ok := testdeps.TinyGo(t); ok {
		t.Setenv("TINYGO", tiny)
		build = append(build, "roundrobin", "prefixfirst")
	}
	if len(build) == 2 {
		return
	}
	if out, err := exec.Command(build[0], build[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range build[2:] {
		got, err := os.ReadFile(filepath.Join(build[1], name+".wasm"))
		want, _ := plugins.Code(name)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.wasm differs from what its source compiles to (%v)", name, err)
		}
	}
}
