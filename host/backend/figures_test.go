package backend

import (
	"math"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvindex"
)

func TestRoundTrips(t *testing.T) {
	var r roundTrips
	if r.millis() != 0 {
		t.Error("known before the first")
	}
	for _, d := range []time.Duration{40, 8, 90} {
		r.take(d * time.Millisecond)
	}
	if got := r.millis(); got != 8 {
		t.Errorf("got %v, want the shortest", got)
	}
	for range len(r.took) {
		r.take(50 * time.Millisecond)
	}
	if got := r.millis(); got != 50 {
		t.Errorf("got %v: what was long ago counts", got)
	}
}

func TestEvictions(t *testing.T) {
	var e evictions
	now := time.Unix(1000, 0)
	if got := e.take(500, 16, now); got != 0 {
		t.Errorf("got %v from one look", got)
	}
	blocks, got := uint64(500), float32(0)
	for range 60 { // 100 blocks a second for a minute
		now, blocks = now.Add(time.Second), blocks+100
		got = e.take(blocks, 16, now)
	}
	if math.Abs(float64(got)-1600) > 10 {
		t.Errorf("got %v tokens/s, want 1600", got)
	}
	now = now.Add(evictWindow)
	if got = e.take(blocks, 16, now); math.Abs(float64(got)-1600/math.E) > 10 {
		t.Errorf("got %v after quiet, want %v", got, 1600/math.E)
	}
	if got = e.take(blocks, 16, now); math.Abs(float64(got)-1600/math.E) > 10 {
		t.Errorf("got %v from two looks at one instant", got)
	}
	if got = e.take(3, 16, now.Add(time.Second)); got != 0 {
		t.Errorf("got %v from a count that went back", got)
	}
}

// TestWatcher_sizesTheModel: an endpoint without events has the cache that its
// engine reports, and another one after it restarts with more memory.
func TestWatcher_sizesTheModel(t *testing.T) {
	e := newFakeEngine(t)
	index := kvindex.New(kvindex.Config{Holders: 64, BudgetBytes: 1 << 20})
	assumed := kvindex.NewAssumed(kvindex.AssumedConfig{Holders: 64, BudgetBytes: 1 << 20})
	assumed.SetCapacity(holder(0, 0), 1<<16) // as configured
	o := &watched{board: newBoard(), t: t, e: e}
	var err error
	if o.w, err = NewWatcher(Config{URL: e.URL, CacheIdentity: identity, Interval: 5 * time.Millisecond,
		Events: Events{Mode: EventsOff}}, index, assumed, o.board); err != nil {
		t.Fatal(err)
	}
	go func() { _ = o.w.Run(t.Context()) }() // ends with the test
	chain := make([]uint64, 300)
	for i := range chain {
		chain[i] = uint64(i + 1)
	}
	o.until("the engine's size", func(s endpoint.State) bool {
		assumed.Touch(holder(0, 0), chain)
		return s.CacheBlocks == 100 && assumed.Held(holder(0, 0)) == 100
	})
	o.until("figures", func(s endpoint.State) bool { return s.CachedTokens == 200 })
}
