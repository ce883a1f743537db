package wasm

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
)

// labelled is a LabelSource with gpu=h100 on every second candidate.
type labelled struct{}

func (labelled) Label(key, value string, dst []float32) {
	for i := range dst {
		dst[i] = 0
		if key == "gpu" && value == "h=100" && i%2 == 1 {
			dst[i] = 1
		}
	}
}

// TestColumn_kinds writes every kind of column, with and without values.
func TestColumn_kinds(t *testing.T) {
	r := &Runtime{board: board{cols: map[string]*published{}}}
	pub, _ := r.board.open("me/rate", 2.5, true)
	pub.set(abi.EndpointID(9, 4), 7)
	p := &Plugin{rt: r}
	full := &Batch{N: 3, EndpointIDs: []uint32{abi.EndpointID(1, 4), abi.EndpointID(9, 4), abi.EndpointID(9, 5)},
		AdapterStates: []uint32{1, 2, 3}, Labels: labelled{}}
	full.Columns[abi.ColSpeed] = []float32{4, 5, 6}
	f := func(v ...float32) [3]uint32 {
		return [3]uint32{math.Float32bits(v[0]), math.Float32bits(v[1]), math.Float32bits(v[2])}
	}
	for _, c := range []struct {
		name        string
		full, empty [3]uint32
	}{
		{"speed", f(4, 5, 6), f(1, 1, 1)},
		{"waiting", f(0, 0, 0), f(0, 0, 0)},
		{"endpoint_id", [3]uint32(full.EndpointIDs), [3]uint32{}},
		{"adapter_state", [3]uint32{1, 2, 3}, [3]uint32{}},
		{"label/gpu=h=100", f(0, 1, 0), f(0, 0, 0)},
		{"me/rate", f(2.5, 7, 2.5), f(2.5, 2.5, 2.5)},
	} {
		col, ok := p.resolveColumn(c.name)
		if !ok {
			t.Fatalf("%s is not known", c.name)
		}
		var got [3]uint32
		if col.write(got[:], full); got != c.full {
			t.Errorf("%s: got %x, want %x", c.name, got, c.full)
		}
		if col.write(got[:], &Batch{N: 3}); got != c.empty {
			t.Errorf("%s without values: got %x, want %x", c.name, got, c.empty)
		}
	}
	for _, name := range []string{"", "moon", "label/", "label/x", "label/=x", "you/rate"} {
		if _, ok := p.resolveColumn(name); ok {
			t.Errorf("column %q is known", name)
		}
	}
	for range 2 { // the publisher's and the reader's claim
		r.board.release(pub)
	}
	if len(r.board.cols) != 0 {
		t.Errorf("%d published columns are left", len(r.board.cols))
	}
}

func TestBudget(t *testing.T) {
	var b budget
	ms := time.Millisecond
	b.measure(&measurement{[]int{0, 1, 64}, []int64{50, 150, 6450}, []time.Duration{ms, ms, ms}}, &variant{})
	if b.fixed != 50 || b.per != 100 {
		t.Errorf("measured %+v, want 50 + 100 n", b)
	}
	if got, want := b.of(0), int64(baseUnits+margin*50); got != want {
		t.Errorf("budget of 0: got %d, want %d", got, want)
	}
	if got := b.of(4096); got < 2*(50+100*4096) || got > hotUnits {
		t.Errorf("budget of 4096: got %d, want at least twice the need and at most %d", got, hotUnits)
	}
	b.measure(&measurement{[]int{0, 64}, []int64{100, 64_000_100}, []time.Duration{0, ms}}, &variant{sliced: true})
	if got := b.of(1); got < 32_000_000 || got > hotUnitsMax {
		t.Errorf("sliced: got %d", got)
	}
	b.measure(&measurement{[]int{0}, []int64{1}, []time.Duration{ms}}, &variant{sliced: true, large: true})
	if got := b.of(0); got != runtimeUnits {
		t.Errorf("a module with a runtime: got %d, want %d", got, runtimeUnits)
	}
}

func TestBreaker(t *testing.T) {
	var b breaker
	now := time.Now()
	f := &Fault{Reason: ReasonTrap}
	for i := range 10 { // two faults now and then are forgiven
		for range 2 {
			if b.fault(now, f) {
				t.Fatalf("round %d: opened", i)
			}
		}
		for range 2 * forgiveEvery {
			b.ok()
		}
	}
	if b.strikes.Load() != 0 {
		t.Errorf("%d strikes are left", b.strikes.Load())
	}
	for i := range strikesToOpen {
		if opened := b.fault(now, f); opened != (i == strikesToOpen-1) {
			t.Errorf("fault %d: opened %v", i, opened)
		}
	}
	wait := time.Duration(0)
	for range 20 {
		probe, until := b.due(now)
		if probe || until.Sub(now) < wait || until.Sub(now) > maxBackoff {
			t.Fatalf("probe %v in %v, the last wait was %v", probe, until.Sub(now), wait)
		}
		wait, now = until.Sub(now), until
		b.probed(now, f)
	}
	if wait != maxBackoff {
		t.Errorf("the longest wait is %v, want %v", wait, maxBackoff)
	}
	b.probed(now, nil)
	if !b.allow() || b.reason() != "" {
		t.Error("not called after a successful probe")
	}
}

// TestStrides: the C SDK is compiled for the strides of this host, and every
// number of candidates has one.
func TestStrides(t *testing.T) {
	sdk, err := os.ReadFile("../../sdk/c/kvasir.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range strides {
		if !strings.Contains(string(sdk), fmt.Sprintf("case %d: kvasir_score_rows(b, out, one, %d, 0); break;", s, s)) {
			t.Errorf("kvasir.h has no case for stride %d", s)
		}
	}
	if n := strings.Count(string(sdk), "; break;"); n != len(strides) {
		t.Errorf("kvasir.h has %d cases, want %d", n, len(strides))
	}
	for n := range uint32(abi.MaxCandidates + 1) {
		if s := strideOf(n); s < max(n, 1) || s%abi.StrideMultiple != 0 {
			t.Fatalf("%d candidates: stride %d", n, s)
		}
	}
}
