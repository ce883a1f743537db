package wasm_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/conformance"
	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// newRuntime returns a runtime with all host modules, closed with the test.
func newRuntime(t testing.TB, cacheDir string) *wasm.Runtime {
	t.Helper()
	rt, err := wasm.New(context.Background(), wasm.Config{CacheDir: cacheDir, Modules: hostmod.Alone()})
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
func callRole(p *wasm.Plugin, role string, b *wasm.Batch) ([]float32, error) {
	scores := make([]float32, b.N)
	switch role {
	case "filter":
		return scores, p.Filter(b, make([]uint32, b.N))
	case "pick":
		return scores, p.Pick(b, wasm.SmokeOrder(b))
	}
	return scores, p.Score(b, scores, nil)
}

// suiteHost is the host side of the conformance suite.
type suiteHost struct {
	t  *testing.T
	rt *wasm.Runtime
}

func (h suiteHost) Load(code []byte, grants []string) (conformance.Guest, string) {
	p, err := h.rt.Load(context.Background(), code, wasm.Options{Grants: grants, Instances: 2})
	if le, ok := errors.AsType[*wasm.LoadError](err); ok {
		return nil, le.Step
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return &suiteGuest{h, p}, ""
}

type suiteGuest struct {
	h suiteHost
	p *wasm.Plugin
}

// Call calls the role and checks the books: an instance is lost by a fault,
// and replaced by Maintain.
func (g *suiteGuest) Call(role string, waiting []float32) (a conformance.Answer) {
	b := wasm.SmokeBatch(len(waiting), 99)
	b.Columns[abi.ColWaiting] = waiting
	var err error
	a.Scores, err = callRole(g.p, role, b)
	a.Abstain = errors.Is(err, wasm.ErrAbstain)
	f := faultOf(err)
	if f == nil {
		if err != nil && !a.Abstain {
			g.h.t.Error(err)
		}
		return a
	}
	a.Fault, a.Detail = string(f.Reason), f.Detail
	if f.Plugin != g.p.Name() || f.Role != role {
		g.h.t.Errorf("fault of plugin %q, role %q, want %q, %q", f.Plugin, f.Role, g.p.Name(), role)
	}
	if got := g.p.Stats().Instances; got != 1 {
		g.h.t.Errorf("%s: %d instances after a fault, want 1", g.p.Name(), got)
	}
	g.h.rt.Maintain(context.Background(), time.Now())
	if got := g.p.Stats(); got.Instances != 2 || got.Refills != 1 || got.Faults[f.Reason] != 1 {
		g.h.t.Errorf("%s after Maintain: %+v", g.p.Name(), got)
	}
	return a
}

func (g *suiteGuest) Close() { g.p.Close() }

// TestHostile runs the conformance suite for hosts.
func TestHostile(t *testing.T) {
	conformance.Run(t, suiteHost{t, newRuntime(t, "")})
}

func faultOf(err error) *wasm.Fault {
	x, _ := errors.AsType[*wasm.Fault](err)
	return x
}
