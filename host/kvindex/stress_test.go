package kvindex

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// chain returns the own hashes of a random path: few choices per step, so that
// paths share prefixes.
func chain(rng *rand.Rand, from uint64, n, fan int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		c := uint64(0)
		if rng.IntN(12) == 0 {
			c = uint64(rng.IntN(fan))
		}
		from = mixHash(from, c)
		out[i] = from
	}
	return out
}

// readers runs f in n goroutines until the returned function is called. f
// returns false to end the test.
func readers(n int, f func(rng *rand.Rand) bool) (stopped *atomic.Bool, wait func()) {
	stopped = new(atomic.Bool)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 2))
			for !stopped.Load() {
				if !f(rng) {
					stopped.Store(true)
				}
			}
		})
	}
	return stopped, func() { stopped.Store(true); wg.Wait() }
}

// TestIndex_stress: while other holders split, shift, merge and rename the runs
// of a chain, the depths of holders whose holdings do not change must be exact
// in every lookup.
func TestIndex_stress(t *testing.T) {
	x := New(Config{Holders: 64, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(9, 9))
	own := chain(rng, 3, 700, 2)
	e := engs(own)
	f := make([]uint64, len(own)) // other names for the same blocks
	for i := range f {
		f[i] = mixHash(own[i], 0xF)
	}
	store := func(h, a, b int, names []uint64) {
		if a > 0 {
			if _, ok := x.Own(h, names[a-1]); !ok {
				a = 0
			}
		}
		var parent uint64
		if a > 0 {
			parent = names[a-1]
		}
		if err := x.Store(h, parent, a > 0, names[a:b], own[a:b]); err != nil {
			t.Errorf("store: %v", err)
		}
	}
	store(0, 0, 700, e)
	store(1, 0, 300, e)
	stopped, wait := readers(3, func(rng *rand.Rand) bool {
		var depth [64]uint32
		q := own[:1+rng.IntN(len(own))]
		x.Match(q, []uint64{^uint64(0)}, depth[:])
		if depth[0] != uint32(len(q)) || depth[1] != uint32(min(300, len(q))) || depth[63] != 0 {
			t.Errorf("depths %d %d %d of %d", depth[0], depth[1], depth[63], len(q))
			return false
		}
		return true
	})
	for step := 0; step < 30000/shorter && !stopped.Load(); step++ {
		h := 2 + rng.IntN(20)
		names := e
		if h%2 == 0 {
			names = f
		}
		a := rng.IntN(len(own))
		b := a + 1 + rng.IntN(len(own)-a)
		switch rng.IntN(6) {
		case 0, 1:
			store(h, a, b, names)
		case 2:
			x.Remove(h, reversed(names[a:b]))
		case 3:
			x.Remove(h, names[a:min(b, a+3)])
		case 4:
			side := chain(rng, own[a], 30, 50)
			x.Store(h, names[a], true, engs(side), side) // often an orphan
			x.Remove(h, engs(side))
		case 5:
			if rng.IntN(50) == 0 {
				x.RemoveHolder(h)
			}
		}
	}
	wait()
	if err := check(x); err != nil {
		t.Fatal(err)
	}
	s := x.Stats()
	t.Logf("%d retries, %d splits, %d shifts, %d merges, %d aliases", s.Retries, s.Splits, s.Shifts, s.Merges, s.Aliases)
}

// growing is a chain of which holder 0 holds at least min and at most max
// leading blocks.
type growing struct {
	own      []uint64
	min, max atomic.Int64
}

// TestCompact_stress: readers see exact depths while a chain grows in pieces
// that two holders own in turn, while the pieces are made equal, joined in
// slices, cut again and evicted from the end.
func TestCompact_stress(t *testing.T) {
	x := New(Config{Holders: 64, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(4, 9))
	var cur atomic.Pointer[growing]
	stopped, wait := readers(2, func(rng *rand.Rand) bool {
		s := cur.Load()
		if s == nil {
			return true
		}
		var depth [64]uint32
		q := s.own[:1+rng.IntN(len(s.own))]
		lo := s.min.Load()
		x.Match(q, []uint64{^uint64(0)}, depth[:])
		lo = min(lo, s.min.Load())
		if d, hi := int64(depth[0]), s.max.Load(); d < min(lo, int64(len(q))) || d > hi || depth[63] != 0 {
			t.Errorf("depth %d of %d, want %d to %d", d, len(q), lo, hi)
			return false
		}
		return true
	})
	for round := 0; round < 120 && !stopped.Load(); round++ {
		s := &growing{own: chain(rng, uint64(1000+round), 900, 2)}
		grow(t, x, rng, s, &cur)
		if err := check(x); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	wait()
	s := x.Stats()
	if s.Blocks != 0 || s.Joined == 0 {
		t.Fatalf("%d blocks left, %d runs joined", s.Blocks, s.Joined)
	}
	t.Logf("%d runs with %d blocks joined, %d retries", s.Joined, s.Copied, s.Retries)
}

// grow is one round of TestCompact_stress.
func grow(t *testing.T, x *Index, rng *rand.Rand, s *growing, cur *atomic.Pointer[growing]) {
	own, e := s.own, engs(s.own)
	cur.Store(s)
	store := func(h, a, b int) {
		var parent uint64
		if a > 0 {
			parent = e[a-1]
		}
		if err := x.Store(h, parent, a > 0, e[a:b], own[a:b]); err != nil {
			t.Errorf("store: %v", err)
		}
	}
	for at, turn := 0, 0; at < len(own); turn++ {
		to := min(len(own), at+1+rng.IntN(40))
		if turn%2 == 1 {
			store(1, at, to)
		}
		s.max.Store(int64(to))
		store(0, at, to)
		s.min.Store(int64(to))
		if turn%2 == 0 {
			store(1, at, to)
		}
		at = to
		if rng.IntN(4) == 0 {
			x.Maintain(time.Millisecond)
		}
	}
	for range 30 {
		x.Match(own, []uint64{^uint64(0)}, make([]uint32, 64))
		x.compactSome(1 + rng.IntN(20))
		a := 1 + rng.IntN(len(own)-1)
		b := a + 1 + rng.IntN(min(60, len(own)-a))
		if rng.IntN(2) == 0 {
			x.Remove(1, e[a:b])
		} else {
			store(1, 0, b)
		}
	}
	x.Remove(1, reversed(e))
	s.min.Store(0)
	x.Remove(0, reversed(e))
}

// compactSome does a few small slices of what waits in the mailbox.
func (x *Index) compactSome(slices int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for range slices {
		if x.walk.state.Load() != walkFull {
			x.walk.state.CompareAndSwap(walkRest, walkFree)
			return
		}
		x.compact(37)
	}
}

// TestRemoveHolder_stress: a holder's removal leaves nothing behind although
// others split and join the runs it is in.
func TestRemoveHolder_stress(t *testing.T) {
	x := New(Config{Holders: 16, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(2, 2))
	var chains [][]uint64
	for i := range 3 * sliceRuns { // several slices
		chains = append(chains, chain(rng, uint64(i), 40, 3))
	}
	stopped, wait := readers(2, func(rng *rand.Rand) bool {
		own := chains[rng.IntN(len(chains))]
		a := rng.IntN(len(own))
		h := 1 + rng.IntN(15)
		if rng.IntN(2) == 0 {
			x.Store(h, 0, false, engs(own), own)
		} else {
			x.Remove(h, engs(own[a:]))
		}
		return true
	})
	for round := 0; round < 25/min(shorter, 3) && !stopped.Load(); round++ {
		for _, own := range chains {
			x.Store(0, 0, false, engs(own), own)
		}
		x.RemoveHolder(0)
		if n := x.Held(0); n != 0 {
			t.Errorf("%d blocks left", n)
		}
	}
	wait()
	if err := check(x); err != nil {
		t.Fatal(err)
	}
}

// TestHeads_stress: a run is found at all times although others go from its
// stripe of the table, which shifts it back.
func TestHeads_stress(t *testing.T) {
	const steps, window = 200_000 / shorter, 8
	x := New(Config{Holders: 1, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(2, 2))
	keys := make([]uint64, 0, steps+window)
	for len(keys) < cap(keys) { // all in one stripe, and in one place of it
		if k := 5<<56 | rng.Uint64()>>8; slotHome(k, 16) == 3 {
			keys = append(keys, k)
		}
	}
	var first atomic.Int64 // keys [first, first+window) are there
	for _, k := range keys[:window] {
		x.Store(0, 0, false, []uint64{k}, []uint64{k})
	}
	stopped, wait := readers(2, func(rng *rand.Rand) bool {
		depth := []uint32{0}
		i := first.Load() + int64(rng.IntN(window-1))
		x.Match(keys[i:i+1], []uint64{1}, depth)
		if depth[0] == 0 && first.Load() <= i {
			t.Errorf("key %d not found", i)
			return false
		}
		return true
	})
	for i := 0; i < steps && !stopped.Load(); i++ {
		first.Store(int64(i + 1))
		x.Remove(0, keys[i:i+1])
		x.Store(0, 0, false, keys[i+window:][:1], keys[i+window:][:1])
	}
	wait()
	if err := check(x); err != nil {
		t.Fatal(err)
	}
}
