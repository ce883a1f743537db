//go:build !race

package plugins

import (
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
)

// TestAdapter_allocs: what plugins cost a decision is time only. (The race
// detector makes sync.Pool forget.)
func TestAdapter_allocs(t *testing.T) {
	table := openTable(t)
	for _, name := range []string{"leastwork", "roundrobin", "prefixfirst"} {
		p := acquire(t, table, name, "", 0)
		s, b := scorer{newAdapter(p, &config.Config{}, 0, "blend")}, fill(t, 64)
		if n := testing.AllocsPerRun(200, func() {
			if err := s.Score(b); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations per decision, want 0", name, n)
		}
		table.release([]*plugin{p})
	}
}

// TestShadows_allocs: what a shadow costs a decision is a copy.
func TestShadows_allocs(t *testing.T) {
	table := openTable(t)
	var s shadows
	s.init()
	s.set("leastwork", newTestShadow(t, table, "leastwork", 0))
	places, b := []*scoring{{pluginKey{name: "leastwork"}, &config.Config{}, 0, "blend"}}, fill(t, 64)
	parts := [][]float32{b.Scores}
	run := func() { s.offer(places, b, parts); s.score(<-s.jobs) }
	for range 2 * shadowJobs {
		run() // every job has its memory
	}
	if n := testing.AllocsPerRun(200, run); n != 0 {
		t.Errorf("%v allocations per decision, want 0", n)
	}
}
