package wasm_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// newRuntime returns a runtime with all host modules, closed with the test.
func newRuntime(t testing.TB, cacheDir string) *wasm.Runtime {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	rt, err := wasm.New(context.Background(), wasm.Config{CacheDir: cacheDir, Modules: []*wasm.HostModule{
		hostmod.Log(log), hostmod.KV(hostmod.NewSpaces(0)), hostmod.NewMetrics().Module(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

// load loads a hostile guest by its file name.
func load(t testing.TB, rt *wasm.Runtime, file string, opt wasm.Options) *wasm.Plugin {
	t.Helper()
	g := guests.Guest{File: file}
	code, err := g.Code()
	if err != nil {
		t.Fatal(err)
	}
	p, err := rt.Load(context.Background(), code, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// callRole calls the role a guest misbehaves in.
func callRole(p *wasm.Plugin, role string, n int) ([]float32, error) {
	b := wasm.SmokeBatch(n, 99)
	scores := make([]float32, n)
	switch role {
	case "filter":
		return scores, p.Filter(b, make([]uint32, n))
	case "pick":
		return scores, p.Pick(b, wasm.SmokeOrder(b))
	}
	return scores, p.Score(b, scores, nil)
}

// TestHostile loads and calls every hostile guest and looks for the reaction
// the suite demands of a host.
func TestHostile(t *testing.T) {
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, "")
	for _, g := range all {
		t.Run(g.File, func(t *testing.T) {
			code, err := g.Code()
			if err != nil {
				t.Fatal(err)
			}
			p, err := rt.Load(context.Background(), code, wasm.Options{Grants: g.Grants, Instances: 2})
			if g.Load != "" {
				le, ok := errors.AsType[*wasm.LoadError](err)
				if !ok || le.Step != g.Load {
					t.Fatalf("loading: got %v, want a refusal in step %s", err, g.Load)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			checkReaction(t, rt, p, g)
		})
	}
}

func checkReaction(t *testing.T, rt *wasm.Runtime, p *wasm.Plugin, g guests.Guest) {
	start := time.Now()
	scores, err := callRole(p, g.Role, g.N)
	took := time.Since(start)
	switch f, isFault := errors.AsType[*wasm.Fault](err); {
	case g.OK:
		if err != nil {
			t.Fatalf("got %v, want scores", err)
		}
		for i, w := range wasm.SmokeBatch(g.N, 99).Columns[abi.ColWaiting] {
			if scores[i] != -w {
				t.Fatalf("score %d: got %v, want %v", i, scores[i], -w)
			}
		}
		return
	case g.Abstain:
		if !errors.Is(err, wasm.ErrAbstain) {
			t.Fatalf("got %v, want an abstention", err)
		}
		return
	case !isFault || !slices.Contains(g.Fault, string(f.Reason)):
		t.Fatalf("got %v, want a fault for one of %v", err, g.Fault)
	case f.Plugin != p.Name() || f.Role != g.Role || f.Detail == "" && f.Reason != wasm.ReasonStack:
		t.Errorf("fault without plugin, role or detail: %+v", f)
	}
	if took > 200*time.Millisecond {
		t.Errorf("the fault took %v", took)
	}
	t.Logf("%v in %v", err, took)
	// The lost instance is not used again, another one answers, and the lost
	// one is made anew.
	if _, err := callRole(p, g.Role, 5); err != nil && !errors.Is(err, wasm.ErrAbstain) {
		t.Errorf("after the fault: %v", err)
	}
	if got := p.Stats().Instances; got != 1 {
		t.Errorf("%d instances after a fault, want 1", got)
	}
	rt.Mend(context.Background(), time.Now())
	if got := p.Stats(); got.Instances != 2 || got.Refills != 1 || got.Faults[faultOf(err).Reason] != 1 {
		t.Errorf("after mending: %+v", got)
	}
}

func faultOf(err error) *wasm.Fault {
	x, _ := errors.AsType[*wasm.Fault](err)
	return x
}
