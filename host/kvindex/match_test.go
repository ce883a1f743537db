package kvindex

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// TestMatch_allocs: lookups allocate nothing, whatever they meet.
func TestMatch_allocs(t *testing.T) {
	testdeps.Sequential(t)
	l := load(100_000, Tiers, 16<<20)
	depth, all := make([]uint32, l.x.Holders()), l.all()
	i := 0
	if n := testing.AllocsPerRun(500, func() {
		l.x.Match(l.qs[i%len(l.qs)].own, all, depth)
		l.x.MatchTiers(l.qs[i%len(l.qs)].own, all, depth)
		i++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestMatch_deep: interleaved chains of 8,192 blocks, before and after
// compaction, which must shorten the paths.
func TestMatch_deep(t *testing.T) {
	testdeps.Sequential(t)
	l := load(100_000, 1, 64<<20)
	l.verify(t)
	steps := func() (n int) {
		for _, q := range l.qs {
			n += l.x.Steps(q.own)
		}
		return n / len(l.qs)
	}
	before := steps()
	l.compact()
	l.verify(t)
	if err := check(l.x); err != nil {
		t.Fatal(err)
	}
	if after := steps(); after > 8 || before > 60 {
		t.Errorf("%d runs on a path, %d after compaction", before, after)
	}
}

// TestMatch_candidates: only candidates' depths are written.
func TestMatch_candidates(t *testing.T) {
	x := New(Config{Holders: 130, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(1, 1))
	own := chain(rng, 1, 50, 1)
	for _, h := range []int{0, 5, 129} {
		if err := x.Store(h, 0, false, engs(own[:h%49+1]), own[:h%49+1]); err != nil {
			t.Fatal(err)
		}
	}
	depth := make([]uint32, 130)
	for i := range depth {
		depth[i] = 77
	}
	x.Match(own, []uint64{1<<5 | 1<<6}, depth)
	if depth[0] != 77 || depth[5] != 6 || depth[6] != 0 || depth[129] != 77 {
		t.Errorf("depths %d %d %d %d, want 77 6 0 77", depth[0], depth[5], depth[6], depth[129])
	}
	x.Match(nil, []uint64{1 << 5, 0, 2}, depth)
	if depth[5] != 0 || depth[129] != 0 {
		t.Errorf("depths of an empty prompt: %d %d", depth[5], depth[129])
	}
}

// TestIndex_tiers: a block that was offloaded continues what is in GPU memory.
func TestIndex_tiers(t *testing.T) {
	x := New(Config{Holders: 4 * Tiers, BudgetBytes: -1})
	own := chain(rand.New(rand.NewPCG(1, 1)), 1, 30, 1)
	e := engs(own)
	gpu, cpu := HolderOf(2, 0), HolderOf(2, 1)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(x.Store(gpu, 0, false, e[:20], own[:20]))
	must(x.Store(cpu, e[9], true, e[10:30], own[10:30])) // its parent is in GPU memory only
	x.Remove(gpu, e[15:20])
	all := []uint64{1<<16 - 1}
	depth := make([]uint32, 16)
	x.MatchTiers(own, all, depth)
	if depth[gpu] != 15 || depth[cpu] != 30 || depth[HolderOf(2, 3)] != 30 || depth[HolderOf(1, 3)] != 0 {
		t.Errorf("tiers %d, want 15 30 30 30", depth[8:12])
	}
	x.Match(own, all, depth)
	if depth[gpu] != 15 || depth[cpu] != 0 {
		t.Errorf("depths %d, want 15 0 0 0", depth[8:12])
	}
	if err := x.Store(HolderOf(1, 0), e[4], true, e[5:6], own[5:6]); !errors.Is(err, ErrOrphan) {
		t.Errorf("store behind another endpoint's block: %v, want %v", err, ErrOrphan)
	}
	if id, tier := EndpointOf(cpu); id != 2 || tier != 1 {
		t.Errorf("EndpointOf = %d %d", id, tier)
	}
}

// TestIndex_forged: an endpoint that claims another's name for other content
// changes nothing of the other's.
func TestIndex_forged(t *testing.T) {
	x := New(Config{Holders: 2 * Tiers, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(1, 1))
	mine, theirs := chain(rng, 1, 20, 1), chain(rng, 2, 20, 1)
	a, b := HolderOf(0, 0), HolderOf(1, 0)
	e := engs(mine)
	if x.Store(a, 0, false, e, mine) != nil || x.Store(b, 0, false, e, theirs) != nil {
		t.Fatal("orphans")
	}
	if own, ok := x.Own(b, e[7]); !ok || own != theirs[7] {
		t.Errorf("Own = %x %v, want %x", own, ok, theirs[7])
	}
	if own, ok := x.Own(a, e[7]); !ok || own != mine[7] {
		t.Errorf("Own = %x %v, want %x", own, ok, mine[7])
	}
	x.Remove(b, e)
	depth := make([]uint32, 8)
	x.Match(mine, []uint64{255}, depth)
	if depth[a] != 20 || depth[b] != 0 || x.Held(b) != 0 {
		t.Errorf("depths %d %d, want 20 0", depth[a], depth[b])
	}
	if s := x.Stats(); s.Aliases != 0 || s.AliasBytes != 0 || s.Conflicts != 20 {
		t.Errorf("%d aliases in %d bytes, %d conflicts", s.Aliases, s.AliasBytes, s.Conflicts)
	}
}

// TestIndex_sameName: one endpoint cannot call more blocks by one name than the
// bound, and a removal takes all of them.
func TestIndex_sameName(t *testing.T) {
	x := New(Config{Holders: 1, BudgetBytes: -1})
	for i := range uint64(200) {
		if err := x.Store(0, 0, false, []uint64{7}, []uint64{mixHash(i, 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := x.Held(0); n != maxSameName+1 {
		t.Errorf("%d blocks with one name, want %d", n, maxSameName+1)
	}
	x.Remove(0, []uint64{7})
	if n := x.Held(0); n != 0 {
		t.Errorf("%d blocks left", n)
	}
	if err := check(x); err != nil {
		t.Fatal(err)
	}
}

// TestMaintain_slices: compaction gives the lock back in time. The bound is
// generous, since other work may run on the machine.
func TestMaintain_slices(t *testing.T) {
	testdeps.Sequential(t)
	l := load(100_000, 1, 64<<20)
	depth, all := make([]uint32, 64), l.all()
	slices, longest := 0, time.Duration(0)
	for _, q := range l.qs {
		l.x.Match(q.own, all, depth)
		for more := true; more; slices++ {
			start := time.Now()
			more = l.x.maintainSlice()
			longest = max(longest, time.Since(start))
		}
	}
	s := l.x.Stats()
	if s.Copied < 300_000 || slices < 2*len(l.qs) {
		t.Errorf("%d blocks copied in %d slices", s.Copied, slices)
	}
	t.Logf("longest of %d slices %v, %d blocks copied", slices, longest, s.Copied)
}

func TestConfig_Validate(t *testing.T) {
	for _, c := range []Config{{}, {Holders: -1}, {Holders: MaxHolders + 1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
	if x := New(Config{Holders: MaxHolders}); x.Words() != MaxHolders/64 || !x.Empty() {
		t.Errorf("%d words", x.Words())
	}
}
