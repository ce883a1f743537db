package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLeastUncached compares with the minimum over the other columns, also with equal
// numbers and with a single column, which has no other.
func TestLeastUncached(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		uncached := make([]float32, 1+r.IntN(6))
		for i := range uncached {
			uncached[i] = float32(r.IntN(4))
		}
		l := leastUncachedOf(uncached)
		for i := range uncached {
			want := float32(0)
			if other := slices.Delete(slices.Clone(uncached), i, i+1); len(other) > 0 {
				want = slices.Min(other)
			}
			if got := l.others(i); got != want {
				t.Fatalf("%v without column %d: got %v, want %v", uncached, i, got, want)
			}
		}
	}
}
