package simengine

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func testModel(change func(*ModelConfig)) *Model {
	cfg := ModelConfig{Timing: Timing{C0: 1, Budget: 16}, BlockTokens: 4, CacheBlocks: 40, MaxSeqs: 4}
	if change != nil {
		change(&cfg)
	}
	return NewModel(cfg)
}

// chainOf returns a sequence whose hashes are a path in a tree.
func chainOf(prompt, output int, hashes ...uint64) *Sequence {
	return &Sequence{Prompt: prompt, Output: output, Hashes: hashes}
}

// finish runs the model until nothing is left and returns the steps it took.
func finish(t *testing.T, m *Model) (steps int) {
	t.Helper()
	for ; ; steps++ {
		if _, ok := m.Plan(); !ok {
			return steps
		}
		m.Complete()
		if steps > 1e6 {
			t.Fatal("never idle")
		}
	}
}

// TestModel_reuse checks floor((n-1)/block)*block.
func TestModel_reuse(t *testing.T) {
	m := testModel(nil)
	f := func(prompt, want int) {
		t.Helper()
		s := chainOf(prompt, 1, 1, 2, 3, 4)
		m.Add(s)
		finish(t, m)
		if s.Cached != want || !s.Done() {
			t.Errorf("prompt of %d: %d cached, want %d", prompt, s.Cached, want)
		}
	}
	f(16, 0)
	f(16, 12)
	f(17, 16)
	f(15, 12)
	f(4, 0)
	s := chainOf(17, 1, 1, 2, 3, 4)
	s.NoReuse = true
	m.Add(s)
	if finish(t, m); s.Cached != 0 {
		t.Errorf("prompt that may not reuse: %d cached", s.Cached)
	}
}

// TestModel_generated stores generated blocks; the last token is sampled, not
// computed.
func TestModel_generated(t *testing.T) {
	m := testModel(nil)
	f := func(prompt, output, want int) {
		t.Helper()
		m.Add(chainOf(prompt, output, 1, 2, 3))
		finish(t, m)
		if got := m.Stats().CacheBlocks; got != want {
			t.Errorf("%d + %d tokens: %d blocks, want %d", prompt, output, got, want)
		}
	}
	f(3, 5, 1)
	f(3, 6, 2)
	f(3, 10, 3)
}

// TestModel_steps checks chunked prefill beside decodes and the step formula.
func TestModel_steps(t *testing.T) {
	m := testModel(func(c *ModelConfig) { c.Timing = Timing{C0: 1, Tw: 8, A: 1, B: 0.5, Q: 0.25, Budget: 10} })
	m.Add(chainOf(12, 3))
	step := func(wantMS float64, wantTokens int) {
		t.Helper()
		d, ok := m.Plan()
		if want := time.Duration(wantMS * float64(time.Millisecond)); !ok || d != want {
			t.Fatalf("step of %v, want %v", d, want)
		}
		if got := len(m.Complete()); got != wantTokens {
			t.Fatalf("%d sequences advanced, want %d", got, wantTokens)
		}
	}
	step(1+10+0+0.25*10*5, 0)               // chunk 0..10
	step(1+8+0.5*10+0.25*2*(10+1), 1)       // chunk 10..12, first token
	m.Add(chainOf(20, 1))                   //
	step(1+10+0.5*12+0.25*9*4.5, 1)         // a decode and chunk 0..9
	step(1+10+0.5*(13+9)+0.25*9*(9+4.5), 1) // third token; chunk 9..18
	step(1+8+0.5*18+0.25*2*(18+1), 1)       // chunk 18..20
	if _, ok := m.Plan(); ok {
		t.Fatal("not idle")
	}
}

// TestModel_admission holds back what does not fit, first come first served.
func TestModel_admission(t *testing.T) {
	m := testModel(func(c *ModelConfig) { c.CacheBlocks = 10; c.Timing.Budget = 100 })
	a, b, c := chainOf(20, 1, 1, 2, 3, 4, 5), chainOf(36, 1, 11, 12, 13, 14, 15, 16, 17, 18, 19), chainOf(4, 1, 21)
	m.Add(a)
	m.Add(b)
	m.Add(c)
	m.Plan()
	if !a.Admitted || b.Admitted || c.Admitted {
		t.Fatalf("admitted %v %v %v", a.Admitted, b.Admitted, c.Admitted)
	}
	m.Complete()
	m.Plan()
	if !b.Admitted || !c.Admitted {
		t.Fatal("not admitted when there is room")
	}
	m.Complete()
	if s := m.Stats(); s.BlocksEvicted != 5 || s.Running != 0 {
		t.Fatalf("%+v", s)
	}
}

func TestModel_maxSeqs(t *testing.T) {
	m := testModel(func(c *ModelConfig) { c.MaxSeqs = 2 })
	for range 3 {
		m.Add(chainOf(1, 2))
	}
	m.Plan()
	if s := m.Stats(); s.Running != 2 || s.Waiting != 1 {
		t.Fatalf("%+v", s)
	}
}

// TestModel_sharedPrefix computes one prompt twice in a step and stores it once.
func TestModel_sharedPrefix(t *testing.T) {
	m := testModel(nil)
	m.Add(chainOf(9, 1, 1, 2))
	m.Add(chainOf(9, 1, 1, 2))
	m.Plan()
	m.Complete()
	finish(t, m)
	events := m.Events()
	if len(events) != 1 || events[0].From != 0 || events[0].To != 2 {
		t.Fatalf("events %+v", events)
	}
}

// TestModel_random runs random load with aborts in a small cache: events
// replayed give exactly the blocks held, and no memory leaks.
func TestModel_random(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	m := testModel(func(c *ModelConfig) { c.CacheBlocks = 16 })
	view := map[uint64]bool{}
	var live []*Sequence
	var added, aborted int
	for range 30_000 {
		if rng.IntN(3) == 0 && len(live) < 12 {
			p := path(rng)
			s := &Sequence{Prompt: 1 + rng.IntN(4*len(p)+3), Output: 1 + rng.IntN(6), Hashes: p}
			s.Hashes = p[:min(len(p), (s.Prompt+s.Output)/4)]
			m.Add(s)
			live = append(live, s)
			added++
		}
		if _, ok := m.Plan(); ok {
			if rng.IntN(8) == 0 && len(live) > 0 {
				m.Abort(live[rng.IntN(len(live))])
				aborted++
			}
			m.Complete()
		}
		live = slices.DeleteFunc(live, func(s *Sequence) bool { return s.state == seqDone })
		replayEvents(t, m, view)
	}
	finish(t, m)
	replayEvents(t, m, view)
	s := m.Stats()
	if s.CacheUsage != 0 || m.reserved != 0 || s.Running+s.Waiting != 0 {
		t.Fatalf("leaked: %+v, %d reserved", s, m.reserved)
	}
	if s.BlocksEvicted < 1000 || s.CachedTokens == 0 || aborted < 100 || int(s.FinishedOK+s.FinishedAborts) != added {
		t.Fatalf("%+v of %d", s, added)
	}
}

func replayEvents(t *testing.T, m *Model, view map[uint64]bool) {
	t.Helper()
	for _, e := range m.Events() {
		if e.Seq == nil {
			if !view[e.Removed] {
				t.Fatalf("removed %d, which was not there", e.Removed)
			}
			delete(view, e.Removed)
			continue
		}
		for i := e.From; i < e.To; i++ {
			if i > 0 && !view[e.Seq.Hashes[i-1]] {
				t.Fatalf("block %d without its parent", e.Seq.Hashes[i])
			}
			if view[e.Seq.Hashes[i]] {
				t.Fatalf("stored %d twice", e.Seq.Hashes[i])
			}
			view[e.Seq.Hashes[i]] = true
		}
	}
	held := m.Hashes(nil)
	if len(held) != len(view) {
		t.Fatalf("events say %d blocks, the cache %d", len(view), len(held))
	}
	for _, h := range held {
		if !view[h] {
			t.Fatalf("no event of %d", h)
		}
	}
}

func BenchmarkModel(b *testing.B) {
	// A decode step of 128 sequences.
	m := testModel(func(c *ModelConfig) { c.CacheBlocks, c.MaxSeqs, c.Timing.Budget = 1<<20, 256, 8192 })
	for range 128 {
		m.Add(chainOf(64, 1<<14))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := m.Plan(); !ok {
			b.StopTimer()
			for range 128 {
				m.Add(chainOf(64, 1<<14))
			}
			b.StartTimer()
			continue
		}
		m.Complete()
	}
}
