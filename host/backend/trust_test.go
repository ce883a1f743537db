package backend

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/kvevents"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.011 {
		t.Errorf("%s: %.3f, want %.3f", what, got, want)
	}
}

func TestTrust_ceilings(t *testing.T) {
	now := time.Unix(1e6, 0)
	tr := newTrust(now)
	near(t, "predicted", tr.Value(now), 0.8)
	tr.use(true, 16)
	near(t, "live", tr.Value(now), 0.9)
	tr.ObserveSilent(100)
	if !tr.Unverified() {
		t.Error("not marked as unverified")
	}
	tr.Observe(100, 100, now)
	if tr.Unverified() {
		t.Error("still unverified")
	}
	near(t, "verified", tr.Value(now), 1)
}

func TestTrust_predictions(t *testing.T) {
	now := time.Unix(1e6, 0)
	wrong := func(n, predicted, reported int) float64 {
		tr := newTrust(now)
		tr.use(true, 16)
		for range n {
			tr.Observe(predicted, reported, now)
		}
		return tr.Value(now)
	}
	near(t, "right", wrong(50, 1600, 1600), 1)
	near(t, "within a block", wrong(50, 1616, 1600), 1)
	near(t, "cold prompts do not count", wrong(50, 0, 0), 1)
	near(t, "11 wholly wrong", wrong(11, 1600, 0), 0.49)
	near(t, "36 wholly wrong", wrong(36, 1600, 0), 0.10)
	near(t, "half of it", wrong(200, 1600, 800), 0.5)
	near(t, "too low costs a quarter", wrong(200, 0, 1600), 0.75)
	near(t, "nonsense", wrong(9, -1, 5), 0.9)

	tr := newTrust(now)
	for range 36 {
		tr.Observe(1600, 0, now)
	}
	for range 40 {
		tr.Observe(1600, 1600, now)
	}
	near(t, "mended by agreement", tr.Value(now), 0.93)
	if s := tr.Stats(now); s.Reports != 76 || s.PredictedTokens != 76*1600 || s.ReportedTokens != 40*1600 ||
		s.OverTokens != 36*1600 || s.UnderTokens != 0 {
		t.Errorf("%+v", s)
	}
}

func TestTrust_stream(t *testing.T) {
	now := time.Unix(1e6, 0)
	tr := newTrust(now)
	tr.use(true, 16)
	tr.Observe(16, 16, now)
	tr.reset(kvevents.ReasonGap, now)
	near(t, "gap", tr.Value(now), 0.5)
	near(t, "a minute later", tr.Value(now.Add(time.Minute)), 0.75)
	near(t, "ten minutes later", tr.Value(now.Add(10*time.Minute)), 1)
	now = now.Add(10 * time.Minute)
	tr.reset(kvevents.ReasonRestart, now)
	near(t, "restart", tr.Value(now), 0.8)
	for range 10 {
		tr.Observe(1600, 1600, now)
	}
	near(t, "agreement", tr.Value(now), 0.93)
	tr.reset("sleep", now)
	near(t, "an ordered reset is no fault", tr.Value(now), 0.93)
	tr = newTrust(now)
	tr.use(true, 16)
	tr.failed(1000, now)
	near(t, "one bad batch", tr.Value(now), 0.9*math.Pow(0.98, 8))
	tr.use(false, 16)
	near(t, "without events the stream is of no account", tr.Value(now), 0.8)
}

func TestTrust_deadStream(t *testing.T) {
	now := time.Unix(1e6, 0)
	tr := newTrust(now)
	tr.use(true, 16)
	tr.down(now)
	near(t, "a blip", tr.Value(now.Add(4*time.Second)), 0.9)
	near(t, "half a minute", tr.Value(now.Add(35*time.Second)), 0.45)
	near(t, "two minutes", tr.Value(now.Add(125*time.Second)), 0.9/16)
	tr.down(time.Time{})
	near(t, "back", tr.Value(now.Add(126*time.Second)), 0.9)
}

func TestTrust_counters(t *testing.T) {
	now := time.Unix(1e6, 0)
	step := func(tr *Trust, predicted int, hits float64) {
		now = now.Add(windowTime)
		tr.ObserveSilent(predicted)
		tr.counters(hits, now)
	}
	tr := newTrust(now)
	tr.counters(1000, now)
	for i := range 10 {
		step(tr, 10_000, 1000+float64(i+1)*30_000) // others use the engine too
	}
	near(t, "enough hits", tr.Value(now), 0.8)
	tr = newTrust(now)
	tr.counters(1000, now)
	for range 10 {
		step(tr, 10_000, 1000)
	}
	near(t, "no hits", tr.Value(now), 0.8*math.Pow(0.75, 10))
	tr = newTrust(now)
	tr.counters(1000, now)
	step(tr, 100, 1000)
	near(t, "too few tokens to compare", tr.Value(now), 0.8)
	step(tr, 100_000, 0) // the engine counts anew
	near(t, "restart", tr.Value(now), 0.8)
}

func TestTrust_stress(t *testing.T) {
	tr := newTrust(time.Now())
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 2000 {
				now := time.Now()
				switch (i + j) % 8 {
				case 0:
					tr.Observe(j, j/2, now)
				case 1:
					tr.ObserveSilent(j)
				case 2:
					tr.counters(float64(j), now)
				case 3:
					tr.reset(kvevents.ReasonGap, now)
				case 4:
					tr.down(now)
				case 5:
					tr.use(j%2 == 0, 16)
				case 6:
					tr.Stats(now)
				case 7:
					tr.orphaned(1, now)
				}
				if v := tr.Value(now); !(v >= 0 && v <= 1) {
					t.Errorf("trust %v", v)
					return
				}
			}
		})
	}
	wg.Wait()
}
