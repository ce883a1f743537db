package autoscale

import (
	"slices"
	"time"
)

// coldStarts keeps the last times from order to readiness.
type coldStarts struct {
	last [16]time.Duration
	n    int
}

func (c *coldStarts) add(d time.Duration) {
	c.last[c.n%len(c.last)] = d
	c.n++
}

// quantile returns the q-quantile of the times kept, 0 if there are none.
func (c *coldStarts) quantile(q float64) time.Duration {
	n := min(c.n, len(c.last))
	if n == 0 {
		return 0
	}
	s := slices.Clone(c.last[:n])
	slices.Sort(s)
	return s[min(n-1, int(q*float64(n)))]
}
