package wasm

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
)

// goldenVector is an entry of abi/vectors/vectors.json.
type goldenVector struct {
	Name, Role       string
	N, Flags         uint32
	PromptTokens     uint32 `json:"prompt_tokens"`
	MaxTokens        uint32 `json:"max_tokens"`
	Priority         float32
	NowMS            float64 `json:"now_ms"`
	SessionHash      string  `json:"session_hash"`
	Seed             string
	NSlots, K, Terms uint32
	Columns, Request []string
	F32              map[string][]float32
	U32              map[string][]uint32
	Req              map[string]string
	Scores           []float32
	Mask             []uint32
	Endpoints        []uint32
	Publishes        int
	Config           string
	Fuel             int64
}

func (v *goldenVector) batch() *Batch {
	hex := func(s string) uint64 { x, _ := strconv.ParseUint(s, 16, 64); return x }
	b := &Batch{N: int(v.N), Flags: v.Flags &^ abi.FlagExplain, PromptTokens: v.PromptTokens, MaxTokens: v.MaxTokens,
		Priority: v.Priority,
		NowMS:    v.NowMS, SessionHash: hex(v.SessionHash), Seed: hex(v.Seed), NSlots: v.NSlots,
		EndpointIDs: v.U32["endpoint_id"], AdapterStates: v.U32["adapter_state"]}
	for i, c := range abi.Columns {
		b.Columns[i] = v.F32[c.Name]
	}
	for i, c := range abi.RequestColumns {
		b.Request[i] = hex(v.Req[c.Name])
	}
	return b
}

func (v *goldenVector) outcomes() *Outcomes {
	o := &Outcomes{N: int(v.N), NowMS: v.NowMS, Endpoints: v.Endpoints}
	for i, c := range abi.OutcomeColumns {
		o.Columns[i], o.U32[i] = v.F32[c.Name], v.U32[c.Name]
	}
	return o
}

var goldenRoles = map[string]Role{"filter": Filter, "score": Score, "pick": Pick, "observe": Observe,
	"configure": Configure, "idle": Idle}

// call has p call the role of v with its values.
func (v *goldenVector) call(p *Plugin, in *instance) error {
	s := &spec{nterms: v.Terms}
	for _, c := range v.Columns {
		col, _ := p.resolveColumn(c)
		s.cols, s.outs = append(s.cols, col), append(s.outs, findColumn(abi.OutcomeColumns[:], c))
	}
	for _, r := range v.Request {
		s.req = append(s.req, findColumn(abi.RequestColumns[:], r))
	}
	b := v.batch()
	switch goldenRoles[v.Role] {
	case Filter:
		return p.filter(in, s, b, make([]uint32, v.N))
	case Score:
		var terms []float32
		if v.Terms > 0 {
			terms = make([]float32, v.Terms*v.N)
		}
		return p.score(in, s, b, make([]float32, v.N), terms)
	case Pick:
		return p.pick(in, s, b, &Order{K: int(v.K), Scores: v.Scores, Mask: v.Mask, Count: make([]uint32, v.NSlots),
			Index: make([]uint32, v.NSlots*v.K)})
	case Observe:
		p.pubs = make([]*published, v.Publishes)
		return p.observe(in, s, v.outcomes())
	case Configure:
		p.opt.Config = []byte(v.Config)
		return p.configure(in, p.hot)
	default:
		return in.idle(time.UnixMilli(0), v.Fuel)
	}
}

// TestBatch_golden compares what the host writes, for every role, with the golden
// bytes. The guest does nothing, so that its arena still holds its input.
func TestBatch_golden(t *testing.T) {
	text, err := os.ReadFile("../../abi/vectors/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []goldenVector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("../../conformance/guests/ok.wasm")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := New(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	seen := map[string]bool{}
	for _, v := range all {
		seen[v.Role] = true
		p, err := rt.Load(t.Context(), code, Options{Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		in, _ := p.pool.get()
		in.roles[goldenRoles[v.Role]] = in.mod.ExportedFunction(abi.ExportABI) // returns an unknown status
		in.mem.Write(in.base, bytes.Repeat([]byte{0xAA}, int(in.size)))
		err = v.call(p, in)
		if f, ok := err.(*Fault); !ok || f.Reason != ReasonStatus {
			t.Fatalf("%s: got %v, want a fault for the status", v.Name, err)
		}
		want, err := os.ReadFile("../../abi/vectors/" + v.Name + ".bin")
		if err != nil {
			t.Fatal(err)
		}
		got, _ := in.mem.Read(in.base, uint32(len(want)))
		if at := firstDifference(got, want); at >= 0 {
			t.Errorf("%s: byte %d is %#x, want %#x", v.Name, at, got[at], want[at])
		}
		p.pool.put(in)
		p.Close()
	}
	for role := range goldenRoles {
		if !seen[role] {
			t.Errorf("no golden argument of %s", role)
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range b {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
