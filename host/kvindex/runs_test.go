package kvindex

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// chain returns the own hashes of a random path: few choices per step, so that paths share prefixes.
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

func engs(owns []uint64) []uint64 {
	out := make([]uint64, len(owns))
	for i := range owns {
		out[i] = engHash(owns[i])
	}
	return out
}

// check verifies the invariants of the structure.
func check(x *Index) error {
	live := map[uint32]bool{}
	owned := map[uint32]uint32{}
	var blocks, members int64
	for id := uint32(1); id < x.runsN; id++ {
		R := x.run(id)
		base, n := R.bounds()
		if R.ver.Load()&1 != 0 {
			return fmt.Errorf("run %d locked", id)
		}
		if n == 0 {
			continue
		}
		live[id] = true
		blocks += int64(n)
		members += int64(n) * int64(x.sets.count(R.set.Load()))
		if R.set.Load() == 0 {
			return fmt.Errorf("run %d without holders", id)
		}
		if R.lo > base || base+n > R.lim {
			return fmt.Errorf("run %d: [%d,%d) not in [%d,%d)", id, base, base+n, R.lo, R.lim)
		}
		if R.next != 0 && (x.run(R.next).prev != id || x.run(R.next).lo != R.lim) {
			return fmt.Errorf("run %d: bad link", id)
		}
		if x.heads.find(x, x.blocks.own(base).Load()) != id {
			return fmt.Errorf("run %d: head not found", id)
		}
		for p := R.lo; p < R.lim; p++ {
			if owned[p] != 0 {
				return fmt.Errorf("position %d owned twice", p)
			}
			owned[p] = id
			if got := x.owner(p); got != id {
				return fmt.Errorf("owner(%d) = %d, want %d", p, got, id)
			}
		}
		for p := base; p < base+n; p++ {
			if got, ok := x.names.find(x.blocks.engine(p)); !ok || got != p {
				return fmt.Errorf("name of %d: %d %v", p, got, ok)
			}
		}
	}
	heads := 0
	for i := range x.heads.stripes {
		heads += x.heads.stripes[i].n
	}
	full := 0
	for i := range x.names.subs {
		full += x.names.subs[i].full
	}
	if heads != len(live) || int64(full) != blocks || blocks != x.st.Blocks || members != x.st.Memberships {
		return fmt.Errorf("counts: %d heads %d runs, %d names %d blocks (%d), %d members (%d)",
			heads, len(live), full, blocks, x.st.Blocks, members, x.st.Memberships)
	}
	used := int64(0)
	for p := range owned {
		if p%granule == 0 {
			used++
		}
	}
	if total := int64(x.blocks.n) * segGran; total-x.blocks.freeG < used || total-x.blocks.freeG > used+int64(len(live)) {
		return fmt.Errorf("granules: %d taken, %d owned", total-x.blocks.freeG, used)
	}
	return nil
}

var checkEvery = 100

// TestRandom runs the same random operations on the index and on the naive model.
func TestRandom(t *testing.T) {
	joined := int64(0)
	defer func() { t.Logf("%d runs joined", joined) }()
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 1))
		holders := []int{3, 8, 70, 130}[seed%4]
		x, n := New(Config{Holders: holders, BudgetBytes: -1}), newNaive(holders)
		fan := 2 + int(seed%5)
		var paths [][]uint64
		depth := make([]uint32, x.Words()*64)
		cand := make([]uint64, x.Words())
		for i := range holders {
			cand[i>>6] |= 1 << (i & 63)
		}
		for step := range 6000 {
			h := rng.IntN(min(holders, 2+int(seed)))
			if seed%4 > 1 {
				h = rng.IntN(holders)
			}
			switch k := rng.IntN(20); {
			case k < 9 || len(paths) == 0: // store: a fresh path from the root or on from a known one
				var parent uint64
				has := false
				from := uint64(7)
				var prefix []uint64
				if len(paths) > 0 && rng.IntN(4) > 0 {
					p := paths[rng.IntN(len(paths))]
					prefix = p[:1+rng.IntN(len(p))]
					from = prefix[len(prefix)-1]
					parent, has = engHash(from), true
				}
				owns := chain(rng, from, 1+rng.IntN(60), fan)
				err := x.Store(h, parent, has, engs(owns), owns)
				if ok := n.Store(h, parent, has, engs(owns), owns); ok != (err == nil) {
					t.Fatalf("seed %d step %d: store %v, want %v", seed, step, err, ok)
				}
				if len(prefix) < 400 {
					paths = append(paths, append(append([]uint64(nil), prefix...), owns...))
				}
			case k < 13: // evict from the end
				p := paths[rng.IntN(len(paths))]
				e := engs(p[rng.IntN(len(p)):])
				for i, j := 0, len(e)-1; i < j; i, j = i+1, j-1 {
					e[i], e[j] = e[j], e[i]
				}
				e = e[:1+rng.IntN(len(e))]
				x.Remove(h, e)
				n.Remove(h, e)
			case k < 16: // evict anywhere: holes
				p := engs(paths[rng.IntN(len(paths))])
				a := rng.IntN(len(p))
				e := p[a : a+1+rng.IntN(min(len(p)-a, 12))]
				if rng.IntN(2) == 0 {
					rng.Shuffle(len(e), func(i, j int) { e[i], e[j] = e[j], e[i] })
				}
				x.Remove(h, e)
				n.Remove(h, e)
			case k == 17 && rng.IntN(4) == 0:
				x.Maintain(time.Millisecond)
			case k == 16 && rng.IntN(40) == 0:
				x.RemoveHolder(h)
				n.RemoveHolder(h, engHash)
			default:
				p := paths[rng.IntN(len(paths))]
				p = append(append([]uint64(nil), p[:1+rng.IntN(len(p))]...), 99)
				x.Match(p, cand, depth)
				for h := range holders {
					if want := n.Depth(h, p); depth[h] != want {
						t.Fatalf("seed %d step %d: holder %d depth %d, want %d", seed, step, h, depth[h], want)
					}
				}
			}
			if step%checkEvery == 0 {
				if err := check(x); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
				d, m := n.Blocks()
				if x.st.Blocks != int64(d) || x.st.Memberships != int64(m) {
					t.Fatalf("seed %d step %d: %d blocks %d members, want %d %d", seed, step, x.st.Blocks, x.st.Memberships, d, m)
				}
			}
		}
		joined += x.st.Joined
		for h := range holders {
			x.RemoveHolder(h)
		}
		if err := check(x); err != nil || x.st.Blocks != 0 || len(x.sets.ids) != 0 || x.blocks.freeG != int64(x.blocks.n)*segGran {
			t.Fatalf("seed %d: not empty: %v %d blocks %d sets %d granules", seed, err, x.st.Blocks, len(x.sets.ids), int64(x.blocks.n)*segGran-x.blocks.freeG)
		}
	}
}

// TestBudget: an index under its budget forgets, but never claims what is not held.
func TestBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	const budget = 6 << 20
	x, n := New(Config{Holders: 16, BudgetBytes: budget}), newNaive(16)
	cand := []uint64{0xffff}
	depth := make([]uint32, 64)
	exact, total := 0, 0
	for step := range 20000 {
		h := rng.IntN(16)
		owns := chain(rng, mixHash(uint64(rng.IntN(3000)), 1), 20+rng.IntN(100), 3)
		x.Store(h, 0, false, engs(owns), owns)
		n.Store(h, 0, false, engs(owns), owns)
		if step%3 == 0 {
			x.Tick()
			h := rng.IntN(16)
			x.Match(owns, cand, depth)
			want := n.Depth(h, owns)
			if depth[h] > want {
				t.Fatalf("step %d: depth %d, want at most %d", step, depth[h], want)
			}
			total++
			if depth[h] == want {
				exact++
			}
		}
		if b := x.Bytes(); b > budget+budget/50 {
			t.Fatalf("step %d: %d bytes, budget %d", step, b, budget)
		}
	}
	if err := check(x); err != nil {
		t.Fatal(err)
	}
	// Flat bytes mean nothing if the index is empty: the budget must be used.
	if held := x.st.Blocks * bytesPerBlock; held < budget/2 {
		t.Fatalf("%d blocks under a budget of %d bytes", x.st.Blocks, budget)
	}
	t.Logf("bytes %d of %d, evicted %d blocks, %d of %d lookups as without a budget", x.Bytes(), budget, x.st.Evicted, exact, total)
}

// TestHammer: while other holders split, shift and merge the runs of a chain, the depths of holders
// whose holdings do not change must be exact in every lookup.
func TestHammer(t *testing.T) {
	x := New(Config{Holders: 64, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(9, 9))
	owns := chain(rng, 3, 700, 2)
	e := engs(owns)
	x.Store(0, 0, false, e, owns)
	x.Store(1, 0, false, e[:300], owns[:300])
	var stop atomic.Bool
	var wg sync.WaitGroup
	var lookups atomic.Int64
	for r := range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(r), 2))
			depth := make([]uint32, 64)
			for !stop.Load() {
				q := owns[:1+rng.IntN(len(owns))]
				x.Match(q, []uint64{^uint64(0)}, depth)
				if depth[0] != uint32(len(q)) || depth[1] != uint32(min(300, len(q))) || depth[63] != 0 {
					t.Errorf("depths %d %d %d of %d", depth[0], depth[1], depth[63], len(q))
					stop.Store(true)
				}
				lookups.Add(1)
			}
		}()
	}
	for range 60000 {
		if stop.Load() {
			break
		}
		h := 2 + rng.IntN(20)
		a := rng.IntN(len(owns))
		b := a + 1 + rng.IntN(len(owns)-a)
		switch rng.IntN(5) {
		case 0, 1:
			if a == 0 {
				x.Store(h, 0, false, e[:b], owns[:b])
			} else {
				x.Store(h, e[a-1], true, e[a:b], owns[a:b])
			}
		case 2:
			f := append([]uint64(nil), e[a:b]...)
			for i, j := 0, len(f)-1; i < j; i, j = i+1, j-1 {
				f[i], f[j] = f[j], f[i]
			}
			x.Remove(h, f)
		case 3:
			x.Remove(h, e[a:min(b, a+3)])
		case 4:
			side := chain(rng, owns[a], 30, 50)
			x.Store(h, e[a], true, engs(side), side)
			x.Remove(h, engs(side))
		}
	}
	stop.Store(true)
	wg.Wait()
	if err := check(x); err != nil {
		t.Fatal(err)
	}
	s := x.Stats()
	t.Logf("%d lookups, %d retries, %d splits %d shifts %d merges", lookups.Load(), s.Retries, s.Splits, s.Shifts, s.Merges)
}

// TestCompact: readers see exact depths while a chain grows in pieces that two holders own in turn, while
// the pieces are made equal, joined, cut again and evicted from the end.
func TestCompact(t *testing.T) {
	x := New(Config{Holders: 64, BudgetBytes: -1})
	rng := rand.New(rand.NewPCG(4, 9))
	type state struct {
		owns     []uint64
		min, max atomic.Int64 // holder 0 holds at least / at most so many leading blocks
	}
	var cur atomic.Pointer[state]
	var stop atomic.Bool
	var wg sync.WaitGroup
	for r := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(uint64(r), 3))
			depth := make([]uint32, 64)
			for !stop.Load() {
				s := cur.Load()
				if s == nil {
					continue
				}
				q := s.owns[:1+rng.IntN(len(s.owns))]
				lo := s.min.Load()
				x.Match(q, []uint64{^uint64(0)}, depth)
				lo = min(lo, s.min.Load())
				hi := s.max.Load()
				if d := int64(depth[0]); d < min(lo, int64(len(q))) || d > hi || depth[63] != 0 {
					t.Errorf("depth %d of %d, want %d to %d", d, len(q), lo, hi)
					stop.Store(true)
				}
			}
		}()
	}
	for round := range 150 {
		owns := chain(rng, uint64(1000+round), 900, 2)
		e := engs(owns)
		s := &state{owns: owns}
		cur.Store(s)
		store := func(h, a, b int) {
			if a == 0 {
				x.Store(h, 0, false, e[:b], owns[:b])
			} else if err := x.Store(h, e[a-1], true, e[a:b], owns[a:b]); err != nil {
				t.Fatal(err)
			}
		}
		for at, turn := 0, 0; at < len(owns) && !stop.Load(); turn++ {
			to := min(len(owns), at+1+rng.IntN(40))
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
			x.Match(owns, []uint64{^uint64(0)}, make([]uint32, 64))
			x.Maintain(time.Millisecond)
			a := 1 + rng.IntN(len(owns)-1)
			b := a + 1 + rng.IntN(min(60, len(owns)-a))
			if rng.IntN(2) == 0 {
				x.Remove(1, e[a:b])
			} else {
				store(1, a, b)
			}
		}
		for h := range 2 { // holder 1 first
			f := append([]uint64(nil), e...)
			for i, j := 0, len(f)-1; i < j; i, j = i+1, j-1 {
				f[i], f[j] = f[j], f[i]
			}
			if h == 1 {
				s.min.Store(0)
			}
			x.Remove(1-h, f)
		}
		if err := check(x); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	stop.Store(true)
	wg.Wait()
	if x.st.Blocks != 0 || x.st.Joined == 0 {
		t.Fatalf("%d blocks left, %d runs joined", x.st.Blocks, x.st.Joined)
	}
	t.Logf("%d runs with %d blocks joined, %d retries", x.st.Joined, x.st.Copied, x.retries.Load())
}
