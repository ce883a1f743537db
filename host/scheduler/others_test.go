package scheduler

import (
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// report sets the figures of an endpoint, read at a time.
func (r *rig) report(id endpoint.ID, running, waiting uint32, kv float32, at time.Time) {
	r.store.Update(id, func(s *endpoint.State) {
		s.Running, s.Waiting, s.KVUsage, s.CacheBlocks, s.ScrapedAt = running, waiting, kv, 25_000, at
	})
}

// TestOthers: an engine that others keep busy gets nothing while another is idle, as long
// as its figures are fresh.
func TestOthers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		name        string
		age         time.Duration
		least, most int64 // requests of 60 that the busy engine may get
	}{
		{"fresh", 0, 0, 0},
		{"two readings missed", 3 * time.Second, 0, 0},
		{"stale", 11 * time.Second, 28, 32},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
			r.report(0, 200, 150, 0.99, now.Add(-c.age))
			r.report(1, 0, 0, 0, now.Add(-c.age))
			for i := range 60 {
				p := r.place(r.request(words(i, 500)))
				p.FirstToken()
			}
			if n := r.store.Load().Loads[0].Inflight(); n < c.least || n > c.most {
				t.Errorf("the engine with 350 requests of others got %d of 60, want %d to %d", n, c.least, c.most)
			}
		})
	}
}

// TestOthers_own: an engine that reports this router's own requests has none of others.
func TestOthers_own(t *testing.T) {
	now := time.Now()
	r := newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
	for i := range 40 {
		r.place(r.request(words(i, 100)))
	}
	for id := range endpoint.ID(2) {
		r.report(id, 15, 5, 0.4, now)
		if o := r.store.Load().Others[id]; o != (endpoint.Others{}) {
			t.Errorf("20 own requests, 20 reported: got others %+v", o)
		}
	}
	e := r.sched.DryRun(r.request(words(99, 100)))
	for _, c := range e.Candidates {
		if _, ok := c.Columns["others_inflight"]; ok || c.Columns["inflight"] != 20 {
			t.Errorf("got columns %v, want 20 in flight, none of others", c.Columns)
		}
	}
	r.report(1, 60, 5, 0.9, now.Add(time.Millisecond))
	e = r.sched.DryRun(r.request(words(99, 100)))
	if got := e.Candidates[1].Columns["others_inflight"]; got != 45 || e.Candidates[1].Columns["inflight"] != 65 {
		t.Errorf("20 own requests, 65 reported: got columns %v, want 45 of others", e.Candidates[1].Columns)
	}
}

// TestOthers_cap: the cap of requests is of this router's own.
func TestOthers_cap(t *testing.T) {
	now := time.Now()
	r := newRig(t, 1, func(sc *StateConfig, c *Config) {
		sc.Now = func() time.Time { return now }
		c.Pools[0].MaxInflight = 4
	})
	r.report(0, 100, 0, 0.5, now)
	for i := range 4 {
		r.place(r.request(words(i, 10)))
	}
}
