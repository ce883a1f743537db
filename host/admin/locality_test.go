package admin

import (
	"testing"
	"time"
)

func TestLocalityRequest_check(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		weight float64
		until  time.Time
		ok     bool
	}{
		{0.5, now.Add(time.Hour), true}, {0, now.Add(time.Second), true}, {1, time.Time{}, true},
		{0.5, time.Time{}, false}, {0.5, now, false}, {-0.1, now.Add(time.Hour), false}, {1.1, now.Add(time.Hour), false},
	} {
		if err := (&LocalityRequest{Weight: c.weight, Until: c.until}).Check(now); (err == nil) != c.ok {
			t.Errorf("weight %v until %v: got %v, want it accepted: %v", c.weight, c.until, err, c.ok)
		}
	}
}
