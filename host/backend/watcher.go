package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvevents"
)

// Reasons with which holdings are cleared, beside those of kvevents.
const (
	reasonRestart = "engine restarted"
	reasonSleep   = "engine sleeps"
	reasonDead    = "event stream is dead"
)

// Watcher looks after one endpoint. Make it with NewWatcher, run it with Run;
// all other methods may be called concurrently.
type Watcher struct {
	id        endpoint.ID // as in cfg; it never changes, so any goroutine may read it here
	cfg       Config
	client    *dialect.Client
	index     Index
	assumed   Assumed // may be nil
	endpoints Endpoints
	trust     *Trust
	feed      *Feed
	wake      chan struct{} // something happened that must be published at once

	// claim reserves an event address for the engine at a URL, release gives it up.
	claim   func(address, url string) bool
	release func(address string)

	mu      sync.Mutex // guards status, stream and pending, and writes of cfg
	status  Status
	pending *Config // of Reconfigure; Run takes it up
	stream  *stream // nil: no event stream

	silentHits silentHits
	revoked    atomic.Bool // isolation was taken away by an answer
	// renamed reports that the engine may hold blocks that had other names, or that the
	// history lacks: an answer that reports them proves nothing.
	renamed atomic.Bool
	readmit atomic.Bool // and an operator gives it back
	earlier atomic.Bool // see earlierBlocks, as of the last publish

	// The rest belongs to the goroutine in Run.
	health  health
	prev    dialect.Metrics // last scrape
	scraped time.Time
	seen    kvevents.Stats // of the stream, at the last scrape
	quiet   quiet
	asleep  bool
	// inherited says that the engine has computed prompts before the router watched it.
	inherited bool
	trips     roundTrips
	evicts    evictions
	sized     uint32    // capacity that assumed was given, in blocks
	nextFind  time.Time // next discovery
	healthy   time.Time // since when, for JoinWait
	probes    probes
	wg        sync.WaitGroup // of a probe
}

// Status is what a watcher has found, for people and metrics.
type Status struct {
	Capabilities dialect.Capabilities
	Discovered   bool
	Ready        bool
	Reason       string // why not ready, or ""
	Mode         endpoint.EventMode
	EventsReason string // why the cache is predicted although events are wanted, or ""
	BlockReason  string // why the block size is not what was expected, or ""

	FiguresReason string // why a Parser reported no figures, or ""
	Publisher     string // event address in use
	Ranks         int    // ranks the engine publishes for
	Trust         TrustStats
	Probe         ProbeStats
	Metrics       dialect.Metrics
	ScrapedAt     time.Time
	Feed          FeedStats
	Stream        kvevents.Stats
	Checks        uint64 // health checks
	CheckFails    uint64
	Scrapes       uint64
	ScrapeFails   uint64
	ParseFails    uint64 // scrapes that a Parser could not read
	FindFails     uint64 // discoveries that failed
	Restarts      uint64 // of the engine, as its metrics show
}

// stream is a running subscriber.
type stream struct {
	source dialect.EventSource
	sub    *kvevents.Subscriber
	cancel context.CancelFunc
	done   chan struct{}
	gone   bool   // holdings were dropped because it is down
	joined uint64 // times that the feed had joined a stream before this one
}

// NewWatcher makes a watcher. assumed may be nil.
func NewWatcher(cfg Config, index Index, assumed Assumed, endpoints Endpoints) (*Watcher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	client, err := dialect.NewClient(cfg.Client, cfg.URL, cfg.Bearer)
	if err != nil {
		return nil, err
	}
	w := &Watcher{id: cfg.ID, cfg: cfg, client: client, index: index, assumed: assumed, endpoints: endpoints,
		trust: newTrust(time.Now()), wake: make(chan struct{}, 1),
		claim: func(string, string) bool { return true }, release: func(string) {}}
	w.status.Probe.Isolation = endpoint.IsolationUnverified
	w.renamed.Store(cfg.Forgotten)
	w.health = health{fail: cfg.FailAfter, rise: cfg.RiseAfter}
	w.feed = newFeed(&w.cfg, index, w.trust, w.expected, w.wakeRun)
	w.sizeAssumed()
	return w, nil
}

// wakeRun makes Run publish soon.
func (w *Watcher) wakeRun() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// expected returns the block size that the engine's configuration reports, else
// the configured one.
func (w *Watcher) expected() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.status.Metrics.BlockTokens; b != 0 {
		return b
	}
	return w.cfg.BlockTokens
}

// ObserveSilent takes the outcome of a request that did not report cached tokens.
func (w *Watcher) ObserveSilent(predicted int) { w.trust.ObserveSilent(predicted) }

// Status returns what was found.
func (w *Watcher) Status() Status {
	w.mu.Lock()
	s, st := w.status, w.stream
	w.mu.Unlock()
	s.Trust, s.Feed = w.trust.Stats(time.Now()), w.feed.Stats()
	if st != nil {
		s.Stream = st.sub.Stats()
	}
	return s
}

// Run watches until ctx ends, whose error it returns. Then the endpoint is not
// ready, nothing is held under its name, and no goroutine of the watcher is left.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.leave()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wake:
			w.takeConfig(ctx)
			w.readmitted()
			w.probe(ctx, time.Now())
			w.publish(time.Now())
		case <-timer.C:
			w.takeConfig(ctx)
			w.look(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			w.publish(time.Now())
			if w.cfg.Ejected != nil && w.health.ever && !w.health.up {
				w.cfg.Ejected()
			}
			w.probe(ctx, time.Now())
			timer.Reset(w.next())
		}
	}
}

// next returns how long to wait for the next look: an endpoint that is held back
// for its cache's history must not be held back longer than JoinWait.
func (w *Watcher) next() time.Duration {
	d := jitter(w.cfg.Interval)
	if w.health.up && w.health.bad > 0 {
		d /= 4 // a stopped engine holds its clients until FailAfter checks have failed
	}
	if left := time.Until(w.healthy.Add(w.cfg.JoinWait)); left > 0 && !w.isReady() {
		d = min(d, left+time.Millisecond)
	}
	return d
}

func (w *Watcher) isReady() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status.Ready
}

// leave takes the endpoint out of service and drops its blocks.
func (w *Watcher) leave() {
	w.wg.Wait()
	w.stop()
	w.feed.clear()
	w.clearAssumed()
	w.endpoints.Update(w.cfg.ID, func(s *endpoint.State) {
		s.Ready, s.Reason, s.Events, s.Trust = false, "not watched", endpoint.EventsOff, 0
		s.Isolation = ""
	})
	w.note(func(s *Status) { s.Ready, s.Reason, s.Mode = false, "not watched", endpoint.EventsOff })
}

func (w *Watcher) note(f func(*Status)) {
	w.mu.Lock()
	f(&w.status)
	w.mu.Unlock()
}

// look checks health, finds out what is due, and scrapes.
func (w *Watcher) look(ctx context.Context) {
	was := w.health.up
	begun := time.Now()
	err := w.get(ctx, w.healthPath(), nil)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		w.trips.take(time.Since(begun))
	}
	w.health.take(err)
	w.note(func(s *Status) {
		s.Checks++
		if err != nil {
			s.CheckFails++
		}
	})
	now := time.Now()
	if w.health.up && !was {
		w.healthy, w.nextFind = now, now
	} else if !w.health.up {
		w.healthy = time.Time{}
	}
	if !w.health.up || err != nil {
		return
	}
	if !now.Before(w.nextFind) {
		w.find(ctx)
	}
	w.scrape(ctx)
}

// get requests a path, with the watcher's timeout; body may be nil.
func (w *Watcher) get(ctx context.Context, path string, body *[]byte) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	limit := int64(dialect.MaxAnswerBytes)
	if body != nil {
		limit = dialect.MaxMetricsBytes
	}
	b, err := w.client.Get(ctx, path, limit)
	if body != nil {
		*body = b
	}
	return err
}

// find discovers the engine anew.
func (w *Watcher) find(ctx context.Context) {
	fctx, cancel := context.WithTimeout(ctx, 3*w.cfg.Timeout)
	defer cancel()
	caps, err := w.cfg.Dialect.Find(fctx, w.client)
	if err != nil {
		w.note(func(s *Status) { s.FindFails++ })
		w.cfg.Log.Debug("engine discovery", "endpoint", w.cfg.URL, "err", err)
		w.nextFind = time.Now().Add(w.cfg.Interval)
		return
	}
	w.nextFind = time.Now().Add(jitter(w.cfg.Rediscover))
	w.note(func(s *Status) {
		s.Capabilities, s.Discovered, s.Ranks = caps, true, len(caps.Events)
		s.Metrics.Complete(&caps) // an engine may have no metrics
	})
	w.follow(ctx, &caps)
}

// scrape reads the metrics and draws conclusions.
func (w *Watcher) scrape(ctx context.Context) {
	path := w.metricsPath()
	if path == "" {
		return
	}
	var body []byte
	err := w.get(ctx, path, &body)
	w.note(func(s *Status) {
		s.Scrapes++
		if err != nil {
			s.ScrapeFails++
		}
	})
	if err != nil {
		return
	}
	m, ok := w.parse(body)
	if !ok {
		return
	}
	now := time.Now()
	w.note(func(s *Status) {
		m.Complete(&s.Capabilities)
		s.Metrics, s.ScrapedAt = m, now
	})
	if w.scraped.IsZero() {
		w.takeEarlier(&m)
	} else if why := dialect.Restarted(&w.prev, &m); why != "" {
		w.restart(why)
	}
	if m.Sleeping && !w.asleep {
		w.dropBlocks(reasonSleep)
	}
	w.asleep = m.Sleeping
	if m.HasCache {
		w.trust.counters(m.CacheHits, now)
	}
	st := w.streamStats()
	w.quiet.take(&m, &st, w.block(&m), now)
	w.prev, w.scraped, w.seen = m, now, st
}

// block returns the block size that the endpoint's index uses.
func (w *Watcher) block(m *dialect.Metrics) int {
	if b := w.feed.Stats().BlockTokens; b != 0 {
		return b
	}
	if m.BlockTokens != 0 {
		return m.BlockTokens
	}
	return w.cfg.BlockTokens
}

func (w *Watcher) streamStats() kvevents.Stats {
	if s := w.current(); s != nil {
		return s.sub.Stats()
	}
	return kvevents.Stats{}
}

func (w *Watcher) current() *stream {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stream
}

// restart makes the endpoint empty because its engine is another process. If the
// event stream has found that by itself, it has done so and gone on from there.
func (w *Watcher) restart(why string) {
	w.cfg.Log.Info("engine restarted", "endpoint", w.cfg.URL, "reason", why)
	w.note(func(s *Status) { s.Restarts++ })
	w.renamed.Store(false)
	w.inherited = false
	w.nextFind = time.Time{}
	w.quiet = quiet{}
	w.silentHits.reset(w.streamStats().Messages)
	w.resetIsolation()
	w.clearAssumed()
	if st := w.streamStats(); st.ResetsRestart > w.seen.ResetsRestart {
		return
	}
	w.trust.restart(time.Now())
	if s := w.current(); s != nil {
		s.sub.Resync(reasonRestart)
	}
}

// dropBlocks makes the endpoint empty because its engine has dropped its cache.
func (w *Watcher) dropBlocks(reason string) {
	w.inherited = false
	w.clearAssumed()
	if s := w.current(); s != nil {
		s.sub.Forget(reason)
	}
}

func (w *Watcher) clearAssumed() {
	if w.assumed == nil {
		return
	}
	for t := range tiers {
		w.assumed.Clear(holder(w.cfg.ID, t))
	}
}

// health decides from checks whether an engine is up, with hysteresis.
type health struct {
	fail, rise int
	up, ever   bool
	bad, good  int
	reason     string
}

// take takes the result of one check. A refused connection and an error status count
// twice: they come from the engine, while a timeout may be the router's.
func (h *health) take(err error) {
	if err == nil {
		h.bad = 0
		if h.good++; h.good >= h.rise || !h.ever {
			h.up, h.ever, h.reason = true, true, ""
		}
		return
	}
	h.good = 0
	h.bad++
	var status dialect.StatusError
	if errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &status) {
		h.bad++
	}
	h.reason = healthReason(err)
	if h.bad >= h.fail {
		h.up = false
	}
}

// healthReason returns the text for why a check failed.
func healthReason(err error) string {
	var status dialect.StatusError
	var ne net.Error
	switch {
	case errors.As(err, &status):
		return fmt.Sprintf("health check answered %d", int(status))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &ne) && ne.Timeout():
		return "health check timed out"
	case errors.Is(err, dialect.ErrNotOffered):
		return "health check is not offered"
	}
	return "not reachable"
}
