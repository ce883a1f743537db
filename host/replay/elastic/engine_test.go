package elastic

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEngine_step works the formula of the package comment out by hand.
func TestEngine_step(t *testing.T) {
	spec := Engine{StepMs: 1, FloorMs: 5, TokenMs: 0.01, ContextMs: 0.001, SquareMs: 1e-5, KVTokens: 1600, Budget: 100,
		Sequences: 4}
	e := newEngine("e", &spec, 16, 0, 0)
	r := &request{prompt: 150, output: 3, blocks: []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, private: 1, estimate: 150}
	e.place(r)
	want := func(what string, ms float64) {
		t.Helper()
		got, ok := e.step()
		if !ok || math.Abs(got-ms) > 1e-9 {
			t.Fatalf("%s: %v ms, %v, want %v", what, got, ok, ms)
		}
	}
	want("first chunk, 100 tokens", 1+5+1e-5*100*50)
	e.end(10)
	want("second chunk, 50 behind 100", 1+5+0.001*100+1e-5*50*(100+25))
	e.end(20)
	if r.first != 20 || r.generated != 1 || e.prefill != 0 {
		t.Errorf("after the prompt: first token at %v, %d generated, %d tokens to compute", r.first, r.generated, e.prefill)
	}
	want("a decode behind 151", 1+5+0.001*151)
	if done := e.end(30); len(done) != 0 {
		t.Fatal("done too early")
	}
	want("a decode behind 152", 1+5+0.001*152)
	if done := e.end(40); len(done) != 1 {
		t.Fatal("not done")
	}
	if _, ok := e.step(); ok {
		t.Error("steps without work")
	}
	again := &request{prompt: 150, output: 1, blocks: r.blocks, private: 1}
	if n := e.match(again); n != 149 {
		t.Errorf("match %d, want 149: one token is always computed", n)
	}
	e.place(again)
	want("all but one token cached", 1+5+0.001*149+1e-5*(149+0.5))
}

// TestCache_model compares with a cache that is a list searched from end to end.
func TestCache_model(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const size = 40
	c := newCache(size)
	type held struct {
		names   []uint64
		private int
	}
	var (
		in   []held
		lru  []uint64 // unpinned, oldest first
		pins = map[uint64]int{}
		done = map[uint64]bool{}
	)
	used := func() int {
		n := len(lru) + len(pins)
		for _, h := range in {
			n += h.private
		}
		return n
	}
	for i := range 20_000 {
		if len(in) > 0 && r.IntN(2) == 0 {
			k := r.IntN(len(in))
			h := in[k]
			in = slices.Delete(in, k, k+1)
			c.computed(h.names, 0, len(h.names))
			c.release(h.names, h.private)
			for _, x := range slices.Backward(h.names) {
				done[x] = true
				if pins[x]--; pins[x] == 0 {
					delete(pins, x)
					lru = append(lru, x)
				}
			}
			continue
		}
		line, n := r.Uint64N(6), 1+r.IntN(12)
		h := held{private: 1 + r.IntN(3)}
		for j := range n {
			h.names = append(h.names, line<<8|uint64(j))
		}
		ready, ok := c.admit(h.names, h.private)
		// the model
		want := 0
		for want < n && done[h.names[want]] {
			want++
		}
		kept := slices.Clone(lru)
		for _, x := range h.names {
			kept = slices.DeleteFunc(kept, func(y uint64) bool { return x == y })
		}
		need := h.private
		for _, x := range h.names {
			if pins[x] == 0 && !slices.Contains(lru, x) {
				need++
			}
		}
		fits := true
		for n := used() + need; n > size; n-- {
			if len(kept) == 0 {
				fits = false
				break
			}
			delete(done, kept[0])
			lru = slices.DeleteFunc(lru, func(y uint64) bool { return kept[0] == y })
			kept = kept[1:]
		}
		if ok != fits || ok && ready != want {
			t.Fatalf("step %d: admit %v with %d ready, the model says %v with %d", i, ok, ready, fits, want)
		}
		if !ok {
			// the rejected prompt's blocks were used last
			for _, x := range h.names {
				if j := slices.Index(lru, x); j >= 0 {
					lru = append(slices.Delete(lru, j, j+1), x)
				}
			}
			continue
		}
		lru = kept
		for _, x := range h.names {
			pins[x]++
		}
		in = append(in, h)
		if c.used != used() {
			t.Fatalf("step %d: %d blocks used, the model says %d", i, c.used, used())
		}
	}
}
