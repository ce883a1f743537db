package kvindex

import (
	"math/rand/v2"
	"testing"
)

// TestMetamorphic runs random operations on the index and on the reference
// model: engines that agree, have hash seeds of their own or leave the salt out,
// tiers, holes, removals of holders, compaction. Without a budget every answer
// must be exact.
func TestMetamorphic(t *testing.T) {
	var joined, conflicts int64
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		holders := []int{3, 8, 70, 130}[seed%4]
		w := newWorld(Config{Holders: holders, BudgetBytes: -1}, 2+int(seed%5), rng.IntN)
		w.agree = seed%3 == 0
		for step := range 4000 / shorter {
			if err := w.step(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if step%100 == 0 {
				if err := w.verify(); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, step, err)
				}
			}
		}
		s := w.x.Stats()
		if w.agree && s.Aliases > 0 {
			t.Errorf("seed %d: %d aliases of engines that agree", seed, s.Aliases)
		}
		joined += s.Joined
		conflicts += s.Conflicts
		if err := w.clear(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if joined == 0 || conflicts == 0 {
		t.Errorf("%d runs joined, %d names conflicted: nothing was tested", joined, conflicts)
	}
}

// FuzzIndex runs operations that the fuzzer chooses. The scripts are long: fuzz
// with -fuzzminimizetime 1x.
func FuzzIndex(f *testing.F) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 5))
		b := make([]byte, 4000)
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
		w := newWorld(Config{Holders: 12, BudgetBytes: -1}, 3, pick)
		for step := 0; len(script) > 0 && step < 5000; step++ {
			if err := w.step(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
		}
		if err := w.verify(); err != nil {
			t.Fatal(err)
		}
		if err := w.clear(); err != nil {
			t.Fatal(err)
		}
	})
}
