package endpoint

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestLoad_Oldest: against a list of the requests in flight.
func TestLoad_Oldest(t *testing.T) {
	type request struct {
		Charge
		begun time.Time
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	l, now := newLoad(), time.Unix(1e9, 0)
	const period = 5 * time.Second
	if got := l.Oldest(now); got != 0 {
		t.Errorf("without requests: %v", got)
	}
	var flight []request
	for range 2000 {
		for range rnd.IntN(4) {
			flight = append(flight, request{l.Charge("t", 1, 1), now.Add(time.Duration(rnd.Int64N(int64(period))))})
		}
		for i := len(flight) - 1; i >= 0; i-- {
			if rnd.IntN(10) == 0 {
				flight[i].Release()
				flight = append(flight[:i], flight[i+1:]...)
			}
		}
		now = now.Add(period)
		want := time.Duration(0)
		for i := range flight {
			want = max(want, now.Sub(flight[i].begun))
		}
		if got := l.Oldest(now); got < want || got > want+period || want == 0 && got != 0 {
			t.Fatalf("oldest of %d is %v, want %v", len(flight), got, want)
		}
	}
}

// TestLoad_Oldest_long: a request that outlives all periods is still the oldest.
func TestLoad_Oldest_long(t *testing.T) {
	l, now := newLoad(), time.Unix(1e9, 0)
	l.Oldest(now)
	long := l.Charge("t", 0, 1)
	begun := now
	for range 3 * agePeriods {
		now = now.Add(time.Second)
		c := l.Charge("t", 0, 1)
		if got := l.Oldest(now); got != now.Sub(begun) {
			t.Fatalf("%v, want %v", got, now.Sub(begun))
		}
		c.Release()
	}
	long.Release()
	if got := l.Oldest(now.Add(time.Second)); got != 0 {
		t.Errorf("without requests: %v", got)
	}
}

func TestLoad_Oldest_stress(t *testing.T) {
	l := newLoad()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5000 {
				c := l.Charge("t", 0, 1)
				c.Release()
			}
		})
	}
	wg.Go(func() {
		for range 2000 {
			l.Oldest(time.Now())
		}
	})
	wg.Wait()
	if got := l.Oldest(time.Now()); got != 0 {
		t.Errorf("without requests: %v", got)
	}
}
