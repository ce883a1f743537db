package wasm

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
)

// TestWatch: three calls over the ceiling that no fast ones come between are too
// many, and so is one far over it; a call of more than half the ceiling has the next
// ones timed.
func TestWatch(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		took []time.Duration
		slow int // the call it is found at, -1 = never
	}{
		"fast":         {[]time.Duration{ms, ms, ms, ms}, -1},
		"three":        {[]time.Duration{3 * ms, 3 * ms, 3 * ms}, 2},
		"alternating":  {[]time.Duration{3 * ms, ms, 3 * ms, ms, 3 * ms, ms, 3 * ms}, -1},
		"two of three": {[]time.Duration{3 * ms, 3 * ms, ms, 3 * ms, 3 * ms}, 4},
		"far over":     {[]time.Duration{ms, 40 * ms}, 1},
	} {
		w, found := new(watch), -1
		for i, took := range c.took {
			if w.record(took, 2*ms) && found < 0 {
				found = i
			}
		}
		if found != c.slow {
			t.Errorf("%s: found at call %d, want %d", name, found, c.slow)
		}
	}
	w := new(watch)
	w.record(ms, 2*ms)
	if w.due() {
		t.Error("timed again after a fast call")
	}
	w.record(ms+1, 2*ms)
	for range watchCalls {
		if !w.due() {
			t.Fatal("not timed after a call of more than half the ceiling")
		}
	}
	if w.due() {
		t.Error("timed for ever")
	}
}

// TestThreadTime: what counts is the work of the thread, not how long it waited.
func TestThreadTime(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, cpu := time.Now(), threadTime()
	for time.Since(began) < 5*time.Millisecond { // works
	}
	if d := threadTime() - cpu; d <= 0 {
		t.Errorf("%v of processor time for 5ms of work", d)
	}
}

// TestCeiling: the default ceiling refuses and quarantines, and a higher one does
// neither; the back-off of a plugin that was too slow grows even where it was well
// for long in between.
func TestCeiling(t *testing.T) {
	rt, err := New(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	code := readFile(t, "../../conformance/guests/drift.wasm")
	p, err := rt.Load(t.Context(), code, Options{CallTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	drift := func(p *Plugin) error {
		b, scores := SmokeBatch(3, 1), make([]float32, 3)
		for range 5200 {
			if err := p.Score(b, scores, nil); err != nil {
				return err
			}
		}
		return nil
	}
	strict, err := rt.Load(t.Context(), code, Options{Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	var waits []time.Duration
	for range 3 {
		err := drift(strict)
		if f, ok := errors.AsType[*Fault](err); !ok || f.Reason != ReasonTime || f.Role != "score" {
			t.Fatalf("got %v", err)
		}
		if err := drift(strict); !errors.Is(err, ErrQuarantined) {
			t.Fatalf("asked after it was too slow: %v", err)
		}
		_, until := strict.breaker.due(time.Now())
		waits = append(waits, time.Until(until).Round(time.Second))
		rt.Maintain(t.Context(), until)
	}
	if waits[1] <= waits[0] || waits[2] <= waits[1] {
		t.Errorf("it waits %v", waits)
	}
	if st := strict.Stats(); st.LoadNanos <= 0 || st.LoadNanos > int64(p.Ceiling(abi.MaxCandidates)) {
		t.Errorf("a call takes %d ns when it is loaded", st.LoadNanos)
	}
	if err := drift(p); err != nil {
		t.Errorf("under a ceiling of 1s: %v", err)
	}
}
