package kvindex

import (
	"math/rand/v2"
	"testing"
)

// TestPredictor: a prediction is seen at once, survives one rotation, is gone after two.
func TestPredictor(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := NewPredictor(64, 8<<20)
	a := chain(rng, 5, 8192, 2)
	b := append(append([]uint64(nil), a[:100]...), chain(rng, 6, 50, 2)...)
	cand := []uint64{^uint64(0)}
	want := func(q []uint64, h int, d uint32) {
		t.Helper()
		depth, scratch := make([]uint32, 64), make([]uint32, 64)
		p.Raise(q, cand, depth, scratch)
		if depth[h] != d {
			t.Fatalf("holder %d: depth %d, want %d", h, depth[h], d)
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
		t.Fatalf("%v allocations", n)
	}
}

// BenchmarkPredict adds a request of 512 blocks of which the first 256 are shared.
func BenchmarkPredict(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	p := NewPredictor(64, 256<<20)
	prefix := chain(rng, 5, 256, 2)
	reqs := make([][]uint64, 4096)
	for i := range reqs {
		reqs[i] = append(append([]uint64(nil), prefix...), chain(rng, uint64(100+i), 256, 2)...)
	}
	i := 0
	for b.Loop() {
		if i%len(reqs) == 0 {
			p.Rotate()
		}
		p.Add(i%64, reqs[i%len(reqs)])
		i++
	}
}

// BenchmarkMatch allocates nothing.
func BenchmarkMatch(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	x := New(Config{Holders: 64, BudgetBytes: -1})
	q := chain(rng, 5, 8192, 2)
	x.Store(1, 0, false, engs(q), q)
	for h := range 40 {
		x.Store(2+h, 0, false, engs(q[:512]), q[:512])
	}
	cand := []uint64{^uint64(0)}
	depth := make([]uint32, 64)
	b.ReportAllocs()
	for b.Loop() {
		x.Match(q, cand, depth)
	}
}
