package kvevents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
)

// golden is testdata/vllm-0.32.json: frames sent by vLLM 0.32 (base64), and what
// Python's msgpack makes of the payloads.
type golden struct {
	Replay [][][]byte `json:"replay"`
	Live   [][][]byte `json:"live"`
	Want   []struct {
		TS     float64 `json:"ts"`
		Rank   int     `json:"rank"`
		Events []struct {
			Hashes []string   `json:"block_hashes"`
			Parent *string    `json:"parent_block_hash"`
			Tokens []uint32   `json:"token_ids"`
			Block  int        `json:"block_size"`
			Extra  [][]string `json:"extra_keys"`
		} `json:"events"`
	} `json:"want"`
}

func loadGolden(t testing.TB) *golden {
	t.Helper()
	raw, err := os.ReadFile("testdata/vllm-0.32.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	return &g
}

func TestDecode_goldenVLLM(t *testing.T) {
	g := loadGolden(t)
	var d Decoder
	for i, frames := range g.Replay {
		seq, payload, err := parseReply(frames)
		if err != nil {
			t.Fatal(err)
		}
		if i == len(g.Replay)-1 {
			if seq != endSeq {
				t.Fatalf("last reply has sequence %d, want the end", seq)
			}
			break
		}
		if seq != uint64(i) {
			t.Fatalf("reply %d has sequence %d", i, seq)
		}
		b, err := d.Decode(payload)
		if err != nil {
			t.Fatal(err)
		}
		w := g.Want[i]
		if b.TS != w.TS || b.Rank != w.Rank || len(b.Events) != len(w.Events) || b.Failed != 0 || batchTime(payload) != w.TS {
			t.Fatalf("batch %d: %+v", i, b)
		}
		for j, e := range b.Events {
			x := w.Events[j]
			var parent *string
			if e.HasParent {
				s := fmt.Sprint(e.Parent)
				parent = &s
			}
			hashes := strings.Fields(strings.Trim(fmt.Sprint(e.Hashes), "[]"))
			salt := ""
			if len(x.Extra[0]) > 0 {
				salt = x.Extra[0][0]
			}
			if e.Kind != Stored || e.Medium != GPU || e.BlockTokens != x.Block || !reflect.DeepEqual(e.Tokens, x.Tokens) ||
				!reflect.DeepEqual(hashes, x.Hashes) || !reflect.DeepEqual(parent, x.Parent) || string(e.Salt) != salt ||
				e.Extra != nil {
				t.Errorf("batch %d event %d: %+v", i, j, e)
			}
		}
	}
	for _, f := range g.Live { // the live frames are the replayed ones
		found := false
		for _, r := range g.Replay {
			found = found || bytes.Equal(f[1], r[2]) && bytes.Equal(f[2], r[3])
		}
		if !found {
			t.Errorf("live message %x is not among the replayed", f[1])
		}
	}
}

var (
	toks4  = []uint32{1, 200, 40000, 151645}
	stored = fakepub.Stored{Hashes: []uint64{7, 1 << 63}, Tokens: toks4, Block: 2}
)

// line renders an event compactly for comparison.
func line(e *Event) string {
	s := fmt.Sprintf("%v %v h=%v", e.Kind, e.Medium, e.Hashes)
	if len(e.Copies) > 0 {
		s += fmt.Sprintf(" copies=%v", e.Copies)
	}
	if e.Kind == Stored {
		if e.HasParent {
			s += fmt.Sprintf(" p=%d", e.Parent)
		}
		s += fmt.Sprintf(" t=%v b=%d", e.Tokens, e.BlockTokens)
		if len(e.Extra) > 0 {
			x := ""
			for _, v := range e.Extra {
				x += map[bool]string{true: "-", false: "x"}[v == 0]
			}
			s += " x=" + x
		}
	}
	if len(e.Adapter) > 0 {
		s += fmt.Sprintf(" a=%s", e.Adapter)
		if e.AdapterIsID {
			s += "(id)"
		}
	}
	if len(e.Salt) > 0 {
		s += fmt.Sprintf(" s=%s", e.Salt)
		if e.SaltUnhashed {
			s += "(unhashed)"
		}
	}
	return s
}

type list = []any

func TestDecode_forms(t *testing.T) {
	const plain = "stored gpu h=[7 9223372036854775808] t=[1 200 40000 151645] b=2"
	hs := []uint64{7, 1 << 63}
	full := func(extra any, lora any, parent any) list {
		return list{"BlockStored", hs, parent, toks4, 2, nil, "GPU", lora, extra, 0, "full_attention", nil}
	}
	b32 := bytes.Repeat([]byte{0xee}, 24)
	cases := []struct {
		name  string
		event any
		want  string // "" = left out, "!" = fault
	}{
		{"vllm map", stored.Map(), plain},
		{"vllm map minimal", fakepub.Map{"type", "BlockStored", "block_hashes", hs, "token_ids", toks4, "block_size", 2},
			plain},
		{"vllm map other order, unknown fields", fakepub.Map{"zzz", list{fakepub.Map{"a", 1}}, "block_size", 2, "token_ids",
			toks4, "session_id", "s", "block_hashes", hs, "type", "BlockStored"}, plain},
		{"vllm 0.9 array", list{"BlockStored", hs, nil, toks4, 2, nil}, plain},
		{"vllm 0.9 array with parent", list{"BlockStored", hs, 5, toks4, 2, nil},
			"stored gpu h=[7 9223372036854775808] p=5 t=[1 200 40000 151645] b=2"},
		{"vllm 0.11 array", list{"BlockStored", hs, nil, toks4, 2, nil, "cpu"}, "stored host" + plain[len("stored gpu"):]},
		{"vllm full array", full(list{nil, nil}, nil, nil), plain},
		{"longer array than known", append(full(nil, nil, nil), "more", list{1}), plain},
		{"bytes hashes", fakepub.Map{"type", "BlockStored", "block_hashes", list{append(b32, 0, 0, 0, 0, 0, 0, 0, 7),
			append(b32, 0x80, 0, 0, 0, 0, 0, 0, 0)}, "token_ids", toks4, "block_size", 2}, plain},
		{"short bytes hash", fakepub.Map{"type", "BlockStored", "block_hashes", list{[]byte{7}, int64(-1 << 63)},
			"token_ids", toks4, "block_size", 2}, plain},
		{"salt", full(list{list{"salt"}, nil}, nil, nil), plain + " s=salt"},
		{"salt only at token 0", full(list{list{"img"}, nil}, nil, 3),
			"stored gpu h=[7 9223372036854775808] p=3 t=[1 200 40000 151645] b=2 x=x-"},
		{"adapter on each block", full(list{list{"ad"}, list{"ad"}}, "ad", nil), plain + " a=ad"},
		{"adapter and salt", full(list{list{"ad", "salt"}, list{"ad"}}, "ad", nil), plain + " a=ad s=salt"},
		{"adapter named as the salt", full(list{list{"ad", "ad"}, list{"ad"}}, "ad", nil), plain + " a=ad s=ad"},
		{"image, adapter, salt", full(list{list{"ad", list{"mm", 3}, "salt"}, list{"ad", list{"mm", -1}}}, "ad", nil),
			plain + " x=xx a=ad s=salt"},
		{"old image and salt", full(list{list{"mm", "salt"}, nil}, nil, nil), plain + " x=x- s=salt"},
		{"embeddings", full(list{list{b32}, nil}, nil, nil), plain + " x=x-"},
		{"adapter by number", list{"BlockStored", hs, nil, toks4, 2, 12, "GPU", nil, list{list{12, "salt"}, list{12}}},
			plain + " a=12(id) s=salt"},
		{"adapter by opaque id", fakepub.Map{"type", "BlockStored", "block_hashes", hs, "token_ids", toks4, "block_size", 2,
			"lora_id", "u-u"}, plain + " a=u-u(id)"},
		{"sglang oldest", list{"BlockStored", hs, nil, toks4, 2, nil}, plain},
		{"sglang seven", list{"BlockStored", hs, nil, toks4, 2, nil, "CPU_PINNED"},
			"stored host" + plain[len("stored gpu"):]},
		{"sglang eight", list{"BlockStored", hs, nil, toks4, 2, nil, "GPU", fakepub.Map{"cache_salt", "s1"}},
			plain + " s=s1(unhashed)"},
		{"sglang map", fakepub.Map{"type", "BlockStored", "block_hashes", list{7, int64(-1 << 63)}, "parent_block_hash", nil,
			"token_ids", toks4, "block_size", 2, "lora_id", nil, "medium", "GPU", "cache_salt", "s1"},
			plain + " s=s1(unhashed)"},
		{"sglang bigrams", fakepub.Map{"type", "BlockStored", "block_hashes", list{1}, "token_ids", list{list{1, 2}},
			"block_size", 1}, fmt.Sprintf("stored gpu h=[1] t=[%d] b=1", mustBigram(1, 2))},
		{"disk", fakepub.Map{"type", "BlockRemoved", "block_hashes", hs, "medium", "Disk"},
			"removed disk h=[7 9223372036854775808]"},
		{"external", list{"BlockRemoved", hs, "EXTERNAL"}, "removed external h=[7 9223372036854775808]"},
		{"storage", fakepub.Map{"type", "BlockRemoved", "block_hashes", hs, "medium", "STORAGE", "locality", "LOCAL"},
			"removed disk h=[7 9223372036854775808]"},
		{"remote storage", fakepub.Map{"locality", "REMOTE", "type", "BlockRemoved", "block_hashes", hs, "medium",
			"STORAGE"}, "removed external h=[7 9223372036854775808]"},
		{"unknown medium type", fakepub.Map{"type", "BlockRemoved", "block_hashes", hs, "medium", 3},
			"removed external h=[7 9223372036854775808]"},
		{"removed array", list{"BlockRemoved", hs}, "removed gpu h=[7 9223372036854775808]"},
		{"removed map", fakepub.Removed("GPU", 7, 1<<63), "removed gpu h=[7 9223372036854775808]"},
		{"removed with copies", fakepub.Map{"type", "BlockRemoved", "block_hashes", hs, "remaining_copy_counts", list{0, 2}},
			"removed gpu h=[7 9223372036854775808] copies=[0 2]"},
		{"cleared map", fakepub.Cleared(), "cleared gpu h=[]"},
		{"cleared array", list{"AllBlocksCleared"}, "cleared gpu h=[]"},

		{"sparse", fakepub.Map{"type", "BlockStored", "block_hashes", hs, "token_ids", toks4[:3], "block_size", 2}, ""},
		{"no tokens", fakepub.Map{"type", "BlockStored", "block_hashes", hs, "token_ids", list{}, "block_size", 0}, ""},
		{"unknown type", fakepub.Map{"type", "BlockUpdated", "block_hashes", hs}, ""},
		{"sliding window group", list{"BlockStored", hs, nil, toks4, 2, nil, "GPU", nil, nil, 1, "sliding_window", 128}, ""},
		{"mamba without group", fakepub.Map{"type", "BlockStored", "block_hashes", hs, "token_ids", toks4, "block_size", 2,
			"kv_cache_spec_kind", "mamba"}, ""},

		{"no type", fakepub.Map{"block_hashes", hs}, "!"},
		{"empty array", list{}, "!"},
		{"no hashes", list{"BlockRemoved"}, "!"},
		{"string hash", list{"BlockRemoved", list{"abc"}}, "!"},
		{"negative token", fakepub.Map{"type", "BlockStored", "block_hashes", list{1}, "token_ids", list{-1}, "block_size",
			1}, "!"},
		{"huge token", fakepub.Map{"type", "BlockStored", "block_hashes", list{1}, "token_ids", list{uint64(1 << 32)},
			"block_size", 1}, "!"},
		{"huge block", fakepub.Map{"type", "BlockStored", "block_hashes", list{1}, "token_ids", list{1}, "block_size",
			1 << 20}, "!"},
		{"extra keys of other length", full(list{nil}, nil, nil), "!"},
		{"copies of other length", fakepub.Map{"type", "BlockRemoved", "block_hashes", hs, "remaining_copy_counts", list{0}},
			"!"},
		{"event is a number", 3, "!"},
		{"event is nil", nil, "!"},
		{"wrong type of list", list{"BlockStored", "x", nil, toks4, 2}, "!"},
	}
	for _, c := range cases {
		for _, envelope := range []string{"array", "map", "old"} {
			var d Decoder
			around := fakepub.Cleared()
			events := list{around, c.event, around}
			var payload []byte
			switch envelope {
			case "array":
				payload = fakepub.Msgpack(list{12.5, events, 3})
			case "map":
				payload = fakepub.Msgpack(fakepub.Map{"data_parallel_rank", 3, "x", nil, "events", events, "ts", 12.5})
			case "old":
				payload = fakepub.Msgpack(list{12.5, events})
			}
			b, err := d.Decode(payload)
			if err != nil {
				t.Errorf("%s, %s: %v", c.name, envelope, err)
				continue
			}
			if rank := map[string]int{"array": 3, "map": 3, "old": -1}[envelope]; b.TS != 12.5 || b.Rank != rank ||
				batchTime(payload) != 12.5 {
				t.Errorf("%s, %s: ts %v rank %d", c.name, envelope, b.TS, b.Rank)
			}
			got := ""
			if len(b.Events) == 3 {
				got = line(&b.Events[1])
			} else if b.Failed == 1 && d.Stats.Failed() == 1 {
				got = "!"
			}
			if n := len(b.Events); got != c.want || n < 2 || b.Events[n-1].Kind != Cleared {
				t.Errorf("%s, %s: got %q of %d events, want %q", c.name, envelope, got, n, c.want)
			}
		}
	}
}

func mustBigram(a, b int) uint32 {
	v, err := tokenValue(&reader{b: fakepub.Msgpack(list{a, b})})
	if err != nil {
		panic(err)
	}
	return v
}

func TestDecode_groups(t *testing.T) {
	in := func(kind string, group int, h uint64) fakepub.Map {
		return fakepub.Map{"type", "BlockStored", "block_hashes", list{h}, "token_ids", list{1}, "block_size", 1,
			"group_idx", group, "kv_cache_spec_kind", kind}
	}
	out := func(group int, h uint64) fakepub.Map {
		return fakepub.Map{"type", "BlockRemoved", "block_hashes", list{h}, "group_idx", group}
	}
	var d Decoder
	b, err := d.Decode(fakepub.Batch(1,
		out(5, 90),                      // kind of group not known: harmless, passes
		in("sliding_window", 0, 1),      // not indexed
		in("full_attention", 1, 1),      // the group that speaks
		in("full_attention", 2, 1),      // says the same again
		out(0, 1), out(2, 1), out(1, 1), // only the last counts
		in("mla_attention", 1, 2), in("sink_full_attention", 1, 3)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range b.Events {
		got = append(got, fmt.Sprint(b.Events[i].Kind, b.Events[i].Hashes))
	}
	want := []string{"removed [90]", "stored [1]", "removed [1]", "stored [2]", "stored [3]"}
	if !reflect.DeepEqual(got, want) || d.Stats.OtherGroup != 4 {
		t.Errorf("got %v, %d left out, want %v and 4", got, d.Stats.OtherGroup, want)
	}
}

func TestDecode_truncated(t *testing.T) {
	whole := fakepub.Batch(3, fakepub.Cleared(), stored.Map(), stored.Array(), fakepub.Removed("GPU", 9))
	var d Decoder
	for n := range whole {
		b, err := d.Decode(whole[:n])
		if err != nil && err != ErrEnvelope {
			t.Fatal(err)
		}
		if err == nil && b.Failed == 0 {
			t.Fatalf("cut at %d of %d: no fault", n, len(whole))
		}
	}
	for _, bad := range [][]byte{nil, {0xc0}, {0xdd, 0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{0x91}, 100),
		fakepub.Msgpack(list{1.0}), fakepub.Msgpack(fakepub.Map{"ts", 1.0}), fakepub.Msgpack("x")} {
		if _, err := d.Decode(bad); err != ErrEnvelope {
			t.Errorf("%x: %v", bad, err)
		}
	}
}

func TestDecode_depth(t *testing.T) {
	deep := func(n int) any {
		var v any = 1
		for range n {
			v = list{v}
		}
		return v
	}
	var d Decoder
	b, err := d.Decode(fakepub.Batch(1, fakepub.Map{"type", "AllBlocksCleared", "x", deep(maxDepth)}))
	if err != nil || len(b.Events) != 1 {
		t.Errorf("nested as deep as allowed: %v", err)
	}
	b, err = d.Decode(fakepub.Batch(1, fakepub.Cleared(), fakepub.Map{"type", "AllBlocksCleared", "x",
		deep(maxDepth + 1)}))
	if err != nil || len(b.Events) != 1 || d.Stats.FailedDepth != 1 {
		t.Errorf("nested deeper: %v, %+v", err, d.Stats)
	}
}

func TestDecode_allocations(t *testing.T) {
	g := loadGolden(t)
	salted := fakepub.Stored{Hashes: []uint64{1, 2}, Tokens: toks4, Block: 2, Salt: "s", Lora: "l"}
	payloads := [][]byte{g.Replay[1][3], fakepub.Batch(1, salted.Map(), salted.Array(), fakepub.Removed("cpu", 1, 2),
		fakepub.Cleared(), 5),
		fakepub.Batch(1, list{"BlockStored", []uint64{1, 2}, nil, toks4, 2, 7, "GPU"})}
	var d Decoder
	for i, p := range payloads {
		if n := testing.AllocsPerRun(100, func() { d.Decode(p) }); n != 0 {
			t.Errorf("payload %d: %v allocations", i, n)
		}
	}
}

func FuzzDecode(f *testing.F) {
	g := loadGolden(f)
	f.Add(g.Replay[1][3])
	f.Add(fakepub.Batch(3, fakepub.Cleared(), stored.Map(), stored.Array(), fakepub.Removed("GPU", 9), 4, nil))
	f.Add(fakepub.Msgpack(fakepub.Map{"ts", 1.5, "events", list{fakepub.Stored{Hashes: []uint64{1}, Tokens: []uint32{5},
		Block: 1, Salt: "s", Lora: "l"}.Map()}}))
	f.Add(fakepub.Batch(1, list{"BlockStored", []uint64{7}, nil, toks4, 4, 7, "GPU", fakepub.Map{"cache_salt", "s"},
		list{list{1, "a"}}}))
	var d Decoder
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := d.Decode(payload)
		if (b == nil) != (err != nil) {
			t.Fatal("a batch or an error, not both")
		}
		batchTime(payload)
		if b == nil {
			return
		}
		if len(b.Events) > len(payload) {
			t.Fatal("more events than bytes")
		}
		for i := range b.Events {
			e := &b.Events[i]
			if e.Kind == Stored && (e.BlockTokens < 1 || len(e.Tokens) != e.BlockTokens*len(e.Hashes) || len(e.Extra) != 0 &&
				len(e.Extra) != len(e.Hashes)) {
				t.Fatalf("shape: %+v", e)
			}
			if e.Kind == Removed && len(e.Copies) != 0 && len(e.Copies) != len(e.Hashes) {
				t.Fatalf("shape: %+v", e)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	g := loadGolden(b)
	toks := make([]uint32, 64*16)
	for i := range toks {
		toks[i] = uint32(i*2654435761) % 150000
	}
	hs := make([]uint64, 64)
	for i := range hs {
		hs[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	s := fakepub.Stored{Hashes: hs, Parent: uint64(5), Tokens: toks, Block: 16}
	for _, c := range []struct {
		name    string
		payload []byte
	}{{"form=vllm-0.32", g.Replay[1][3]}, {"form=map", fakepub.Batch(1, s.Map())}, {"form=array", fakepub.Batch(1,
		s.Array())}} {
		b.Run(c.name, func(b *testing.B) {
			var d Decoder
			b.SetBytes(int64(len(c.payload)))
			b.ReportAllocs()
			for b.Loop() {
				d.Decode(c.payload)
			}
		})
	}
}
