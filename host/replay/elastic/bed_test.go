//go:build !race

// A run in virtual time has no goroutine: the race detector would find nothing
// here, and take ten times as long.

package elastic

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/replay"
)

// inFlightTargets is the sweep the loop is compared with.
var inFlightTargets = []float64{2, 3, 4, 6, 8, 12}

// bed compares the built-in loop with the best in-flight target of the sweep:
// the one of the greatest goodput. The loop may lose one percent to it, and may
// use no more engine-hours.
func bed(t *testing.T, name string, load Load, cold time.Duration, size int) {
	t.Helper()
	base := Config{Load: load, Engine: H100x8B, Size: size, Cold: cold,
		Scaling: &autoscale.Config{Min: 2, Max: 24, ColdStart: cold, DrainTimeout: time.Hour}}
	run := func(what string, c Config) *Report {
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%-6s cold %3.0f s from %2d  %-13s %v", name, cold.Seconds(), size, what, r)
		return r
	}
	var best *Report
	for _, target := range inFlightTargets {
		c := base
		c.Override = &InFlight{Target: target}
		if r := run(fmt.Sprint("in flight ", target), c); best == nil || r.Goodput > best.Goodput {
			best = r
		}
	}
	ours := run("work", base)
	if ours.Goodput < 0.99*best.Goodput {
		t.Errorf("%s, cold %v, from %d: goodput %.3f, the best in-flight target has %.3f", name, cold, size, ours.Goodput,
			best.Goodput)
	}
	if ours.Hours > best.Hours {
		t.Errorf("%s, cold %v, from %d: %.2f engine-hours, the best in-flight target took %.2f", name, cold, size, ours.Hours,
			best.Hours)
	}
}

// generated is half an hour of chat: prompts of about 12,000 tokens, a third of
// them shared, at a rate that swings.
func generated(seed uint64) Load {
	r := rand.New(rand.NewPCG(seed, 3))
	var l []replay.Conversation
	at, next := 0.0, uint64(1<<32)
	for at < 1800 {
		at += r.ExpFloat64() / 5
		n := 1 + int(r.ExpFloat64()*24)
		var b []uint64
		line := r.Uint64N(40) // one of forty shared prefixes
		for i := range min(n, 1+int(line)%12) {
			b = append(b, line<<16|uint64(i))
		}
		for len(b) < n {
			next++
			b = append(b, next)
		}
		l = append(l, replay.Conversation{Start: at, Requests: []replay.Request{{Blocks: b, Tokens: n*512 - r.IntN(500),
			Output: 1 + int(r.ExpFloat64()*340)}}})
	}
	Swing(l, 1, 0.6, 15*time.Minute)
	return Load{Conversations: l, BlockTokens: 512}
}

func TestBed_generated(t *testing.T) {
	for _, size := range []int{4, 10} {
		bed(t, "generated", generated(5), time.Minute, size)
	}
}

func TestRun_repeats(t *testing.T) {
	c := Config{Load: generated(2), Engine: H100x8B, Size: 6, Cold: time.Minute,
		Scaling: &autoscale.Config{Min: 2, Max: 12}}
	a, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() {
		t.Errorf("the same run twice:\n%v\n%v", a, b)
	}
	if a.Requests != len(c.Load.Conversations) {
		t.Errorf("%d of %d requests answered", a.Requests, len(c.Load.Conversations))
	}
}

// TestRun_fixed: a fleet that does not scale costs its size times the length.
func TestRun_fixed(t *testing.T) {
	few, err := Run(Config{Load: generated(2), Engine: H100x8B, Size: 3})
	if err != nil {
		t.Fatal(err)
	}
	many, err := Run(Config{Load: generated(2), Engine: H100x8B, Size: 12})
	if err != nil {
		t.Fatal(err)
	}
	if many.Goodput <= few.Goodput || many.Hours <= few.Hours || many.TTFT99 >= few.TTFT99 {
		t.Errorf("3 engines: %v\n12 engines: %v", few, many)
	}
}

// TestRun_flat is an hour of even load in which nothing may be ordered or
// drained once the fleet has its size.
func TestRun_flat(t *testing.T) {
	var l []replay.Conversation
	for i := range 4 * 3600 * 3 / 2 {
		l = append(l, replay.Conversation{Start: float64(i) / 4,
			Requests: []replay.Request{{Blocks: []uint64{uint64(3 * i), uint64(3*i + 1), uint64(3*i + 2)}, Tokens: 1536,
				Output: 200}}})
	}
	c := Config{Load: Load{Conversations: l, BlockTokens: 512}, Engine: H100x8B, Size: 2, Cold: time.Minute,
		Scaling: &autoscale.Config{Min: 1, Max: 12}}
	whole, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Load.Conversations = l[:len(l)/3]
	begin, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Orders != begin.Orders || whole.Drains != begin.Drains {
		t.Errorf("flat load: %d orders and %d drains in 90 minutes, %d and %d of them in the first 30", whole.Orders,
			whole.Drains, begin.Orders, begin.Drains)
	}
}

func TestRun_refuses(t *testing.T) {
	twice := []replay.Conversation{{Name: "x", Requests: []replay.Request{{Blocks: []uint64{1, 1}, Output: 1}}}}
	for _, c := range []Config{{}, {Load: Load{Conversations: twice, BlockTokens: 16}, Size: 1, Engine: H100x8B}} {
		if _, err := Run(c); err == nil {
			t.Errorf("%+v was run", c)
		}
	}
}
