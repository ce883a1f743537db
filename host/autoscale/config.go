package autoscale

import (
	"errors"
	"fmt"
	"time"
)

// Config configures how one pool scales. The zero value of a field means its
// default.
type Config struct {
	Min int // endpoints at least; 0 = may scale to zero
	Max int // endpoints at most; at least 1

	// Target is the share of the endpoints' time that the offered work may
	// fill. Default 0.53: within one percent of the goodput of the best size in
	// hindsight, on chat and on agents, with cold starts of 1 and 3 minutes
	// (RATIONALE.md). 0.7 needs a fifth fewer endpoints and loses up to two points
	// of goodput where demand swings.
	Target float64

	// Window is how long a size must not have been needed before the pool shrinks.
	// Default 5 minutes, at least twice the cold start.
	Window time.Duration

	// IdleAfter is how long a pool must have had no request at all before its
	// last endpoints are removed; only with Min 0. Default 15 minutes.
	IdleAfter time.Duration

	// ColdStart is assumed from the order of an endpoint to its readiness until
	// one was measured. Default 2 minutes.
	ColdStart time.Duration

	// DrainTimeout bounds how long a draining endpoint waits for its requests.
	// Default 15 minutes: an agent's turn with a long answer.
	DrainTimeout time.Duration

	// DriverTimeout bounds one call of the driver. Default 30 seconds.
	DriverTimeout time.Duration

	// WarmTimeout bounds how long the driver may prepare a machine before it serves
	// (Warmer). 0 = it does not.
	WarmTimeout time.Duration

	// DryRun proposes and explains, but orders nothing.
	DryRun bool
}

// MaxSize bounds Config.Max: the endpoints that one process can have.
const MaxSize = 1024

// maxWindow bounds the history a loop keeps.
const maxWindow = time.Hour

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Target == 0 {
		c.Target = 0.53
	}
	def(&c.Window, 5*time.Minute)
	def(&c.IdleAfter, 15*time.Minute)
	def(&c.ColdStart, 2*time.Minute)
	def(&c.DrainTimeout, 15*time.Minute)
	def(&c.DriverTimeout, 30*time.Second)
	return c
}

// Validate reports all faults of c.
func (c *Config) Validate() error {
	var all []error
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf("autoscale: "+format, args...)) }
	if c.Min < 0 {
		bad("min %d: want 0 or more", c.Min)
	}
	if c.Max < 1 || c.Max > MaxSize {
		bad("max %d: want 1 to %d", c.Max, MaxSize)
	} else if c.Max < c.Min {
		bad("max %d is less than min %d", c.Max, c.Min)
	}
	if c.Target < 0 || c.Target > 1 {
		bad("target %g: want a share in (0, 1]", c.Target)
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"window", c.Window}, {"idle_after", c.IdleAfter}, {"cold_start", c.ColdStart}, {"drain_timeout", c.DrainTimeout},
		{"driver_timeout", c.DriverTimeout}, {"warm_timeout", c.WarmTimeout}} {
		if d.d < 0 {
			bad("%s %v is negative", d.name, d.d)
		}
	}
	if c.Window > maxWindow {
		bad("window %v: at most %v", c.Window, maxWindow)
	}
	return errors.Join(all...)
}
