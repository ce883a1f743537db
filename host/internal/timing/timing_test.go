package timing

import (
	"math"
	"sync"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h Histogram
	bounds := Bounds()
	for _, d := range []time.Duration{
		-1, 0, 999, 1000, 1999, 2000, 3 * time.Millisecond, time.Second, time.Hour, math.MaxInt64,
	} {
		was := h.Load()
		h.Add(d)
		now := h.Load()
		at := -1
		for i := range now.Buckets {
			if now.Buckets[i] != was.Buckets[i] {
				at = i
			}
		}
		s := max(0, d).Seconds()
		if at < 0 || at < len(bounds) && s >= bounds[at] || at > 0 && s < bounds[at-1] {
			t.Errorf("%v is counted in bucket %d", d, at)
		}
		if now.Count != was.Count+1 || now.SumNanos-was.SumNanos != uint64(max(0, d)) {
			t.Errorf("%v: %d, %d after %d, %d", d, now.Count, now.SumNanos, was.Count, was.SumNanos)
		}
	}
}

func TestHistogram_stress(t *testing.T) {
	var h Histogram
	var wg sync.WaitGroup
	const each = 2000
	for range 4 {
		wg.Go(func() {
			for i := range each {
				h.Add(time.Duration(i) * time.Microsecond)
				h.Load()
			}
		})
	}
	wg.Wait()
	c, n := h.Load(), uint64(0)
	for _, b := range c.Buckets {
		n += b
	}
	if c.Count != 4*each || n != c.Count || c.SumNanos != 4*uint64(each*(each-1)/2)*1000 {
		t.Errorf("got %+v", c)
	}
}
