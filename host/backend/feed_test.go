package backend

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/kvevents"
	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
	"github.com/kvasir-router/kvasir/host/kvindex"
)

var _ Index = (*kvindex.Index)(nil)

const identity = "sha256:test"

// feeder feeds encoded events, as they come off the wire.
type feeder struct {
	*Feed
	t   *testing.T
	x   *mapIndex
	dec kvevents.Decoder
	seq uint64
}

func newFeeder(t *testing.T, index func(*mapIndex) Index) *feeder {
	x := newMapIndex()
	cfg := Config{CacheIdentity: identity, URL: "http://x:1"}.withDefaults()
	f := &feeder{t: t, x: x}
	f.Feed = newFeed(&cfg, index(x), newTrust(time.Now()), func() int { return 0 }, func() {})
	return f
}

func holding(x *mapIndex) Index { return x }

func (f *feeder) feed(events ...any) {
	f.t.Helper()
	b, err := f.dec.Decode(fakepub.Batch(1, events...))
	if err != nil {
		f.t.Fatal(err)
	}
	b.Seq = f.seq
	f.seq++
	f.Batch(b)
}

// chain returns the own names of a prompt's blocks.
func chain(adapter, salt string, block int, tokens ...uint32) []uint64 {
	own, _ := blockhash.Append(nil, blockhash.Seed(identity, adapter, salt), tokens, block)
	return own
}

func set(own ...[]uint64) map[uint64]bool {
	m := map[uint64]bool{}
	for _, l := range own {
		for _, o := range l {
			m[o] = true
		}
	}
	return m
}

func (f *feeder) want(tier int, own ...[]uint64) {
	f.t.Helper()
	if got := f.x.own(0, tier); !maps.Equal(got, set(own...)) {
		f.t.Errorf("tier %d holds %d blocks %v, want %v", tier, len(got), got, set(own...))
	}
}

func TestFeed_goldenVLLM(t *testing.T) {
	raw, err := os.ReadFile("testdata/vllm-0.32.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Replay [][][]byte `json:"replay"`
		Want   []struct {
			Events []struct {
				Tokens []uint32   `json:"token_ids"`
				Parent *string    `json:"parent_block_hash"`
				Extra  [][]string `json:"extra_keys"`
			} `json:"events"`
		} `json:"want"`
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	f := newFeeder(t, holding)
	var want [][]uint64
	var before []uint32 // the one chain that is continued
	for i, w := range g.Want {
		b, err := f.dec.Decode(g.Replay[i][3])
		if err != nil {
			t.Fatal(err)
		}
		f.Batch(b)
		e := w.Events[0]
		salt := ""
		if e.Extra[0] != nil {
			salt = e.Extra[0][0]
		}
		tokens := e.Tokens
		if e.Parent != nil {
			tokens = append(before, tokens...)
		}
		before = e.Tokens
		want = append(want, chain("", salt, 32, tokens...))
	}
	f.want(0, want...)
	if st := f.Stats(); st.BlockTokens != 32 || st.Orphans != 0 || st.Failed != 0 {
		t.Errorf("%+v", st)
	}
}

func stored(parent any, salt, lora string, tokens []uint32, hashes ...uint64) fakepub.Stored {
	return fakepub.Stored{Hashes: hashes, Parent: parent, Tokens: tokens, Block: 2, Salt: salt, Lora: lora}
}

func TestFeed_chains(t *testing.T) {
	f := newFeeder(t, holding)
	f.feed(stored(nil, "", "", []uint32{1, 2, 3, 4}, 10, 11).Map(),
		stored(uint64(11), "", "", []uint32{5, 6}, 12).Array(),
		stored(nil, "salt", "", []uint32{1, 2, 3, 4}, 20, 21).Map(),
		stored(uint64(21), "", "", []uint32{5, 6}, 22).Map(),
		stored(nil, "", "ad", []uint32{1, 2}, 30).Map(),
		stored(nil, "salt", "ad", []uint32{1, 2}, 40).Map())
	f.want(0, chain("", "", 2, 1, 2, 3, 4, 5, 6), chain("", "salt", 2, 1, 2, 3, 4, 5, 6), chain("ad", "", 2, 1, 2),
		chain("ad", "salt", 2, 1, 2))
	if len(set(chain("", "", 2, 1, 2), chain("", "salt", 2, 1, 2), chain("ad", "", 2, 1, 2), chain("ad", "salt", 2, 1,
		2))) != 4 {
		t.Fatal("chains of different namespaces meet")
	}
	f.feed(fakepub.Removed("GPU", 12, 11, 10, 20, 99))
	f.want(0, chain("", "salt", 2, 1, 2, 3, 4, 5, 6)[1:], chain("ad", "", 2, 1, 2), chain("ad", "salt", 2, 1, 2))
	f.feed(fakepub.Cleared())
	f.want(0)
}

// An adapter that is only known by its number, and content that is not tokens,
// must match no request.
func TestFeed_foreignContent(t *testing.T) {
	f := newFeeder(t, holding)
	f.feed(fakepub.Map{"type", "BlockStored", "block_hashes", []uint64{1}, "token_ids", []uint32{1, 2}, "block_size", 2,
		"lora_id", 7},
		fakepub.Map{"type", "BlockStored", "block_hashes", []uint64{5, 6, 7}, "token_ids", []uint32{1, 2, 3, 4, 5, 6},
			"block_size", 2,
			"extra_keys", []any{nil, []any{[]any{"img", 1}}, nil}})
	plain := chain("", "", 2, 1, 2, 3, 4, 5, 6)
	got := f.x.own(0, 0)
	if len(got) != 4 || !got[plain[0]] || got[plain[1]] || got[plain[2]] {
		t.Errorf("holds %v; plain is %v", got, plain)
	}
	for _, a := range []string{"7", ""} {
		if got[chain(a, "", 2, 1, 2)[0]] && a != "" {
			t.Errorf("adapter number 7 is found as %q", a)
		}
	}
}

func TestFeed_tiers(t *testing.T) {
	f := newFeeder(t, holding)
	s := stored(nil, "", "", []uint32{1, 2}, 10)
	cpu, disk, ext := s, s, s
	cpu.Medium, disk.Medium, ext.Medium = "cpu_pinned", "DISK", "mooncake"
	child := stored(uint64(10), "", "", []uint32{3, 4}, 11)
	child.Medium = "CPU"
	f.feed(s.Map(), cpu.Map(), disk.Map(), ext.Map(), child.Map())
	f.want(0, chain("", "", 2, 1, 2))
	f.want(1, chain("", "", 2, 1, 2, 3, 4))
	f.want(2, chain("", "", 2, 1, 2))
	f.feed(fakepub.Removed("GPU", 10), fakepub.Removed("elsewhere", 11))
	f.want(0)
	f.want(1, chain("", "", 2, 1, 2, 3, 4))
	if st := f.Stats(); st.OtherMedium != 2 {
		t.Errorf("%+v", st)
	}
	f.Reset("test")
	for tier := range tiers {
		f.want(tier)
	}
}

func TestFeed_copies(t *testing.T) {
	f := newFeeder(t, holding)
	s := stored(nil, "", "", []uint32{1, 2, 3, 4}, 10, 11)
	f.feed(s.Map(), s.Map(), s.Map()) // three requests side by side
	f.feed(fakepub.Removed("GPU", 11, 10), fakepub.Removed("GPU", 11))
	f.want(0, chain("", "", 2, 1, 2, 3, 4))
	f.feed(fakepub.Removed("GPU", 11))
	f.want(0, chain("", "", 2, 1, 2))
	f.feed(s.Map(), fakepub.Map{"type", "BlockRemoved", "block_hashes", []uint64{10, 11}, "remaining_copy_counts",
		[]any{2, 0}})
	f.want(0, chain("", "", 2, 1, 2))
	f.feed(fakepub.Map{"type", "BlockRemoved", "block_hashes", []uint64{10}, "remaining_copy_counts", []any{0}})
	f.want(0)
	if len(f.copies) != 0 {
		t.Errorf("copies left: %v", f.copies)
	}
	plain := newFeeder(t, func(x *mapIndex) Index { return plainIndex{x} })
	plain.feed(s.Map(), s.Map(), fakepub.Removed("GPU", 11))
	plain.want(0, chain("", "", 2, 1, 2, 3, 4)) // one tier: as good as with Holding
	cpu := s
	cpu.Medium = "CPU"
	plain.feed(cpu.Map(), cpu.Map(), fakepub.Removed("CPU", 11)) // two: too little, never too much
	plain.want(1, chain("", "", 2, 1, 2))
	f.feed(s.Map(), cpu.Map(), cpu.Map(), fakepub.Removed("CPU", 11), fakepub.Removed("GPU", 11))
	f.want(0, chain("", "", 2, 1, 2))
	f.want(1, chain("", "", 2, 1, 2, 3, 4))
}

func TestFeed_orphans(t *testing.T) {
	f := newFeeder(t, holding)
	f.feed(stored(uint64(12), "", "", []uint32{7, 8}, 13).Map(), stored(uint64(11), "", "", []uint32{5, 6}, 12).Map(),
		stored(uint64(11), "", "", []uint32{9, 9}, 50).Map())
	f.want(0)
	if st := f.Stats(); st.Orphans != 3 || st.Parked != 3 || st.ParkedBytes == 0 {
		t.Errorf("%+v", st)
	}
	f.feed(fakepub.Removed("GPU", 50))
	f.feed(stored(nil, "s", "", []uint32{1, 2, 3, 4}, 10, 11).Map())
	f.want(0, chain("", "s", 2, 1, 2, 3, 4, 5, 6, 7, 8))
	if st := f.Stats(); st.Adopted != 3 || st.Parked != 0 || st.ParkedBytes != 0 || st.Dropped != 0 {
		t.Errorf("%+v", st)
	}
}

func TestFeed_orphansAreBounded(t *testing.T) {
	f := newFeeder(t, holding)
	f.park.limit = 10_000
	now := time.Now()
	f.now = func() time.Time { return now }
	big := make([]uint32, 4000)
	hashes := make([]uint64, 2000)
	f.feed(fakepub.Stored{Hashes: hashes, Parent: uint64(1), Tokens: big, Block: 2}.Map()) // larger than all room
	for i := range uint64(1000) {
		f.feed(stored(1<<40+i, "", "", []uint32{1, 2}, i).Map())
		if f.park.bytes > 10_000 {
			t.Fatalf("%d bytes parked", f.park.bytes)
		}
	}
	st := f.Stats()
	if st.Parked == 0 || st.Dropped+uint64(st.Parked) != 1001 {
		t.Errorf("%+v", st)
	}
	now = now.Add(parkFor + time.Second)
	f.feed(fakepub.Removed("GPU", 1))
	if st := f.Stats(); st.Parked != 0 || st.ParkedBytes != 0 || st.Dropped != 1001 ||
		len(f.park.waiting)+len(f.park.blocks)+len(f.park.queue) != 0 {
		t.Errorf("%+v", st)
	}
	if v := f.trust.Value(now); v > 0.95*ceilPredicted && f.trust.stream > 0.5 {
		t.Errorf("trust is still %v", v)
	}
}

func TestFeed_blockSize(t *testing.T) {
	f := newFeeder(t, holding)
	four := fakepub.Stored{Hashes: []uint64{7}, Tokens: []uint32{1, 2, 3, 4}, Block: 4}
	f.feed(stored(nil, "", "", []uint32{1, 2}, 10).Map(), four.Map())
	f.want(0, chain("", "", 2, 1, 2))
	f.expect = func() int { return 4 } // the engine's configuration is right
	f.feed(four.Map(), stored(nil, "", "", []uint32{5, 6}, 11).Map())
	f.want(0, chain("", "", 2, 1, 2), chain("", "", 4, 1, 2, 3, 4))
	huge := fakepub.Stored{Hashes: []uint64{8}, Tokens: make([]uint32, blockhash.MaxBlockTokens+1),
		Block: blockhash.MaxBlockTokens + 1}
	f.feed(huge.Map())
	if st := f.Stats(); st.OtherSize != 3 || st.BlockTokens != 4 {
		t.Errorf("%+v", st)
	}
}

// SGLang's hashes know no salt: one hash names blocks of several tenants.
func TestFeed_saltOutsideTheHash(t *testing.T) {
	f := newFeeder(t, holding)
	ev := func(salt any, parent any, tokens []uint32, hashes ...uint64) fakepub.Map {
		return fakepub.Map{"type", "BlockStored", "block_hashes", hashes, "parent_block_hash", parent, "token_ids", tokens,
			"block_size", 2, "cache_salt", salt}
	}
	f.feed(ev(nil, nil, []uint32{1, 2}, 10), ev("a", nil, []uint32{1, 2}, 10), ev("b", nil, []uint32{1, 2}, 10),
		ev("a", uint64(10), []uint32{3, 4}, 11), ev(nil, uint64(10), []uint32{3, 4}, 11))
	f.want(0, chain("", "", 2, 1, 2, 3, 4), chain("", "a", 2, 1, 2, 3, 4), chain("", "b", 2, 1, 2))
	f.feed(fakepub.Map{"type", "BlockRemoved", "block_hashes", []uint64{11}, "cache_salt", "a"})
	f.want(0, chain("", "", 2, 1, 2, 3, 4), chain("", "a", 2, 1, 2), chain("", "b", 2, 1, 2))
	f.feed(fakepub.Removed("GPU", 10, 11)) // without a salt it takes them all
	f.want(0)
	for i := range 2 * maxDomains {
		f.feed(ev(fmt.Sprint(i), nil, []uint32{1, 2}, 10))
	}
	if len(f.domains) != maxDomains {
		t.Errorf("%d domains", len(f.domains))
	}
}

// TestFeed_random runs an engine of random prompts with shared prefixes, salts,
// adapters, copies and evictions, and compares what the index holds with what
// the engine holds, both by own names.
func TestFeed_random(t *testing.T) {
	kv := kvindex.New(kvindex.Config{Holders: 8, BudgetBytes: 64 << 20})
	kinds := []func(*mapIndex) Index{holding, func(x *mapIndex) Index { return plainIndex{x} },
		func(x *mapIndex) Index { return tee{plainIndex{x}, kv} }}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newFeeder(t, kinds[seed%3])
		kv.RemoveHolder(0)
		copies := map[uint64]int{}      // engine's copies per own name
		own := map[uint64]bool{}        // what is held
		engineOf := map[uint64]uint64{} // own → engine's name
		var order []uint64
		name := func(o uint64) uint64 {
			if engineOf[o] == 0 {
				engineOf[o] = rng.Uint64() | 1
			}
			return engineOf[o]
		}
		for range 300 {
			switch r := rng.IntN(10); {
			case r < 6:
				salt, lora := []string{"", "s1", "s2"}[rng.IntN(3)], []string{"", "ad"}[rng.IntN(2)]
				var tokens []uint32
				for range 1 + rng.IntN(6) {
					tokens = append(tokens, uint32(rng.IntN(3)), 7)
				}
				blocks := chain(lora, salt, 2, tokens...)
				first := 0 // blocks already held as a prefix are reused, or computed again by a second request
				for first < len(blocks) && own[blocks[first]] && rng.IntN(8) != 0 {
					first++
				}
				if first == len(blocks) {
					continue
				}
				var parent any
				if first > 0 {
					parent = name(blocks[first-1])
				}
				var hashes []uint64
				for _, o := range blocks[first:] {
					hashes = append(hashes, name(o))
					copies[o]++
					own[o] = true
					order = append(order, o)
				}
				s := stored(parent, salt, lora, tokens[2*first:], hashes...)
				if rng.IntN(2) == 0 {
					f.feed(s.Map())
				} else {
					f.feed(s.Array())
				}
			case r < 9 && len(order) > 0:
				i := rng.IntN(len(order))
				o := order[i]
				order = slices.Delete(order, i, i+1)
				if copies[o]--; copies[o] == 0 {
					delete(copies, o)
					delete(own, o)
				}
				f.feed(fakepub.Removed("GPU", name(o)))
			case rng.IntN(20) == 0:
				clear(copies)
				clear(own)
				order = nil
				f.feed(fakepub.Cleared())
			}
			if got := f.x.own(0, 0); !maps.Equal(got, own) {
				t.Fatalf("seed %d: %d blocks held, engine has %d", seed, len(got), len(own))
			}
			if n := kv.Held(0); seed%3 == 2 && n != int64(len(own)) {
				t.Fatalf("seed %d: kvindex holds %d blocks, engine has %d", seed, n, len(own))
			}
		}
	}
}

func BenchmarkFeed(b *testing.B) {
	toks := make([]uint32, 64*16)
	for i := range toks {
		toks[i] = uint32(i) * 2654435761 % 150000
	}
	hs := make([]uint64, 64)
	for i := range hs {
		hs[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	cfg := Config{CacheIdentity: identity, URL: "http://x:1"}.withDefaults()
	f := newFeed(&cfg, kvindex.New(kvindex.Config{Holders: 64, BudgetBytes: 64 << 20}), newTrust(time.Now()),
		func() int { return 0 }, func() {})
	payload := fakepub.Batch(1, fakepub.Stored{Hashes: hs, Tokens: toks, Block: 16}.Map(), fakepub.Removed("GPU", hs...))
	var dec kvevents.Decoder
	b.ReportAllocs()
	for b.Loop() {
		batch, err := dec.Decode(payload)
		if err != nil {
			b.Fatal(err)
		}
		f.Batch(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/block")
}
