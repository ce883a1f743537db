package conformance_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/conformance"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// myHost puts a host before the suite; here it is that of this project, yours
// has its own loading in the place of package wasm.
type myHost struct{ engine *wasm.Runtime }

// Load returns the step in which a module was refused.
func (h myHost) Load(code []byte, grants []string) (conformance.Guest, string) {
	p, err := h.engine.Load(context.Background(), code, wasm.Options{Grants: grants, Instances: 2})
	if refused, ok := errors.AsType[*wasm.LoadError](err); ok {
		return nil, refused.Step // "module", "imports", … as abi/SPEC.md orders them
	}
	if err != nil {
		return nil, err.Error() // no step: the suite fails and shows it
	}
	return myGuest{p}, ""
}

type myGuest struct{ p *wasm.Plugin }

func (g myGuest) Close() { g.p.Close() }

// Call has one candidate for each value of waiting; the other columns have any
// values.
func (g myGuest) Call(role string, waiting []float32) (a conformance.Answer) {
	b := wasm.SmokeBatch(len(waiting), 1)
	b.Columns[abi.ColWaiting] = waiting
	var err error
	switch a.Scores = make([]float32, b.N); role {
	case "filter":
		err = g.p.Filter(b, make([]uint32, b.N))
	case "pick":
		err = g.p.Pick(b, wasm.SmokeOrder(b))
	default:
		err = g.p.Score(b, a.Scores, nil)
	}
	if fault, ok := errors.AsType[*wasm.Fault](err); ok {
		a.Fault, a.Detail = string(fault.Reason), fault.Detail
	} else if a.Abstain = errors.Is(err, wasm.ErrAbstain); err != nil && !a.Abstain {
		a.Fault, a.Detail = "no fault of a guest", err.Error()
	}
	return a
}

// The suite runs as a test of the host.
func ExampleRun() {
	_ = func(t *testing.T) { // func TestConformance(t *testing.T) in your own tests
		engine, err := wasm.New(t.Context(), wasm.Config{Modules: hostmod.Alone()})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		conformance.Run(t, myHost{engine})
	}
}
