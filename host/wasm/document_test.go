package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// TestDocument_hostile: what a guest may do wrong in the roles that read documents
// is a fault with its reason, and the instance is replaced.
func TestDocument_hostile(t *testing.T) {
	rt := newRuntime(t, "")
	parse := func(p *wasm.Plugin) error { _, err := p.BackendParse([]byte("q=1"), 1.7e12); return err }
	discover := func(p *wasm.Plugin) error { _, err := p.Discover([]byte("x"), 1.7e12); return err }
	both := []func(*wasm.Plugin) error{parse, discover}
	for _, c := range []struct {
		do    int
		want  wasm.Reason
		calls []func(*wasm.Plugin) error
	}{
		{1, wasm.ReasonTrap, both}, {2, wasm.ReasonFuel, both}, {3, wasm.ReasonStatus, both}, {6, "", both},
		{7, wasm.ReasonStatus, both}, {10, wasm.ReasonUnwritten, both},
		{30, wasm.ReasonIndex, both}, {31, wasm.ReasonIndex, both},
		{40, wasm.ReasonNotFinite, both[:1]}, {41, wasm.ReasonNotFinite, both[:1]}, {42, wasm.ReasonNotFinite, both[:1]},
		{43, wasm.ReasonIndex, both[:1]}, {44, wasm.ReasonUnwritten, both[:1]},
	} {
		for i, call := range c.calls {
			p := loadFile(t, rt, hostile, fmt.Sprintf(`{"do": %d}`, c.do))
			for range 2 {
				f := faultOf(call(p))
				if f == nil || c.want != "" && f.Reason != c.want {
					t.Errorf("%d, role %d: %v, want %s", c.do, i, f, c.want)
				}
				rt.Maintain(context.Background(), time.Now())
			}
		}
	}
	p := loadFile(t, rt, hostile, `{"do": 4}`)
	for _, call := range both {
		if err := call(p); !errors.Is(err, wasm.ErrAbstain) {
			t.Error(err)
		}
	}
	p = loadFile(t, rt, hostile, `{"do": 32}`) // a header that is written over
	if got, err := p.BackendParse(nil, 0); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := p.Discover(bytes.Repeat([]byte{'x'}, abi.MaxDocument+1), 0); faultOf(err) == nil ||
		faultOf(err).Reason != wasm.ReasonTooMany {
		t.Errorf("too long: %v", err)
	}
	if got, err := p.BackendParse(bytes.Repeat([]byte{'x'}, abi.MaxDocument), 0); err != nil ||
		got[1].Value != abi.MaxDocument {
		t.Errorf("as long as may be: %v, %v", got, err)
	}
}

func TestDocument_madeup(t *testing.T) {
	p := loadFile(t, newRuntime(t, ""), "../../examples/engine-madeup/engine_madeup.wasm", "")
	got, err := p.BackendParse([]byte("q=3;busy=2;mem=41%;prompt=18230;out=4711;up=1767225600\n"), 0)
	want := []wasm.Figure{{ID: abi.FigureWaiting, Value: 3}, {ID: abi.FigureRunning, Value: 2},
		{ID: abi.FigureKVUsage, Value: 0.41}, {ID: abi.FigurePromptTokens, Value: 18230},
		{ID: abi.FigureOutputTokens, Value: 4711}, {ID: abi.FigureStartTime, Value: 1767225600}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := p.BackendParse([]byte("\n"), 0); !errors.Is(err, wasm.ErrAbstain) {
		t.Errorf("nothing: %v", err)
	}
	text, err := p.Discover([]byte("# zoo\nunit alpha @ 10.0.0.1 port 8000 state=up # first\n\nunit beta @ "+
		"h.example\tport 9 state=down\n  unit c @ 10.0.0.3 port 8001 state=up"), 0)
	if err != nil || text != "10.0.0.1:8000\n10.0.0.3:8001\n" {
		t.Errorf("%q, %v", text, err)
	}
	rt := newRuntime(t, "")
	for _, bad := range []string{"q=x", "mem=41", "q=3;;busy=2", "queue=3", "q=", "q=1;q=2", "q=-1",
		"q=99999999999999999999"} {
		p := loadFile(t, rt, "../../examples/engine-madeup/engine_madeup.wasm", "")
		if got, err := p.BackendParse([]byte(bad), 0); !errors.Is(err, wasm.ErrUnsupported) && faultOf(err) == nil {
			t.Errorf("%q: %v, %v", bad, got, err)
		}
	}
	for _, bad := range []string{"unit alpha", "unit a @ h port 1 state=up more", "node a @ h port 1 state=up",
		strings.Repeat("x ", 100)} {
		p := loadFile(t, rt, "../../examples/engine-madeup/engine_madeup.wasm", "")
		if got, err := p.Discover([]byte(bad), 0); !errors.Is(err, wasm.ErrUnsupported) {
			t.Errorf("%q: %q, %v", bad, got, err)
		}
	}
}

// FuzzReadFigures: for any rows of a guest, figures are finite and unique.
func FuzzReadFigures(f *testing.F) {
	f.Add(make([]byte, 32))
	f.Add(bytes.Repeat([]byte{0xff}, 48))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := wasm.ReadFigures(b, uint32(len(b)/abi.FigureHeaderSize))
		seen := map[uint32]bool{}
		for _, x := range out {
			if err != nil || seen[x.ID] || !(x.Value >= 0 && x.Value < 1e18) {
				t.Errorf("%+v, %v", out, err)
			}
			seen[x.ID] = true
		}
	})
}
