package kvindex

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// naiveLRU keeps a time of last use per block; the block that goes is the one
// used longest ago, of these the deepest.
type naiveLRU struct {
	capacity int
	clock    int
	used     map[uint64]int
	depth    map[uint64]int
}

func (n *naiveLRU) touch(hashes []uint64) {
	n.clock++
	hashes = hashes[:min(len(hashes), n.capacity)]
	for i, h := range hashes {
		n.used[h], n.depth[h] = n.clock, i
	}
	for len(n.used) > n.capacity {
		var worst uint64
		first := true
		for h, u := range n.used {
			if w := n.used[worst]; first || u < w || u == w && n.depth[h] > n.depth[worst] {
				worst, first = h, false
			}
		}
		delete(n.used, worst)
		delete(n.depth, worst)
	}
}

func (n *naiveLRU) match(hashes []uint64) (d int) {
	for _, h := range hashes {
		if _, ok := n.used[h]; !ok {
			break
		}
		d++
	}
	return d
}

// chainOf names the blocks of a path through a tree: equal name, equal prefix.
func chainOf(path []int) []uint64 {
	h, out := uint64(99991), make([]uint64, 0, len(path))
	for _, p := range path {
		h = (h + uint64(p+1)) * 0x9E3779B97F4A7C15
		h ^= h >> 29
		out = append(out, h)
	}
	return out
}

func randomPath(r *rand.Rand) []int {
	p := make([]int, 1+r.IntN(40))
	for i := range p {
		if r.IntN(6) == 0 {
			p[i] = r.IntN(3)
		}
	}
	return p
}

func TestAssumed_naive(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		const holders = 3
		a := NewAssumed(holders, 1<<30)
		var ns [holders]*naiveLRU
		for i := range ns {
			ns[i] = &naiveLRU{capacity: 5 + r.IntN(150), used: map[uint64]int{}, depth: map[uint64]int{}}
			a.SetCapacity(i, ns[i].capacity)
		}
		for range 600 {
			i := r.IntN(holders)
			switch r.IntN(20) {
			case 0:
				a.Clear(i)
				ns[i].used, ns[i].depth = map[uint64]int{}, map[uint64]int{}
			default:
				c := chainOf(randomPath(r))
				a.Touch(i, c)
				ns[i].touch(c)
			}
			q := chainOf(randomPath(r))
			var depth [holders]uint32
			a.Match(q, []uint64{7}, depth[:])
			for j := range ns {
				if got, want := int(depth[j]), ns[j].match(q); got != want {
					t.Fatalf("seed %d, holder %d: match %d, want %d", seed, j, got, want)
				}
				if got, want := a.Blocks(j), len(ns[j].used); got != want {
					t.Fatalf("seed %d, holder %d: %d blocks, want %d", seed, j, got, want)
				}
			}
		}
	}
}

func TestAssumed_budget(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const budget = 64 << 10
	a := NewAssumed(2, budget)
	a.SetCapacity(0, 1<<20)
	for i := range 3000 {
		p := make([]int, 50)
		p[0], p[1] = i, r.IntN(9)
		a.Touch(0, chainOf(p))
		if a.Bytes() > budget {
			t.Fatalf("%d bytes after %d chains, budget %d", a.Bytes(), i, budget)
		}
	}
	if a.Blocks(0) < 2000 {
		t.Errorf("only %d blocks held within the budget", a.Blocks(0))
	}
	a.Clear(0)
	if a.Bytes() != 0 || a.Blocks(0) != 0 {
		t.Errorf("after Clear %d bytes, %d blocks", a.Bytes(), a.Blocks(0))
	}
}

func TestAssumed_noCapacity(t *testing.T) {
	a := NewAssumed(1, 1<<20)
	c := chainOf(make([]int, 10))
	a.Touch(0, c)
	var depth [1]uint32
	if a.Match(c, []uint64{1}, depth[:]); depth[0] != 0 {
		t.Errorf("match %d on a holder whose capacity is not known", depth[0])
	}
}

func TestAssumed_hammer(t *testing.T) {
	a := NewAssumed(4, 1<<20)
	for i := range 4 {
		a.SetCapacity(i, 500)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			var depth [4]uint32
			for range 2000 {
				c := chainOf(randomPath(r))
				a.Touch(r.IntN(4), c)
				a.Match(c, []uint64{15}, depth[:])
				if r.IntN(500) == 0 {
					a.Clear(r.IntN(4))
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkAssumed(b *testing.B) {
	a := NewAssumed(64, 1<<30)
	chain := chainOf(make([]int, 8192))
	cand := []uint64{^uint64(0)}
	depth := make([]uint32, 64)
	for i := range 64 {
		a.SetCapacity(i, 1<<20)
		a.Touch(i, chain)
	}
	b.Run("match=8192x64", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Match(chain, cand, depth)
		}
	})
	b.Run("touch=8192", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Touch(3, chain)
		}
	})
}
