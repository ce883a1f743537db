package kvasir

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"
)

func reset() {
	name, version, published, imports, state = "", "0.1.0", nil, nil, 1
	roles, configure, idle = [numRoles]*role{}, nil, nil
}

func TestManifest(t *testing.T) {
	defer reset()
	Score("my-scorer", []string{"waiting", "label/a=\"b\"?"}, nil,
		Request("objective"), Terms("hit", "queue"), CostTokens())
	Filter("my-scorer", nil, []string{"no lora"}, nil)
	Observe("my-scorer", []string{"ttft_ms"}, []Column{{"my/rate", 1.5}}, nil)
	Configure(func([]byte) error { return nil })
	var m map[string]any
	if err := json.Unmarshal([]byte(manifest()), &m); err != nil {
		t.Fatalf("%v\n%s", err, manifest())
	}
	const want = `{"abi":"1.0","name":"my-scorer","publishes":[{"default":1.5,"name":"my/rate"}],` +
		`"roles":{"configure":{},"filter":{"columns":[],"reasons":["no lora"]},` +
		`"idle":{},"observe":{"columns":["ttft_ms"]},"score":{"columns":["waiting",{"name":"label/a=\"b\"",` +
		`"optional":true}],"request":["objective"],"terms":["hit","queue"],"unit":"cost_tokens"}},` +
		`"state_version":1,"version":"0.1.0"}`
	if got, _ := json.Marshal(m); string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNumber: what is written of a float32 reads as the same.
func TestNumber(t *testing.T) {
	check := func(f float32) {
		t.Helper()
		var s text
		s.number(f)
		got, err := strconv.ParseFloat(string(s), 32)
		if err != nil || float32(got) != f || !json.Valid(s) {
			t.Fatalf("%v: wrote %s (%v)", f, s, err)
		}
	}
	for _, f := range []float32{
		0, 1, -1, 0.5, 9, 10, 999999, 1e6, 1e7 + 1, 16777216, math.MaxFloat32, math.SmallestNonzeroFloat32, -0.1, 1.5e-39,
	} {
		check(f)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		if f := math.Float32frombits(rng.Uint32()); f-f == 0 {
			check(f)
		}
	}
}

func TestCall_status(t *testing.T) {
	defer reset()
	var err error
	Score("x", nil, func(*Batch) error { return err })
	for _, c := range []struct {
		err  error
		want uint32
	}{{nil, StatusOK}, {ErrAbstain, StatusAbstain}, {errors.New("why"), StatusError}} {
		err = c.err
		if got := call(roleScore, &Batch{}); got != c.want {
			t.Errorf("%v: status %d, want %d", c.err, got, c.want)
		}
	}
	ran := 0
	runIdle()
	Idle(func() { ran++ })
	if runIdle(); ran != 1 {
		t.Errorf("idle ran %d times, want once", ran)
	}
	if lastError != "why" {
		t.Errorf("error text %q", lastError)
	}
	if got := call(rolePick, &Batch{}); got != StatusUnsupported {
		t.Errorf("a role that is not there: status %d", got)
	}
}

// TestBatch_views lays a picker's batch out by hand and reads it.
func TestBatch_views(t *testing.T) {
	defer func() { picking = false }()
	mem := make([]uint64, 128)
	b := (*Batch)(unsafe.Pointer(&mem[0]))
	b.n, b.stride, b.nslots, b.k, b.colsOff, b.outOff = 3, 16, 1, 2, 128, 128+3*64
	b.SlotMask(0)[1] = 1
	b.f32(0)[2], b.f32(2)[1] = 7, 9
	picking = true
	if b.SlotScores(0)[2] != 7 || b.SlotMask(0)[1] != 1 || b.F32(0)[1] != 9 || b.N() != 3 {
		t.Error("the columns are not where SPEC.md puts them")
	}
	b.Order(0, 2, 1, 0)
	out := unsafe.Slice((*uint32)(b.at(b.outOff)), 4)
	if out[0] != 2 || out[1] != 2 || out[2] != 1 || out[3] != 0 {
		t.Errorf("order %v, want 2 places: 2, 1", out)
	}
}
