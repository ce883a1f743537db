package plugins

import (
	"errors"
	"testing"
	"time"
)

// TestRest: a plugin whose calls take long gets a tenth of the time, and one whose
// calls are short is called each time.
func TestRest(t *testing.T) {
	clock := time.Unix(0, 0)
	now := func() time.Time { return clock }
	share := func(call time.Duration) float64 {
		var r rest
		began, used := clock, time.Duration(0)
		for range 10_000 {
			err := r.call(now, func() error {
				clock, used = clock.Add(call), used+call
				return nil
			})
			if err != nil && !errors.Is(err, errResting) {
				t.Fatal(err)
			}
			clock = clock.Add(10 * time.Millisecond) // the next batch
		}
		return float64(used) / float64(clock.Sub(began))
	}
	if s := share(500 * time.Millisecond); s > 0.11 {
		t.Errorf("calls of half a second take %.4f of the time", s)
	}
	if s, all := share(restFree), 1.0/11; s < all*0.999 {
		t.Errorf("calls of %v take %.4f of the time, want %.4f", restFree, s, all)
	}
}
