package simengine

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
)

func seq(from, n int) []uint32 {
	s := make([]uint32, n)
	for i := range s {
		s[i] = uint32(from + i)
	}
	return s
}

// TestHash_golden compares with values computed by Python's pickle and hashlib.
func TestHash_golden(t *testing.T) {
	block0 := []uint32{151644, 872, 198, 9064, 374, 279, 6722, 315, 5616, 30, 151645, 198, 151644, 77091, 198, 151667}
	extra := []extraKey{{parts: []string{"my-lora"}}, {parts: []string{"mmhash"}, pair: true, offset: 5},
		{parts: []string{"salt"}}}
	f := func(seed, none string, want0, want1 uint64) {
		t.Helper()
		var h hasher
		p := h.none(seed)
		if got := hex.EncodeToString(p[:8]); got != none {
			t.Errorf("seed %q: none = %s, want %s", seed, got, none)
		}
		p = h.block(&p, block0, nil)
		if got := p.id(); got != want0 {
			t.Errorf("seed %q: block 0 = %d, want %d", seed, got, want0)
		}
		p = h.block(&p, seq(0, 16), extra)
		if got := p.id(); got != want1 {
			t.Errorf("seed %q: block 1 = %d, want %d", seed, got, want1)
		}
	}
	f("0", "1973e23848344dc4", 3769069598958365908, 13855847396468451578)
	f("vllm-none-hash", "066b1e8987e02713", 12755324888713283606, 5052290521715517828)
}

// captured is one BlockStored event of a vLLM 0.32.0 (testdata/stored.json).
type captured struct {
	Hashes      []uint64 `json:"block_hashes"`
	Parent      *uint64  `json:"parent_block_hash"`
	Tokens      []uint32 `json:"token_ids"`
	BlockTokens int      `json:"block_size"`
	Salt        string   `json:"salt"`
}

// TestChain_vllm compares with the hashes that a real vLLM published.
func TestChain_vllm(t *testing.T) {
	raw, err := os.ReadFile("testdata/stored.json")
	if err != nil {
		t.Fatal(err)
	}
	var events []captured
	d := json.NewDecoder(bytes.NewReader(raw))
	if err := d.Decode(&events); err != nil {
		t.Fatal(err)
	}
	if len(events) == 0 {
		t.Fatal("no events")
	}
	prefix := map[uint64][]uint32{} // hash of a block → tokens up to its end
	for i, e := range events {
		var tokens []uint32
		if e.Parent != nil {
			tokens = append(tokens, prefix[*e.Parent]...)
		}
		skip := len(tokens) / e.BlockTokens
		tokens = append(tokens, e.Tokens...)
		var h hasher
		got := h.chain(nil, tokens, e.BlockTokens, "", e.Salt)[skip:]
		if len(got) != len(e.Hashes) {
			t.Fatalf("event %d: %d hashes, want %d", i, len(got), len(e.Hashes))
		}
		for j := range got {
			if got[j] != e.Hashes[j] {
				t.Fatalf("event %d block %d: %d, want %d", i, j, got[j], e.Hashes[j])
			}
			prefix[got[j]] = tokens[:(skip+j+1)*e.BlockTokens]
		}
	}
}

func BenchmarkChain(b *testing.B) {
	tokens := seq(70000, 100_000)
	var h hasher
	var dst []uint64
	b.ReportAllocs()
	for b.Loop() {
		dst = h.chain(dst[:0], tokens, 16, "", "salt")
	}
}
