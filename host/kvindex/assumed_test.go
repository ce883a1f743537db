package kvindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// naiveLRU is the reference: a list of blocks, the most recently used first.
type naiveLRU struct {
	capacity int
	order    []uint64
}

func (n *naiveLRU) touch(hashes []uint64) {
	for _, h := range slices.Backward(hashes) {
		if i := slices.Index(n.order, h); i >= 0 {
			n.order = slices.Delete(n.order, i, i+1)
		}
		n.order = slices.Insert(n.order, 0, h)
	}
	n.evict()
}

func (n *naiveLRU) evict() { n.order = n.order[:min(len(n.order), n.capacity)] }

func (n *naiveLRU) depth(hashes []uint64) uint32 {
	for i, h := range hashes {
		if !slices.Contains(n.order, h) {
			return uint32(i)
		}
	}
	return uint32(len(hashes))
}

// check verifies the invariants of the model.
func (c *lru) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.segs) == 0 {
		return nil
	}
	blocks, n, end := 0, 0, uint32(0)
	for i := c.segs[0].next; i != 0; i = c.segs[i].next {
		s := c.segs[i]
		if s.len == 0 || s.pos < end || s.pos+s.len > c.end {
			return fmt.Errorf("stretch %d: [%d,%d) behind %d before %d", i, s.pos, s.pos+s.len, end, c.end)
		}
		end = s.pos + s.len
		blocks += int(s.len)
		n++
		if got, _ := c.find(c.log[s.pos]); got != i {
			return fmt.Errorf("stretch %d: found %d", i, got)
		}
	}
	used := 0
	for i := c.segs[0].newer; i != 0; i = c.segs[i].newer {
		used++
	}
	full := 0
	for _, i := range c.table {
		if i != 0 {
			full++
		}
	}
	if blocks != c.count || n != c.n || used != n || full != n || c.count > c.capacity {
		return fmt.Errorf("%d blocks (%d of %d), %d stretches (%d), %d in order, %d in the table", blocks, c.count,
			c.capacity, n, c.n, used, full)
	}
	return nil
}

// lruScript runs random operations on a model and on the reference. exact: all
// answers must agree; else the model may say less.
func lruScript(a *Assumed, pick func(int) int, steps, longest int, exact bool) error {
	n := &naiveLRU{capacity: 100}
	a.SetCapacity(1, 100)
	var paths [][]uint64
	depth := make([]uint32, 2)
	for step := range steps {
		switch k := pick(20); {
		case k < 9 || len(paths) == 0: // a conversation goes on, branches or begins
			var p []uint64
			if len(paths) > 0 && pick(4) > 0 {
				p = paths[pick(len(paths))]
				if pick(3) == 0 {
					p = p[:1+pick(len(p))]
				}
			}
			p = slices.Clone(p)
			for range 1 + pick(longest) {
				prev := uint64(pick(2))
				if len(p) > 0 {
					prev = p[len(p)-1]
				}
				p = append(p, mixHash(prev, uint64(pick(12)/11)))
			}
			if len(p) > 4*longest {
				p = p[:4*longest]
			}
			paths = append(paths, p)
			a.Touch(1, p)
			n.touch(p)
		case k < 12:
			p := paths[pick(len(paths))]
			a.Touch(1, p)
			n.touch(p)
		case k == 12 && pick(10) == 0:
			a.Clear(1)
			n.order = nil
		case k == 13 && pick(4) == 0:
			n.capacity = pick(300)
			n.evict()
			a.SetCapacity(1, n.capacity)
		default:
			p := append(slices.Clone(paths[pick(len(paths))]), 99)
			a.Match(p, []uint64{2}, depth)
			if want := n.depth(p); depth[1] > want || exact && depth[1] != want {
				return fmt.Errorf("step %d: depth %d, want %d", step, depth[1], want)
			}
		}
		if held := a.Held(1); held > len(n.order) || exact && held != len(n.order) {
			return fmt.Errorf("step %d: %d blocks, want %d", step, held, len(n.order))
		}
		if step%10 == 0 {
			if err := a.cache(1).check(); err != nil {
				return fmt.Errorf("step %d: %v", step, err)
			}
		}
		if b := a.Bytes(); b > a.budget || b < 0 {
			return fmt.Errorf("step %d: %d bytes", step, b)
		}
	}
	a.Clear(1)
	if a.Bytes() != 0 {
		return fmt.Errorf("%d bytes left", a.Bytes())
	}
	return nil
}

// TestAssumed_reference: the model agrees with a list of blocks at every step.
func TestAssumed_reference(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 8))
		a := NewAssumed(AssumedConfig{Holders: 2})
		if err := lruScript(a, rng.IntN, 2500, []int{3, 20, 60}[seed%3], true); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestAssumed_budget: a model without memory says less, never more.
func TestAssumed_budget(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 9))
		a := NewAssumed(AssumedConfig{Holders: 2, BudgetBytes: []int64{9000, 8000, 10}[seed%3]})
		if err := lruScript(a, rng.IntN, 1500, 20, false); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// FuzzAssumed runs operations that the fuzzer chooses.
func FuzzAssumed(f *testing.F) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 5))
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		pick := func(n int) int {
			if len(script) == 0 {
				return 0
			}
			v := int(script[0])
			script = script[1:]
			return v % n
		}
		a := NewAssumed(AssumedConfig{Holders: 2})
		if err := lruScript(a, pick, min(len(script)/4, 400), 20, true); err != nil {
			t.Fatal(err)
		}
	})
}

// TestAssumed_capacity: what was used last is there, up to the capacity; a chain
// longer than that is there to the capacity.
func TestAssumed_capacity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := NewAssumed(AssumedConfig{Holders: 300, CapacityBlocks: 1000})
	want := func(h int, q []uint64, d uint32) {
		t.Helper()
		depth := make([]uint32, 300)
		for i := range depth {
			depth[i] = 7
		}
		all := []uint64{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), 1<<44 - 1}
		a.Match(q, all, depth)
		if depth[h] != d || depth[299] != 0 {
			t.Fatalf("depth %d, want %d; other holder %d, want 0", depth[h], d, depth[299])
		}
	}
	p, q := chain(rng, 1, 600, 2), chain(rng, 2, 600, 2)
	a.Touch(270, p)
	want(270, p, 600)
	a.Touch(270, q)
	want(270, q, 600)
	want(270, p, 400)
	a.Touch(270, chain(rng, 3, 5000, 2))
	want(270, p, 0)
	if n := a.Held(270); n != 1000 {
		t.Fatalf("%d blocks held, want 1000", n)
	}
	a.SetCapacity(271, 0)
	a.Touch(271, p)
	want(271, p, 0)
	a.Clear(272)
}

func TestAssumedConfig_Validate(t *testing.T) {
	for _, c := range []AssumedConfig{{}, {Holders: MaxHolders + 1}, {Holders: 1, CapacityBlocks: -1}, {Holders: 1,
		CapacityBlocks: maxCapacity + 1}} {
		if c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}

// TestAssumed_allocs: looking up allocates nothing, and neither does serving
// requests once the model has its size.
func TestAssumed_allocs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := NewAssumed(AssumedConfig{Holders: 64, CapacityBlocks: 5000})
	var chains [][]uint64
	for i := range 100 {
		chains = append(chains, chain(rng, uint64(i%7), 300, 3))
		a.Touch(0, chains[i])
	}
	depth := make([]uint32, 64)
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		a.Match(chains[i%100], []uint64{^uint64(0)}, depth)
		a.Touch(0, chains[i%100])
		i++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAssumed_stress: everything at once.
func TestAssumed_stress(t *testing.T) {
	a := NewAssumed(AssumedConfig{Holders: 8, CapacityBlocks: 2000, BudgetBytes: 100_000})
	rng := rand.New(rand.NewPCG(1, 1))
	var chains [][]uint64
	for i := range 50 {
		chains = append(chains, chain(rng, uint64(i%7), 400, 3))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 2))
			depth := make([]uint32, 8)
			for range 3000 {
				h, p := rng.IntN(8), chains[rng.IntN(len(chains))]
				switch rng.IntN(20) {
				case 0:
					a.SetCapacity(h, 500+rng.IntN(2000))
				case 1:
					a.Clear(h)
				case 2, 3, 4, 5, 6:
					a.Match(p, []uint64{255}, depth)
				default:
					a.Touch(h, p)
				}
			}
		})
	}
	wg.Wait()
	for h := range 8 {
		if err := a.cache(h).check(); err != nil {
			t.Error(err)
		}
	}
	if b := a.Bytes(); b > 100_000 {
		t.Errorf("%d bytes", b)
	}
}

// BenchmarkAssumed_Touch is a turn of a conversation of 8,192 blocks among many:
// all of the prompt is held but the last 250 blocks.
func BenchmarkAssumed_Touch(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := NewAssumed(AssumedConfig{Holders: 1, CapacityBlocks: 60_000})
	prompt := chain(rng, 1, 2000, 1)
	var chains [][]uint64
	for i := range 6 {
		chains = append(chains, append(slices.Clone(prompt), chain(rng, uint64(10+i), 6192, 1)...))
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		c := chains[i%6]
		a.Touch(0, c[:8192-250*(1-i/6%2)])
		i++
	}
}

// BenchmarkAssumed_Match looks 8,192 blocks up at 64 holders.
func BenchmarkAssumed_Match(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	a := NewAssumed(AssumedConfig{Holders: 64, CapacityBlocks: 30_000, BudgetBytes: 256 << 20})
	prompt := chain(rng, 1, 512, 1)
	var chains [][]uint64
	for i := range 128 {
		chains = append(chains, append(slices.Clone(prompt), chain(rng, uint64(10+i), 7680, 1)...))
		for range 8 {
			a.Touch(rng.IntN(64), chains[i])
		}
	}
	depth := make([]uint32, 64)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		a.Match(chains[i%128], []uint64{^uint64(0)}, depth)
		i++
	}
	b.ReportMetric(float64(a.Bytes())/float64(heldByAll(a)), "B/pair")
}

func heldByAll(a *Assumed) (n int) {
	for h := range a.caches {
		n += a.Held(h)
	}
	return n
}
