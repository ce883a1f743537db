package backend

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvevents"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// source returns the event socket of the watcher's rank: as configured, else as the
// engine reports, else by the base port if the engine cannot report it. why is the
// reason if there is none.
func (w *Watcher) source(caps *dialect.Capabilities) (src dialect.EventSource, why string) {
	e := &w.cfg.Events
	switch {
	case e.Mode == EventsOff:
		return src, ""
	case e.Listen != "":
		return dialect.EventSource{Rank: w.cfg.Rank, Replay: e.Replay, Topic: e.Topic}, ""
	case e.Publisher != "":
		return dialect.EventSource{Rank: w.cfg.Rank, Publisher: e.Publisher, Replay: e.Replay, Topic: e.Topic}, ""
	case caps.EventsFault != "":
		return src, caps.EventsFault
	case caps.EventsKnown:
		for _, s := range caps.Events {
			if s.Rank == w.cfg.Rank {
				s.Topic = e.Topic
				return s, ""
			}
		}
		if len(caps.Events) > 0 {
			return src, fmt.Sprintf("engine publishes no cache events for rank %d", w.cfg.Rank)
		}
		if e.Mode == EventsOn {
			return src, "engine publishes no cache events although they are required"
		}
		return src, "engine publishes no cache events"
	}
	at := func(port int) string {
		return "tcp://" + net.JoinHostPort(w.client.Host(), strconv.Itoa(port+w.cfg.Rank))
	}
	return dialect.EventSource{Rank: w.cfg.Rank, Publisher: at(e.Port), Replay: at(e.ReplayPort), Topic: e.Topic}, ""
}

// follow starts the event stream for the capabilities, in place of another one.
func (w *Watcher) follow(ctx context.Context, caps *dialect.Capabilities) {
	src, why := w.source(caps)
	wanted := src.Publisher != "" || w.cfg.Events.Listen != "" && w.cfg.Events.Mode != EventsOff
	if cur := w.current(); cur != nil {
		if wanted && cur.source == src {
			return
		}
		w.stop()
		w.feed.Reset("events from another address")
	}
	if wanted && src.Publisher != "" && !w.claim(src.Publisher, w.cfg.URL) {
		wanted, why = false, "event address "+src.Publisher+" is another engine's"
	}
	w.note(func(s *Status) { s.EventsReason, s.Publisher = why, src.Publisher })
	if !wanted {
		return
	}
	publisher, listen := src.Publisher, w.cfg.Events.Listen
	if src.Dials && dialsUs(ctx, src.Publisher) {
		publisher, listen = "", src.Publisher
	}
	sub, err := kvevents.New(kvevents.Config{Endpoint: publisher, Listen: listen, Replay: src.Replay, Topic: src.Topic,
		Log: w.cfg.Log})
	if err != nil {
		if src.Publisher != "" {
			w.release(src.Publisher)
		}
		w.note(func(s *Status) { s.EventsReason = err.Error() })
		return
	}
	sctx, cancel := context.WithCancel(ctx)
	s := &stream{source: src, sub: sub, cancel: cancel, done: make(chan struct{}), joined: w.feed.Stats().Joined}
	log, url := w.cfg.Log, w.cfg.URL // cfg may change while the stream runs
	go func() {
		defer close(s.done)
		if err := sub.Run(sctx, w.feed); sctx.Err() == nil {
			log.Error("cache events cannot be followed", "endpoint", url, "err", err)
		}
	}()
	w.mu.Lock()
	w.stream = s
	w.mu.Unlock()
}

// stop ends the event stream and waits for it.
func (w *Watcher) stop() {
	s := w.current()
	if s == nil {
		return
	}
	s.cancel()
	<-s.done
	if s.source.Publisher != "" {
		w.release(s.source.Publisher)
	}
	w.mu.Lock()
	w.stream = nil
	w.mu.Unlock()
}

// quiet detects an event stream that is connected but sends nothing while the
// engine computes: wrong address, a publisher that is switched off, a filter.
type quiet struct {
	messages uint64
	uncached float64
	requests float64
	since    time.Time
	begun    bool
	silent   bool
}

// quietTokens and quietTime are how much must be computed, and how long without an
// event, before a stream counts as silent; events come within a second of the step.
const (
	quietTokens = 1024
	quietTime   = 5 * time.Second
)

// take compares a scrape with the number of messages taken so far.
func (q *quiet) take(m *dialect.Metrics, st *kvevents.Stats, block int, now time.Time) {
	if !st.Connected {
		*q = quiet{}
		return
	}
	if !q.begun || st.Messages != q.messages {
		*q = quiet{messages: st.Messages, uncached: m.Uncached(), requests: m.Requests, since: now, begun: true}
		return
	}
	tokens, requests := m.Uncached()-q.uncached, max(1, m.Requests-q.requests)
	// Prompts shorter than a block fill none, however many there are.
	if block = max(block, 16); tokens >= quietTokens && tokens/requests >= float64(2*block) &&
		now.Sub(q.since) >= quietTime {
		q.silent = true
	}
}

// mode decides where the endpoint's cache contents are known from, and why not
// from its events if they are not.
func (w *Watcher) mode(s *stream, now time.Time) (endpoint.EventMode, string) {
	if s == nil {
		w.trust.down(time.Time{})
		return endpoint.EventsPredicted, w.eventsReason()
	}
	st := s.sub.Stats()
	if st.Connected {
		s.gone = false
		w.trust.down(time.Time{})
		silent, begins := w.silentHits.check(&st, now)
		if begins {
			w.cfg.Log.Warn("answers report cached tokens, and no cache events come: the cache is predicted until they do")
		}
		switch {
		case w.quiet.silent:
			return endpoint.EventsPredicted, "no cache events while requests ran"
		case silent:
			return endpoint.EventsPredicted, "no cache events while answers report cached tokens"
		case !st.Joined && w.feed.Stats().Joined == s.joined:
			return endpoint.EventsPredicted, "cache events: history is being replayed"
		}
		return endpoint.EventsLive, ""
	}
	if st.Connects == 0 {
		return endpoint.EventsPredicted, "cache events: no connection to the publisher"
	}
	down := now.Sub(st.Since)
	if down < w.cfg.DeadAfter && !s.gone {
		w.trust.down(st.Since)
		return endpoint.EventsLive, "cache events: connection lost"
	}
	if !s.gone {
		s.gone = true
		s.sub.Resync(reasonDead)
	}
	w.trust.down(time.Time{})
	return endpoint.EventsPredicted, "cache events: connection lost"
}

func (w *Watcher) eventsReason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.EventsReason
}

// publish writes what is known into the endpoint's state.
func (w *Watcher) publish(now time.Time) {
	s := w.current()
	mode, why := w.mode(s, now)
	feed := w.feed.Stats()
	w.mu.Lock()
	st := w.status
	w.mu.Unlock()
	block, blockWhy := blockSize(feed.BlockTokens, st.Metrics.BlockTokens, w.cfg.BlockTokens)
	capacity := cacheBlocks(&st.Metrics, block)
	earlier := w.earlierBlocks(mode, &feed, capacity)
	w.earlier.Store(earlier)
	w.nameBlocks(mode, earlier)
	w.trust.use(mode == endpoint.EventsLive, block)
	trust := w.trust.Value(now)
	ready, reason := w.health.up, w.health.reason
	switch {
	case ready && !st.Discovered:
		ready, reason = false, "its models are not known yet"
	case ready && !st.Ready && s != nil && !s.sub.Stats().Joined && now.Sub(w.healthy) < w.cfg.JoinWait:
		ready, reason = false, "its cache's history is being replayed"
	case !w.health.ever && reason == "":
		reason = "not checked yet"
	case ready:
		reason = ""
	}
	models, adapters := names(st.Capabilities.Models)
	if w.cfg.Dialect.AnyName {
		models = nil
	}
	m, fig := &st.Metrics, w.figures(&st, &feed, mode, s, block, now)
	w.endpoints.Update(w.cfg.ID, func(e *endpoint.State) {
		e.Ready, e.Reason, e.Sleeping = ready, reason, m.Sleeping
		e.Running, e.Waiting, e.KVUsage = uint32(min(m.Running, 1<<31)), uint32(min(m.Waiting, 1<<31)), float32(m.KVUsage)
		e.BlockTokens, e.CacheBlocks = uint32(block), capacity
		e.MaxModelLen = uint32(st.Capabilities.MaxModelLen)
		e.NoSalt, e.Isolation = uint16(llmapi.Unsalted(w.cfg.Dialect, st.Capabilities.Version)), st.Probe.Isolation
		if w.revoked.Load() { // since st was read
			e.Isolation = endpoint.IsolationNone
		}
		if e.Isolation == endpoint.IsolationNone {
			e.NoSalt |= uint16(llmapi.Prompts)
		}
		e.Trust, e.Events, e.EarlierBlocks = float32(trust), mode, earlier
		e.Models, e.Adapters = models, adapters
		e.ScrapedAt = st.ScrapedAt
		fig.write(e)
	})
	w.size(capacity)
	w.note(func(o *Status) {
		o.Ready, o.Reason, o.Mode, o.BlockReason = ready, reason, mode, blockWhy
		if s != nil {
			o.EventsReason = why
		}
	})
}

// blockSize returns the block size to index by: that of the events, else of the
// engine's configuration, else of ours; and why they differ.
func blockSize(events, engine, ours int) (block int, why string) {
	expect := engine
	if expect == 0 {
		expect = ours
	}
	switch {
	case events == 0:
		block = expect
	case expect != 0 && events != expect:
		return events, fmt.Sprintf("events have blocks of %d tokens, %d were expected", events, expect)
	default:
		block = events
	}
	if ours != 0 && engine != 0 && ours != engine {
		why = fmt.Sprintf("the engine has blocks of %d tokens, %d are configured", engine, ours)
	}
	return block, why
}

// cacheBlocks returns the engine's capacity in blocks of the size that is indexed.
func cacheBlocks(m *dialect.Metrics, block int) uint32 {
	n := m.CacheBlocks
	if m.BlockTokens > 0 && block > 0 {
		n = n * m.BlockTokens / block
	}
	return uint32(min(n, 1<<31))
}

// names splits an engine's models into base models and adapters.
func names(list []dialect.Model) (models, adapters []string) {
	for _, m := range list {
		if m.Base == "" {
			models = append(models, m.Name)
		} else {
			adapters = append(adapters, m.Name)
		}
	}
	return models, adapters
}
