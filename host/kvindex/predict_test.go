package kvindex

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// TestPredictor: a prediction is seen at once, survives one rotation, is gone
// after two.
func TestPredictor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := NewPredictor(Config{Holders: 64, BudgetBytes: 8 << 20})
	a := chain(rng, 5, 8192, 2)
	b := append(append([]uint64(nil), a[:100]...), chain(rng, 6, 50, 2)...)
	want := func(q []uint64, h int, d uint32) {
		t.Helper()
		depth, scratch := make([]uint32, 64), make([]uint32, 64)
		depth[7] = 9
		p.Raise(q, []uint64{^uint64(0)}, depth, scratch)
		if depth[h] != d || depth[7] != 9 {
			t.Fatalf("holder %d: depth %d, want %d; holder 7: depth %d", h, depth[h], d, depth[7])
		}
	}
	want(a, 3, 0)
	p.Add(3, a)
	p.Add(4, b)
	want(a, 3, 8192)
	want(a, 4, 100)
	want(b, 3, 100)
	want(b, 4, 150)
	p.Rotate()
	p.Add(5, a[:10])
	want(a, 3, 8192)
	want(a, 5, 10)
	p.Rotate()
	want(a, 3, 0)
	want(a, 5, 10)
	if n := testing.AllocsPerRun(100, func() { p.Add(5, a[:10]) }); n != 0 {
		t.Errorf("%v allocations in Add", n)
	}
	depth, scratch := make([]uint32, 64), make([]uint32, 64)
	if n := testing.AllocsPerRun(100, func() { p.Raise(a, []uint64{^uint64(0)}, depth, scratch) }); n != 0 {
		t.Errorf("%v allocations in Raise", n)
	}
	p.Rotate()
	p.Rotate()
	want(a, 5, 0)
}

// TestPredictor_budget: however much is added, memory stays bounded and what was
// added last is there.
func TestPredictor_budget(t *testing.T) {
	testdeps.Sequential(t)
	rng := rand.New(rand.NewPCG(1, 1))
	p := NewPredictor(Config{Holders: 256, BudgetBytes: 4 << 20})
	depth, scratch := make([]uint32, 256), make([]uint32, 256)
	for i := range 3000 {
		own := chain(rng, uint64(i%1000), 200+rng.IntN(800), 3)
		h := rng.IntN(256)
		p.Add(h, own)
		clear(depth)
		p.Raise(own, []uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}, depth, scratch)
		if depth[h] != uint32(len(own)) {
			t.Fatalf("step %d: depth %d, want %d", i, depth[h], len(own))
		}
		if b := p.Bytes(); b > 8<<20 {
			t.Fatalf("step %d: %d bytes", i, b)
		}
		if i%500 == 0 {
			if err := check(p.both.Load().cur); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPredictor_stress: adding, raising and rotating at once.
func TestPredictor_stress(t *testing.T) {
	p := NewPredictor(Config{Holders: 64, BudgetBytes: 4 << 20})
	rng := rand.New(rand.NewPCG(1, 1))
	own := chain(rng, 1, 500, 2)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			depth, scratch := make([]uint32, 64), make([]uint32, 64)
			for i := range 2000 {
				n := 1 + (i*7+g)%len(own)
				p.Add(g, own[:n])
				clear(depth)
				p.Raise(own, []uint64{^uint64(0)}, depth, scratch)
				if depth[63] != 0 || depth[g] > uint32(len(own)) {
					t.Errorf("depths %d %d", depth[63], depth[g])
					return
				}
			}
		})
	}
	for range 200 {
		p.Rotate()
	}
	wg.Wait()
}
