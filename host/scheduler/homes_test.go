package scheduler

import (
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

func newHomes() *homes[uint64] {
	t := new(homes[uint64])
	t.init(func(_ maphash.Seed, key uint64) uint64 { return mix(key) })
	return t
}

// walk counts the keys one by one.
func (t *homes[K]) walk() (counts map[uint32]int, keys int) {
	counts = map[uint32]int{}
	for i := range t.shards {
		for _, m := range []map[K]home{t.shards[i].young.at, t.shards[i].old.at} {
			for _, h := range m {
				counts[h.epoch]++
				keys++
			}
		}
	}
	return counts, keys
}

func TestHomes_bounded(t *testing.T) {
	s := newHomes()
	for i := range uint64(3 * maxHomes) {
		s.set(i, home{id: 1})
	}
	if _, n := s.walk(); n > 2*maxHomes || n < maxHomes*9/10 {
		t.Errorf("got %d keys, want %d to %d", n, maxHomes, 2*maxHomes)
	}
	if _, ok := s.get(3*maxHomes - 1); !ok {
		t.Error("the last key is forgotten")
	}
}

// TestHomes_counts: the counts are those of a walk over all keys, while keys move
// from endpoint to endpoint and are forgotten.
func TestHomes_counts(t *testing.T) {
	s := newHomes()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 6 * maxHomes {
		s.set(uint64(rnd.IntN(3*maxHomes)), home{id: endpoint.ID(i % 9), epoch: uint32(1 + rnd.IntN(20))})
		if i%maxHomes != 0 {
			continue
		}
		if want, _ := s.walk(); !maps.Equal(s.counts(), want) {
			t.Fatalf("after %d: got %v, want %v", i, s.counts(), want)
		}
	}
}

func TestHomes_stress(t *testing.T) {
	s := newHomes()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range uint64(5000) {
				s.set(i%700, home{epoch: uint32(g + 1)})
				s.get(i % 900)
				if i%500 == 0 {
					s.counts()
				}
			}
		})
	}
	wg.Wait()
	if want, keys := s.walk(); keys != 700 || !maps.Equal(s.counts(), want) {
		t.Errorf("got %v of %d keys, want %v of 700", s.counts(), keys, want)
	}
}
