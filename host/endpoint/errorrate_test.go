package endpoint

import (
	"math"
	"sync"
	"testing"
	"time"
)

func TestErrorRate(t *testing.T) {
	var e errorRate
	now := time.Unix(1000, 0)
	near := func(what string, want float64) {
		t.Helper()
		if got := float64(e.at(now)); math.Abs(got-want) > 1e-3 {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	near("nothing yet", 0)
	e.take(false, now)
	near("one that went well", 0)
	e.take(true, now)
	near("one failure", 1./32)
	for range 400 {
		e.take(true, now)
	}
	near("failures only", 1)
	for i := range 800 {
		e.take(i%4 == 0, now)
	}
	if got := e.at(now); got < 0.2 || got > 0.3 {
		t.Errorf("a quarter failed: got %v", got)
	}
	share := float64(e.at(now))
	now = now.Add(errorHalfLife)
	near("a minute later", share/2)
	for range 400 {
		e.take(false, now)
	}
	if got := e.at(now); got != 0 {
		t.Errorf("all went well for long: got %v", got)
	}
}

// TestErrorRate_reports: what opens no breaker is no failure, what says nothing
// changes nothing.
func TestErrorRate_reports(t *testing.T) {
	s := NewStore()
	id, err := s.Add(Info{Addr: "a", Pool: "p"})
	if err != nil {
		t.Fatal(err)
	}
	load, now := s.Load().Loads[id], time.Unix(1000, 0)
	s.Report(load, ResultOf(503), now)
	s.Report(load, ResultOf(400), now)
	s.Report(load, ResultNeutral, now)
	if got := load.ErrorRate(now); got != 0 {
		t.Errorf("got %v", got)
	}
	s.Report(load, ResultOf(500), now)
	was := load.ErrorRate(now)
	s.Report(load, ResultNeutral, now)
	if got := load.ErrorRate(now); got != was || math.Abs(float64(got)-1./32) > 1e-6 {
		t.Errorf("got %v, want 1/32", got)
	}
}

func TestErrorRate_stress(t *testing.T) {
	var e errorRate
	now := time.Now()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for k := range 2000 {
				e.take(k%2 == 0, now.Add(time.Duration(k)*time.Microsecond))
				if x := e.at(now); x < 0 || x > 1 {
					t.Errorf("share %v by %d", x, i)
				}
			}
		})
	}
	wg.Wait()
	if x := e.at(now.Add(2 * time.Millisecond)); x < 0.3 || x > 0.7 {
		t.Errorf("half of all failed: got %v", x)
	}
}

func TestLoad_decode(t *testing.T) {
	l := newLoad()
	for range 7 {
		l.ObserveDecode(101, time.Second)
	}
	l.ObserveDecode(1, time.Second)
	l.ObserveDecode(5, 0)
	if got := l.ITLMillis(); got != 0 {
		t.Errorf("got %v ms of 7 samples", got)
	}
	l.ObserveDecode(101, time.Hour) // the client was slow: one does not count
	if got := l.ITLMillis(); got != 10 {
		t.Errorf("got %v ms, want 10", got)
	}
	for range rateSamples {
		l.ObserveDecode(101, 3*time.Second)
	}
	if got := l.ITLMillis(); got != 30 {
		t.Errorf("got %v ms, want 30", got)
	}
}

func TestLoad_readyFor(t *testing.T) {
	s := NewStore()
	id, err := s.Add(Info{Addr: "a", Pool: "p"})
	if err != nil {
		t.Fatal(err)
	}
	load := s.Load().Loads[id]
	serve := func(yes bool) { s.Update(id, func(s *State) { s.Ready = yes }) }
	if d := load.ReadyFor(time.Now()); d != 0 {
		t.Errorf("not ready yet: %v", d)
	}
	begun := time.Now()
	serve(true)
	serve(true)
	if d := load.ReadyFor(begun.Add(time.Hour)); d > time.Hour || d < time.Hour-time.Minute {
		t.Errorf("ready for %v, want an hour", d)
	}
	serve(false)
	if d := load.ReadyFor(time.Now()); d != 0 {
		t.Errorf("not ready: %v", d)
	}
	serve(true)
	if d := load.ReadyFor(time.Now().Add(time.Minute)); d > time.Minute+time.Second {
		t.Errorf("ready again for %v, want a minute", d)
	}
}
