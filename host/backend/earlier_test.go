package backend

import (
	"context"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
)

// TestWatcher_earlierBlocks: after a kill of the router an engine reports cached tokens of
// blocks that the router does not know. They lower no trust, make no event stream silent
// and revoke nothing, until the engine drops its cache or has stored it anew.
func TestWatcher_earlierBlocks(t *testing.T) {
	t.Run("cleared", func(t *testing.T) {
		earlier(t, func(p *fakepub.Publisher, _ *fakeEngine) { p.Publish(fakepub.Batch(3, fakepub.Cleared())) })
	})
	t.Run("stored anew", func(t *testing.T) {
		earlier(t, func(p *fakepub.Publisher, _ *fakeEngine) {
			for i := range uint64(2) { // the engine's cache has 100 blocks of two tokens
				tokens, hashes := make([]uint32, 100), make([]uint64, 50)
				for k := range hashes {
					hashes[k] = 1000*(i+1) + uint64(k)
				}
				tokens[0] = uint32(i)
				p.Publish(fakepub.Batch(3, stored(nil, "", "", tokens, hashes...).Map()))
			}
		})
	})
	t.Run("engine restarted", func(t *testing.T) {
		earlier(t, func(p *fakepub.Publisher, e *fakeEngine) {
			p.Restart()
			e.set(func() { e.metrics["process_start_time_seconds"] = 2000 })
		})
	})
}

// earlier joins an engine that keeps four of five messages for replay, and lets end make its
// blocks known.
func earlier(t *testing.T, end func(*fakepub.Publisher, *fakeEngine)) {
	e := newFakeEngine(t)
	p, err := fakepub.New(fakepub.Config{Topic: "kv", BufferSteps: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	e.publishes(p)
	for i := range uint64(5) {
		p.Publish(fakepub.Batch(1, stored(nil, "", "", []uint32{7, uint32(i)}, i).Map()))
	}
	o := watch(t, e, func(c *Config) { c.Probe.Every, c.Forgotten = time.Hour, true })
	o.until("live, with earlier blocks", func(s endpoint.State) bool { return live(s) && s.EarlierBlocks })
	for range 40 {
		o.w.ObserveCached(0, 96)
	}
	if st := o.w.Status().Trust; st.Accuracy != 1 || st.Reports != 40 || st.UnderTokens != 40*96 {
		t.Errorf("reports of earlier blocks: %+v", st)
	}
	if n := o.w.silentHits.answers.Load(); n != 0 {
		t.Errorf("%d answers count as signs of a silent stream", n)
	}
	if o.w.Revoke(96) {
		t.Error("an answer proves something while the router does not know the engine's blocks")
	}
	o.w.ObserveCached(96, 0) // too much promised is an error in any case
	if a := o.w.Status().Trust.Accuracy; a >= 1 {
		t.Errorf("accuracy %v after a prediction that was too high", a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := p.WaitSubscribers(ctx, 1); err != nil {
		t.Fatal(err)
	}
	end(p, e)
	o.until("no earlier blocks", func(s endpoint.State) bool { return live(s) && !s.EarlierBlocks })
	if !o.w.Revoke(96) {
		t.Error("an answer proves nothing although the router knows the engine's blocks")
	}
	if st := o.w.Status().Probe; st.Unproven != 1 || st.Unexplained != 1 {
		t.Errorf("%+v", st)
	}
}

// TestWatcher_inherited: an engine without events that has computed prompts before the
// router holds blocks of theirs, until it is another process.
func TestWatcher_inherited(t *testing.T) {
	e := newFakeEngine(t)
	e.set(func() { e.sources, e.metrics["vllm:prompt_tokens_total"] = "{}", 5000 })
	o := watch(t, e, nil)
	o.until("earlier blocks", func(s endpoint.State) bool { return s.Ready && s.EarlierBlocks })
	e.set(func() {
		e.metrics["process_start_time_seconds"] = 2000
		e.metrics["vllm:prompt_tokens_total"] = 0
	})
	o.until("none", func(s endpoint.State) bool { return !s.EarlierBlocks })

	e = newFakeEngine(t)
	e.set(func() { e.sources = "{}" })
	fresh := watch(t, e, nil)
	fresh.until("a scrape", func(s endpoint.State) bool { return s.Ready && s.CacheBlocks == 100 })
	if fresh.get(0).EarlierBlocks {
		t.Error("an engine that has computed nothing")
	}
}

// TestWatcher_earlierBlocksEnd: what ends the state.
func TestWatcher_earlierBlocksEnd(t *testing.T) {
	w := &Watcher{assumed: &clears{}} // which holds 7 blocks
	lost := FeedStats{Earlier: true, StoredAtLoss: 10, StoredBlocks: 14}
	for _, c := range []struct {
		name      string
		mode      endpoint.EventMode
		inherited bool
		feed      FeedStats
		capacity  uint32
		want      bool
	}{
		{"events, all known", endpoint.EventsLive, true, FeedStats{StoredBlocks: 4}, 5, false},
		{"events, lost", endpoint.EventsLive, false, lost, 5, true},
		{"events, lost, stored anew", endpoint.EventsLive, false, lost, 4, false},
		{"events, lost, capacity not known", endpoint.EventsLive, false, lost, 0, true},
		{"predicted, fresh engine", endpoint.EventsPredicted, false, lost, 8, false},
		{"predicted, used engine", endpoint.EventsPredicted, true, FeedStats{}, 8, true},
		{"predicted, sent anew", endpoint.EventsPredicted, true, FeedStats{}, 7, false},
		{"predicted, capacity not known", endpoint.EventsPredicted, true, FeedStats{}, 0, true},
	} {
		w.inherited = c.inherited
		if got := w.earlierBlocks(c.mode, &c.feed, c.capacity); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
