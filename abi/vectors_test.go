package abi

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"flag"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write the golden batches anew")

// vector describes one golden argument: vectors/<name>.bin holds the bytes a
// guest must see before the call, vectors/<name>.out.bin those the reference guest
// of vectors/README.md leaves behind.
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
	Endpoints        []uint32
	Publishes        uint32
	Config           string
	Fuel             uint32
}

// encode builds the argument straight from SPEC.md section 2, one field after
// the other.
func (v *vector) encode() []byte {
	var b []byte
	u32 := func(x ...uint32) {
		for _, x := range x {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
	}
	u64 := func(x uint64) { b = binary.LittleEndian.AppendUint64(b, x) }
	switch v.Role {
	case "configure": // SPEC.md section 1
		u32(16, 0, 16, uint32(len(v.Config)))
		return append(b, v.Config...)
	case "idle":
		u32(8, v.Fuel)
		return b
	}
	pad := func() {
		for len(b)%64 != 0 {
			b = append(b, 0)
		}
	}
	hex := func(s string) uint64 { x, _ := strconv.ParseUint(s, 16, 64); return x }
	nslots, k := max(v.NSlots, 1), v.K
	stride := (max(v.N, 1) + 15) / 16 * 16
	ncols, outSize := uint32(len(v.Columns)), stride*4
	switch v.Role {
	case "pick":
		ncols, outSize = ncols+2*nslots, nslots*(k+1)*4
	case "observe":
		nslots = uint32(len(v.Endpoints))
		k = (max(nslots, 1) + 15) / 16 * 16
		outSize = v.Publishes * k * 4
	}
	up := func(x uint32) uint32 { return (x + 63) / 64 * 64 }
	req := 128 + ncols*stride*4
	out := req + up(uint32(len(v.Request))*8)
	terms := uint32(0)
	if v.Terms > 0 || v.Role == "observe" {
		terms = out + up(outSize)
	}
	u32(96, v.N, stride, v.Flags, v.PromptTokens, 0, v.MaxTokens, math.Float32bits(v.Priority))
	u64(math.Float64bits(v.NowMS))
	u64(hex(v.SessionHash))
	u32(ncols, 128, out, req)
	u64(hex(v.Seed))
	u32(uint32(len(v.Request)), terms, 0, nslots, k, outSize)
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
	if v.Role == "score" || v.Role == "observe" {
		fill = 0x7FC00000
	}
	for range up(outSize)/4 + v.Terms*stride {
		u32(fill)
	}
	if v.Role == "observe" {
		u32(v.Endpoints...)
		u32(make([]uint32, int(k)-len(v.Endpoints))...)
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
	columns := Columns[:]
	if v.Role == "observe" {
		columns = OutcomeColumns[:]
	}
	for _, c := range columns {
		for i := range out {
			if c.Name == name {
				out[i] = math.Float32bits(float32(c.Default))
			}
		}
	}
	return out
}

// result returns the argument as the reference guest leaves it: what it writes,
// by README.md, into the bytes of encode.
func (v *vector) result() []byte {
	b := v.encode()
	get := func(off uint32) uint32 { return binary.LittleEndian.Uint32(b[off:]) }
	put := func(off, x uint32) { binary.LittleEndian.PutUint32(b[off:], x) }
	if v.Role == "configure" || v.Role == "idle" {
		return b
	}
	stride, cols, out := get(8), get(52), get(56)
	at := func(column, i uint32) uint32 { return get(cols + (column*stride+i)*4) }
	for i := range v.N {
		switch v.Role {
		case "filter":
			put(out+4*i, at(0, i))
		case "score":
			put(out+4*i, math.Float32bits(v.score(i)))
			for t := range v.Terms {
				put(get(76)+(t*stride+i)*4, math.Float32bits(float32(t)+math.Float32frombits(at(0, i))))
			}
		case "observe":
			for p, x := range []float32{math.Float32frombits(at(1, i)), 1} {
				row := out + (uint32(p)*get(88)+at(0, i))*4
				sum := math.Float32frombits(get(row))
				if sum != sum {
					sum = 0
				}
				put(row, math.Float32bits(sum+x))
			}
		}
	}
	if v.Role == "pick" {
		for s := range max(v.NSlots, 1) {
			order := v.order(s)
			put(out+s*(v.K+1)*4, uint32(len(order)))
			for i, c := range order {
				put(out+(s*(v.K+1)+1+uint32(i))*4, c)
			}
		}
	}
	return b
}

// score is the reference scorer of candidate i. All sums are exact.
func (v *vector) score(i uint32) float32 {
	hex := func(s string) uint64 { x, _ := strconv.ParseUint(s, 16, 64); return x }
	sum := float32(v.PromptTokens) + float32(v.MaxTokens) + v.Priority + float32(uint64(v.NowMS)&255) +
		float32(hex(v.SessionHash)&0xffff) + float32(hex(v.Seed)>>48) + float32(max(v.NSlots, 1))
	for _, r := range v.Request {
		sum += float32(hex(v.Req[r]) & 0xff)
	}
	for k, c := range v.Columns {
		sum += float32(uint32(k+1) * (v.column(c)[i] >> 16))
	}
	return sum
}

// order is the reference picker's of a slot: by score plus own columns, best first.
func (v *vector) order(slot uint32) (order []uint32) {
	value := func(i uint32) float32 {
		x := v.Scores[slot*v.N+i]
		for _, c := range v.Columns {
			x += math.Float32frombits(v.column(c)[i])
		}
		return x
	}
	for i := range v.N {
		if v.Mask[slot*v.N+i] == 1 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return cmp.Compare(value(b), value(a)) })
	return order[:min(len(order), int(v.K))]
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
		for file, got := range map[string][]byte{v.Name + ".bin": v.encode(), v.Name + ".out.bin": v.result()} {
			file = "vectors/" + file
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: the encoding differs from the golden bytes (%v)", file, err)
			}
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
