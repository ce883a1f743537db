package kvindex

import (
	"fmt"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// churn runs block operations in steady state against a budget. It checks the
// budget at every event and calls report ten times.
func churn(x *Index, pairs, ops int, report func(done int, c *churned)) error {
	g := newGenerator(x.Holders(), pairs, 1)
	g.limit = pairs / x.Holders()
	all := make([]uint64, x.Words())
	for h := range x.Holders() {
		all[h>>6] |= 1 << (h & 63)
	}
	c := &churned{}
	depth := make([]uint32, x.Holders())
	var err error
	g.ask = func(h, held int, own []uint64) {
		x.Match(own, all, depth)
		if int(depth[h]) > held {
			err = fmt.Errorf("holder %d: depth %d, holds %d", h, depth[h], held)
		}
		c.want += held
		c.found += int(depth[h])
	}
	done, tick, next := 0, 0, ops/10
	for done < ops && err == nil {
		done += g.step(func(e event) {
			if e.remove {
				x.Remove(e.holder, e.eng)
			} else {
				x.Store(e.holder, e.parent, e.hasParent, e.eng, e.own) // orphans are counted
			}
			if x.budget > 0 && x.bytes() > x.budget {
				err = fmt.Errorf("%d bytes, budget %d", x.bytes(), x.budget)
			}
		})
		if done >= tick {
			x.Tick()
			tick += pairs / 64
		}
		if done >= next {
			c.held = g.pairs
			report(done, c)
			c.want, c.found = 0, 0
			next += ops / 10
		}
	}
	return err
}

// churned is what lookups found since the last report.
type churned struct{ want, found, held int }

// TestChurn_room: with room for everything nothing is lost and memory does not
// grow in steady state.
func TestChurn_room(t *testing.T) {
	testdeps.Sequential(t)
	const pairs = 150_000
	x := New(Config{Holders: 64, BudgetBytes: 16 << 20})
	var bytes []int64
	err := churn(x, pairs, 3_000_000, func(done int, c *churned) {
		s := x.Stats()
		bytes = append(bytes, s.Bytes)
		if done > 500_000 && (c.found != c.want || int(s.Pairs) != c.held || s.Orphans != 0) {
			t.Errorf("%d ops: found %d of %d, %d pairs of %d, %d orphans", done, c.found, c.want, s.Pairs, c.held, s.Orphans)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if a, b := bytes[len(bytes)-2], bytes[len(bytes)-1]; b > a+a/20 {
		t.Errorf("bytes still grow: %d", bytes)
	}
	if err := check(x); err != nil {
		t.Fatal(err)
	}
	t.Logf("bytes %d", bytes)
}

// TestChurn_tight: with a budget that is too small, shared prompts and what is
// used stay. It takes some turnovers until uses distinguish the runs.
func TestChurn_tight(t *testing.T) {
	testdeps.Sequential(t)
	const pairs = 1_500_000
	x := New(Config{Holders: 64, BudgetBytes: 20 << 20})
	var last churned
	err := churn(x, pairs, 6_000_000, func(done int, c *churned) { last = *c })
	if err != nil {
		t.Fatal(err)
	}
	if err := check(x); err != nil {
		t.Fatal(err)
	}
	s := x.Stats()
	t.Logf("%d bytes; %d of %d pairs held, %d evicted, %d orphans, lookups find %d of %d", s.Bytes, s.Pairs, last.held,
		s.Evicted, s.Orphans, last.found, last.want)
	if s.Evicted == 0 {
		t.Error("nothing evicted")
	}
	if last.found*100 < last.want*97 {
		t.Errorf("lookups find %d of %d", last.found, last.want)
	}
}
