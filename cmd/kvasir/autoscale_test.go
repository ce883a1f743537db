package main

import (
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
)

// TestPrintScaling: of two groups it is seen which is which, and one that no tick
// has reached is not shown as a pool of nothing.
func TestPrintScaling(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.Local)
	one := autoscale.Status{Time: now, Desired: 2, Capacity: "ok"}
	one.Pools = []autoscale.PoolStatus{{Name: "own", Max: 4}, {Name: "spot", Max: 8, DriverError: "no quota"}}
	one.Actions = []autoscale.Action{{Time: now.UTC(), Pool: "spot", Verb: "driver", Reason: strings.Repeat("x", 4000)}}
	two := autoscale.Status{Time: now, Capacity: "none", DryRun: true}
	two.Pools = []autoscale.PoolStatus{{Name: "other", Max: 1}}
	var b strings.Builder
	for _, s := range []autoscale.Status{one, two, {}} {
		printScaling(&b, &s)
	}
	out := b.String()
	for _, want := range []string{"pool own, overflow spot, measured at 12:00:00", "pool other, measured at",
		"no quota", "dry run", "12:00:00  spot", "not been measured yet"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for line := range strings.Lines(out) {
		if len(line) > 300 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}
