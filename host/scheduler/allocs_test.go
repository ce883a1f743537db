//go:build !race

package scheduler

import "testing"

// The race detector makes sync.Pool drop values at random; these tests depend on what the
// pools keep.

func TestSchedule_allocs(t *testing.T) {
	r, req := benchRig(t, 64)
	run := func() { end(r.place(req)) }
	for range 2000 {
		run() // fills pools and the trace
	}
	if n := testing.AllocsPerRun(500, run); n > 0 {
		t.Errorf("got %v allocs per placement without a prompt, want 0", n)
	}
}

// TestColumns_allocs: columns that an extension reads are filled without allocating.
func TestColumns_allocs(t *testing.T) {
	r, req := benchRig(t, 64)
	r.cfg.Profiles = []Profile{{Name: "default", Scorers: []Weighted{{reader{"r", AllColumns, nil}, 1, false}}}}
	var err error
	if r.sched, err = New(r.cfg); err != nil {
		t.Fatal(err)
	}
	run := func() { end(r.place(req)) }
	for range 2000 {
		run()
	}
	if n := testing.AllocsPerRun(500, run); n > 0 {
		t.Errorf("got %v allocs per placement, want 0", n)
	}
}

// TestNormalize_allocs: normalizing the scores of several scorers does not allocate.
func TestNormalize_allocs(t *testing.T) {
	scores := make([]float32, 200)
	for i := range scores {
		scores[i] = float32(i * 7919 % 31)
	}
	var mem []float32
	for _, n := range []Normalize{MinMax, Rank} {
		mem = n.of(scores, mem)
		if a := testing.AllocsPerRun(100, func() { mem = n.of(scores, mem) }); a != 0 {
			t.Errorf("%s: got %v allocs, want 0", n, a)
		}
	}
}

func TestScore_allocs(t *testing.T) {
	b := &Batch{}
	b.resize(64)
	l := NewLeastWork(Blend)
	if n := testing.AllocsPerRun(100, func() { b.resize(64); l.Score(b); b.resize(10) }); n != 0 {
		t.Errorf("got %v allocs per score, want 0", n)
	}
}
