package endpoint

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLoad_chargeAndRelease(t *testing.T) {
	l := newLoad()
	a := l.Charge("acme", 100, 300)
	b := l.Charge("globex", 50, 80)
	if l.Inflight() != 2 || l.Outstanding() != 150 || l.KVActive() != 380 || l.TenantOutstanding("acme") != 100 {
		t.Errorf("got inflight %d outstanding %d kv %d", l.Inflight(), l.Outstanding(), l.KVActive())
	}
	a.ReleaseWork()
	a.ReleaseWork()
	if l.Inflight() != 2 || l.Outstanding() != 50 || l.KVActive() != 380 || l.TenantOutstanding("acme") != 0 {
		t.Error("ReleaseWork twice: want only the outstanding tokens gone, once")
	}
	a.Release()
	a.Release()
	b.Release()
	if l.Inflight() != 0 || l.Outstanding() != 0 || l.KVActive() != 0 || len(l.tenants) != 0 {
		t.Errorf("got inflight %d outstanding %d kv %d tenants %v, want nothing", l.Inflight(), l.Outstanding(), l.KVActive(),
			l.tenants)
	}
	new(Charge).Release()
}

func TestLoad_prefillRate(t *testing.T) {
	l := newLoad()
	for range 7 {
		l.ObservePrefill(2000, time.Second)
	}
	l.ObservePrefill(rateMinWork-1, time.Nanosecond)
	l.ObservePrefill(2000, 0)
	if r := l.PrefillRate(); r != 0 {
		t.Errorf("got rate %v after 7 samples, want 0", r)
	}
	l.ObservePrefill(100_000, time.Second) // one lucky sample
	if r := l.PrefillRate(); r != 2000 {
		t.Errorf("got rate %v, want 2000: one outlier of eight does not count", r)
	}
	for i := range 2 * rateSamples {
		l.ObservePrefill(int64(2000*(1+i%10)), time.Second)
	}
	if r := l.PrefillRate(); r < 17_000 || r > 19_000 {
		t.Errorf("got rate %v, want the 90th percentile of 2,000…20,000", r)
	}
}

func newPool(t *testing.T, n int) (*Store, []*Load) {
	s := NewStore()
	for i := range n {
		id := mustAdd(t, s, string(rune('a'+i)), "p", nil)
		s.Update(id, func(st *State) { st.Ready = true })
	}
	return s, s.Load().Loads
}

func TestBreaker_opensProbesAndRecovers(t *testing.T) {
	s, l := newPool(t, 3)
	now := time.Unix(1000, 0)
	for i := range breakerFailures {
		if l[0].Open(now) {
			t.Fatalf("open after %d failures", i)
		}
		s.Report(l[0], ResultFailed, now)
	}
	if !l[0].Open(now) || l[0].Admit(now) || !l[0].Ejected() {
		t.Fatal("not open after 3 failures in a row")
	}
	s.Report(l[0], ResultOK, now) // the answer to an older request
	if !l[0].Open(now) {
		t.Fatal("closed by a late answer")
	}
	now = now.Add(breakerBase)
	if l[0].Open(now) || !l[0].Admit(now) {
		t.Fatal("no probe after the ejection time")
	}
	if !l[0].Open(now) || l[0].Admit(now) {
		t.Fatal("a second probe beside the first")
	}
	s.Report(l[0], ResultFailed, now)
	if now = now.Add(breakerBase); !l[0].Open(now) {
		t.Fatal("the second ejection is no longer than the first")
	}
	now = now.Add(breakerBase)
	if !l[0].Admit(now) {
		t.Fatal("no probe after the second ejection")
	}
	s.Report(l[0], ResultNeutral, now)
	if !l[0].Admit(now) {
		t.Fatal("no further probe after the client of the first had left")
	}
	s.Report(l[0], ResultOK, now)
	if l[0].Open(now) || l[0].Ejected() {
		t.Fatal("open after a good probe")
	}
	if r := l[0].Ramp(now); r > .1 {
		t.Errorf("got ramp %v just after the return, want near 0", r)
	}
	if r := l[0].Ramp(now.Add(slowStart / 2)); r < .45 || r > .55 {
		t.Errorf("got ramp %v after half the time, want 0.5", r)
	}
	if r := l[0].Ramp(now.Add(slowStart)); r != 1 {
		t.Errorf("got ramp %v after all of the time, want 1", r)
	}
}

func TestBreaker_retract(t *testing.T) {
	s, l := newPool(t, 3)
	now := time.Unix(1000, 0)
	for range breakerFailures {
		s.Report(l[0], ResultFailed, now)
	}
	share := l[0].errors.at(now)
	s.Retract(l[0], now)
	if l[0].Ejected() || l[0].Breaker(now).Failures != breakerFailures-1 {
		t.Errorf("after the third failure was taken back: %+v", l[0].Breaker(now))
	}
	if got := l[0].errors.at(now); got >= share {
		t.Errorf("share of failures %v, was %v", got, share)
	}
	s.Report(l[0], ResultFailed, now)
	s.Report(l[0], ResultFailed, now)
	s.Retract(l[0], now)
	if !l[0].Ejected() {
		t.Error("the breaker closed although three failures remain")
	}
	for range 9 {
		s.Retract(l[0], now)
	}
	if got := l[0].Breaker(now); got.Failures != 0 || l[0].errors.at(now) != 0 {
		t.Errorf("%+v, share %v", got, l[0].errors.at(now))
	}
}

func TestBreaker_statuses(t *testing.T) {
	for status, want := range map[int]Result{
		0: ResultFailed, 200: ResultOK, 400: ResultOK, 404: ResultOK, 429: ResultOK, 503: ResultOK, 500: ResultFailed,
		502: ResultFailed, 504: ResultFailed,
	} {
		if got := ResultOf(status); got != want {
			t.Errorf("status %d: got %d, want %d", status, got, want)
		}
	}
	s, l := newPool(t, 3)
	now := time.Now()
	for range 5 {
		s.Report(l[0], ResultFailed, now)
		s.Report(l[0], ResultFailed, now)
		s.Report(l[0], ResultOK, now)
	}
	if l[0].Open(now) {
		t.Error("opened by failures that were not in a row")
	}
}

func TestBreaker_ejectsAtMostHalf(t *testing.T) {
	s, l := newPool(t, 4)
	now := time.Now()
	open := 0
	for i := range l {
		for range 2 * breakerFailures {
			s.Report(l[i], ResultFailed, now)
		}
		if l[i].Open(now) {
			open++
		}
	}
	if open != 2 {
		t.Errorf("got %d of 4 ejected, want 2", open)
	}
}

func TestBreaker_slowStartOnReturnOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := newPool(t, 2)
		if r := l[0].Ramp(time.Now()); r != 1 {
			t.Errorf("got ramp %v of an endpoint that never left, want 1", r)
		}
		s.Update(0, func(st *State) { st.Ready = false })
		s.Update(0, func(st *State) { st.Ready = true })
		if r := l[0].Ramp(time.Now()); r > .1 {
			t.Errorf("got ramp %v of a returner, want near 0", r)
		}
		time.Sleep(slowStart)
		if r := l[0].Ramp(time.Now()); r != 1 {
			t.Errorf("got ramp %v, want 1", r)
		}
	})
}
