package abi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"math"
	"os"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write the golden batches anew")

// vector describes one golden batch: vectors/<name>.bin holds the bytes a
// guest must see before the call.
type vector struct {
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
}

// encode builds the batch straight from SPEC.md section 2, one field after
// the other.
func (v *vector) encode() []byte {
	var b []byte
	u32 := func(x ...uint32) {
		for _, x := range x {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
	}
	u64 := func(x uint64) { b = binary.LittleEndian.AppendUint64(b, x) }
	pad := func() {
		for len(b)%64 != 0 {
			b = append(b, 0)
		}
	}
	hex := func(s string) uint64 { x, _ := strconv.ParseUint(s, 16, 64); return x }
	nslots := max(v.NSlots, 1)
	stride := (max(v.N, 1) + 15) / 16 * 16
	ncols, outSize := uint32(len(v.Columns)), stride*4
	if v.Role == "pick" {
		ncols, outSize = ncols+2*nslots, nslots*(v.K+1)*4
	}
	up := func(x uint32) uint32 { return (x + 63) / 64 * 64 }
	req := 128 + ncols*stride*4
	out := req + up(uint32(len(v.Request))*8)
	terms := uint32(0)
	if v.Terms > 0 {
		terms = out + up(outSize)
	}
	u32(96, v.N, stride, v.Flags, v.PromptTokens, 0, v.MaxTokens, math.Float32bits(v.Priority))
	u64(math.Float64bits(v.NowMS))
	u64(hex(v.SessionHash))
	u32(ncols, 128, out, req)
	u64(hex(v.Seed))
	u32(uint32(len(v.Request)), terms, 0, nslots, v.K, outSize)
	pad()
	column := func(x []uint32) {
		u32(x...)
		u32(make([]uint32, int(stride)-len(x))...)
	}
	if v.Role == "pick" {
		for s := range nslots {
			column(floatBits(v.Scores[s*v.N : (s+1)*v.N]))
		}
		for s := range nslots {
			column(v.Mask[s*v.N : (s+1)*v.N])
		}
	}
	for _, c := range v.Columns {
		column(v.column(c))
	}
	for _, r := range v.Request {
		u64(hex(v.Req[r]))
	}
	pad()
	fill := uint32(0xFFFFFFFF)
	if v.Role == "score" {
		fill = 0x7FC00000
	}
	for range up(outSize)/4 + v.Terms*stride {
		u32(fill)
	}
	return b
}

func floatBits(f []float32) []uint32 {
	u := make([]uint32, len(f))
	for i, x := range f {
		u[i] = math.Float32bits(x)
	}
	return u
}

// column returns the values of a column, its default where none are given.
func (v *vector) column(name string) []uint32 {
	if f := v.F32[name]; f != nil {
		return floatBits(f)
	}
	if u := v.U32[name]; u != nil {
		return u
	}
	out := make([]uint32, v.N)
	for _, c := range Columns {
		for i := range out {
			if c.Name == name {
				out[i] = math.Float32bits(float32(c.Default))
			}
		}
	}
	return out
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("vectors/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		file := "vectors/" + v.Name + ".bin"
		got := v.encode()
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: the encoding differs from the golden bytes (%v)", v.Name, err)
		}
	}
}

func TestStride(t *testing.T) {
	for n, want := range map[int]int{0: 16, 1: 16, 16: 16, 17: 32, 4096: 4096} {
		if got := Stride(n); got != want {
			t.Errorf("Stride(%d) = %d, want %d", n, got, want)
		}
	}
}

func TestEndpointID(t *testing.T) {
	if got, want := EndpointID(5, 1), uint32(4096+5); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if got, want := EndpointID(4095, 1<<20+2), uint32(2<<12|4095); got != want {
		t.Errorf("got %d, want %d: the generation counts modulo 2^20", got, want)
	}
}
