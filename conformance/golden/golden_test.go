// Package golden holds plugins built by the SDKs of every minor version of the
// ABI, and what they answered.
package golden

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

var update = flag.Bool("update", false, "write the answers that are missing")

// golden is the file golden.json of a minor version.
type golden struct {
	Batches  []*batch  `json:"batches"`
	Outcomes *outcomes `json:"outcomes"`
	Guests   []*guest  `json:"guests"`
}

// batch is a decision's candidates by the names of SPEC.md; what is not there has
// its default.
type batch struct {
	N            int                  `json:"n"`
	PromptTokens uint32               `json:"prompt_tokens"`
	MaxTokens    uint32               `json:"max_tokens"`
	NowMS        float64              `json:"now_ms"`
	Session      string               `json:"session_hash"`
	Seed         string               `json:"seed"`
	F32          map[string][]float32 `json:"f32"`
	Endpoints    []uint32             `json:"endpoint_id"`
	Adapters     []uint32             `json:"adapter_state"`
	Request      map[string]string    `json:"request"`
}

// outcomes is the input of observe.
type outcomes struct {
	N         int                  `json:"n"`
	Endpoints []uint32             `json:"endpoints"`
	F32       map[string][]float32 `json:"f32"`
	U32       map[string][]uint32  `json:"u32"`
}

// guest is a module. Want has an answer per role and batch: "score 0" and so on,
// hexadecimal words, or what an error came to. "score 0 again" is after observe.
type guest struct {
	File   string            `json:"file"`
	Config string            `json:"config,omitempty"`
	Grants []string          `json:"grants,omitempty"`
	Want   map[string]string `json:"want"`
}

func hexOf(s string) (x uint64) {
	_, err := fmt.Sscanf(s, "%x", &x)
	if err != nil {
		panic(err)
	}
	return x
}

func (b *batch) batch() *wasm.Batch {
	out := &wasm.Batch{N: b.N, PromptTokens: b.PromptTokens, MaxTokens: b.MaxTokens, NowMS: b.NowMS,
		SessionHash: hexOf(b.Session), Seed: hexOf(b.Seed), NSlots: 1,
		EndpointIDs: b.Endpoints, AdapterStates: b.Adapters}
	for i, c := range abi.Columns {
		out.Columns[i] = b.F32[c.Name]
	}
	for i, c := range abi.RequestColumns {
		if x, ok := b.Request[c.Name]; ok {
			out.Request[i] = hexOf(x)
		}
	}
	return out
}

func (o *outcomes) outcomes() *wasm.Outcomes {
	out := &wasm.Outcomes{N: o.N, Endpoints: o.Endpoints, NowMS: 1.7e12}
	for i, c := range abi.OutcomeColumns {
		out.Columns[i], out.U32[i] = o.F32[c.Name], o.U32[c.Name]
	}
	return out
}

// TestGolden loads every module with today's host and compares its answers.
func TestGolden(t *testing.T) {
	minors, err := filepath.Glob("*/golden.json")
	if err != nil || len(minors) == 0 {
		t.Fatal(err, minors)
	}
	for _, file := range minors {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var g golden
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatal(err)
		}
		missing := false
		for _, x := range g.Guests {
			t.Run(filepath.Dir(file)+"/"+x.File, func(t *testing.T) { missing = g.check(t, filepath.Dir(file), x) || missing })
		}
		g.all(t, filepath.Dir(file))
		if missing && *update {
			text, err := json.MarshalIndent(&g, "", " ")
			if err == nil {
				err = os.WriteFile(file, append(text, '\n'), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// all: no module lies there without answers.
func (g *golden) all(t *testing.T, dir string) {
	files, err := filepath.Glob(dir + "/*.wasm")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, f := range files {
		if !slices.ContainsFunc(g.Guests, func(x *guest) bool { return x.File == filepath.Base(f) }) {
			t.Errorf("%s is not in golden.json", f)
		}
	}
}

// check compares what a module answers with what it did, and adds what is not
// there yet.
func (g *golden) check(t *testing.T, dir string, x *guest) (added bool) {
	code, err := os.ReadFile(filepath.Join(dir, x.File))
	if err != nil {
		t.Fatal(err)
	}
	rt, err := wasm.New(t.Context(), wasm.Config{Modules: []*wasm.HostModule{
		hostmod.Log(slog.New(slog.DiscardHandler)), hostmod.KV(hostmod.NewSpaces(0)), hostmod.NewMetrics().Module()}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	p, err := rt.Load(t.Context(), code, wasm.Options{Config: []byte(x.Config), Grants: x.Grants, Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if minor := filepath.Base(dir); p.Manifest().ABI != minor {
		t.Errorf("of ABI %s, in folder %s", p.Manifest().ABI, minor)
	}
	got := map[string]string{}
	g.decide(p, got, "")
	if p.Has(wasm.Observe) {
		if err := p.Observe(g.Outcomes.outcomes()); err != nil {
			t.Error(err)
		}
		g.decide(p, got, " again")
	}
	for name, answer := range got {
		want, there := x.Want[name]
		if !there && *update {
			if x.Want == nil {
				x.Want = map[string]string{}
			}
			x.Want[name], added = answer, true
		} else if answer != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, answer, want)
		}
	}
	for name := range x.Want {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not answered", name)
		}
	}
	return added
}

// decide writes down the answers of all roles to all batches.
func (g *golden) decide(p *wasm.Plugin, got map[string]string, when string) {
	for i, b := range g.Batches {
		note := func(role wasm.Role, f func(*wasm.Batch) ([]uint32, error)) {
			if !p.Has(role) {
				return
			}
			words, err := f(b.batch())
			name, answer := fmt.Sprintf("%v %d%s", role, i, when), ""
			switch f, _ := errors.AsType[*wasm.Fault](err); {
			case f != nil:
				answer = "fault " + string(f.Reason)
			case err != nil:
				answer = err.Error()
			default:
				answer = strings.Trim(fmt.Sprintf("%08x", words), "[]")
			}
			got[name] = answer
		}
		note(wasm.Filter, func(b *wasm.Batch) ([]uint32, error) {
			drops := make([]uint32, b.N)
			return drops, p.Filter(b, drops)
		})
		note(wasm.Score, func(b *wasm.Batch) ([]uint32, error) {
			scores, terms := make([]float32, b.N), make([]float32, b.N*len(p.Manifest().Roles[wasm.Score].Terms))
			err := p.Score(b, scores, terms)
			var words []uint32
			for _, s := range slices.Concat(scores, terms) {
				words = append(words, math.Float32bits(s))
			}
			return words, err
		})
		note(wasm.Pick, func(b *wasm.Batch) ([]uint32, error) {
			o := &wasm.Order{K: 3, Scores: make([]float32, b.N), Mask: make([]uint32, b.N), Count: make([]uint32, 1),
				Index: make([]uint32, 3)}
			for i := range b.N {
				o.Scores[i], o.Mask[i] = float32(i%4), uint32(i%2)
			}
			err := p.Pick(b, o)
			return append(o.Count, o.Index...), err
		})
	}
}
