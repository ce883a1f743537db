package backend

import (
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// takeEarlier decides at the first scrape whether the engine has computed prompts before
// the router watched it. Goroutine of Run.
func (w *Watcher) takeEarlier(m *dialect.Metrics) {
	w.inherited = m.Requests > 0 || m.PromptTokens > 0
}

// earlierBlocks reports whether the engine may hold blocks that this router has not seen:
// from before the router started, or of events that were lost. Answers then report more
// cached tokens than the index predicts, which is no fault of the index.
//
// With events it is so from lost messages until the engine's cache was cleared, or events
// have stored as many blocks as it holds. Without, from the start beside an engine that
// has computed prompts until as many blocks were sent there. Goroutine of Run.
func (w *Watcher) earlierBlocks(mode endpoint.EventMode, feed *FeedStats, capacity uint32) bool {
	if mode == endpoint.EventsLive {
		return feed.Earlier && (capacity == 0 || feed.StoredBlocks-feed.StoredAtLoss < uint64(capacity))
	}
	return w.inherited && (w.assumed == nil || capacity == 0 || w.assumed.Held(holder(w.cfg.ID, 0)) < int(capacity))
}

// ObserveCached takes the outcome of a request: tokens predicted and tokens
// reported as cached.
func (w *Watcher) ObserveCached(predicted, reported int) {
	now := time.Now()
	if reported > predicted && w.earlier.Load() {
		w.trust.ObserveEarlier(predicted, reported)
		return
	}
	w.trust.Observe(predicted, reported, now)
	w.observeHit(predicted, reported, now)
}
