package backend

import (
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/kvevents"
)

// silentHits detects an event stream that is connected but sends nothing, by answers
// that report cached tokens which no event has told of. Unlike [quiet] it needs no
// figures of the engine and no long prompts. A prompt that is cached whole causes no
// event, but its blocks are then in the index, from earlier ones.
type silentHits struct {
	answers atomic.Uint32 // such answers since the last message
	since   atomic.Int64  // time of the first, Unix nanoseconds

	// The rest belongs to the goroutine in Run.
	messages uint64 // of the stream, at the last check
	silent   bool
}

// silentAnswers is how many answers prove it, over at least quietTime: events of an
// answer may come after it, and another endpoint's events are never taken for these.
const silentAnswers = 3

// take counts an answer at now.
func (h *silentHits) take(now time.Time) {
	if h.answers.Add(1) == 1 {
		h.since.Store(now.UnixNano())
	}
}

// check compares the answers with the messages of the stream and returns whether it is
// silent, and whether that is new.
func (h *silentHits) check(st *kvevents.Stats, now time.Time) (silent, begins bool) {
	if !st.Connected || st.Messages != h.messages {
		h.reset(st.Messages)
		return false, false
	}
	if !h.silent && h.answers.Load() >= silentAnswers && now.UnixNano()-h.since.Load() >= int64(quietTime) {
		h.silent, begins = true, true
	}
	return h.silent, begins
}

// reset forgets the answers: messages have come, or the engine is another process.
func (h *silentHits) reset(messages uint64) {
	h.answers.Store(0)
	h.messages, h.silent = messages, false
}

// observeHit takes the cached tokens that an answer reported, where predicted were
// expected.
func (w *Watcher) observeHit(predicted, reported int, now time.Time) {
	block := w.trust.blockTokens()
	if reported >= block && (reported >= predicted+block || w.indexEmpty()) {
		w.silentHits.take(now)
	}
}

// indexEmpty reports whether the index is known to hold nothing of the endpoint.
// Predictions of requests in flight are not in it.
func (w *Watcher) indexEmpty() bool {
	c, ok := w.index.(Counting)
	if !ok {
		return false
	}
	for t := range tiers {
		if c.Held(holder(w.id, t)) > 0 {
			return false
		}
	}
	return true
}
