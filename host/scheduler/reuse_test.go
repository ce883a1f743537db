package scheduler

import (
	"testing"
	"time"
)

// TestReuse: a model stops computing prompts when that costs more than it saves, and
// begins again soon after reuse comes back.
func TestReuse(t *testing.T) {
	var r reuse
	for range reusePrompts - 1 {
		if r.observe(0, time.Millisecond) {
			t.Fatal("stopped before enough prompts were seen")
		}
	}
	if !r.observe(0, time.Millisecond) || !r.off.Load() {
		t.Fatal("did not stop")
	}
	computed := 0
	for range 3200 {
		if !r.skips() {
			computed++
			if r.observe(0, time.Millisecond) {
				t.Fatal("began again without reuse")
			}
		}
	}
	if computed != 100 {
		t.Errorf("computed %d of 3,200 prompts, want one in %d", computed, reuseSample)
	}
	n := 0
	for !r.observe(20*time.Millisecond, time.Millisecond) {
		if n++; n > 10 {
			t.Fatal("did not begin again after ten prompts that were cached")
		}
	}
	if r.skips() {
		t.Error("skips a prompt after it began again")
	}
	for range 3 * reusePrompts {
		if r.observe(2*time.Millisecond, time.Millisecond) {
			t.Fatal("stopped although it pays")
		}
	}
}

// TestReuse_decisions: only a model that measures its reuse stops.
func TestReuse_decisions(t *testing.T) {
	for _, measured := range []bool{true, false} {
		now := time.Unix(1_700_000_000, 0)
		r := newRig(t, 2, func(sc *StateConfig, c *Config) {
			sc.Now = func() time.Time { now = now.Add(time.Millisecond); return now } // each stage takes one
			c.Models[0].MeasureReuse = measured
		})
		for i := range reusePrompts + 10 {
			end(r.place(r.request(words(i, 20))))
		}
		exact := 0
		for i := range 2 * reuseSample {
			if r.sched.DryRun(r.request(words(i, 20))).TokensExact {
				exact++
			}
		}
		if want := map[bool]int{true: 2, false: 2 * reuseSample}[measured]; exact != want {
			t.Errorf("measured %v: %d of %d prompts are computed, want %d", measured, exact, 2*reuseSample, want)
		}
		if r.state.Localities()["m"].Sampled != measured {
			t.Errorf("measured %v: shown as sampled %v", measured, !measured)
		}
		r.policy.d.MaxPromptTokens = 1000
		if e := r.sched.DryRun(r.request(words(1, 20))); !e.TokensExact {
			t.Error("a prompt with a limit of tokens is not computed")
		}
	}
}
