package backend

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// fakeEngine is an engine's HTTP side. Its fields are what it answers.
type fakeEngine struct {
	*httptest.Server
	mu       sync.Mutex
	healthy  int    // status of /health
	sources  string // body of /kv_event_sources, "" = 404
	metrics  map[string]float64
	models   string
	version  string
	auth     string // Authorization seen last
	block    int
	noScrape bool
	lora     string // adapters that requests run with
	cache    cache
}

func newFakeEngine(t *testing.T) *fakeEngine {
	e := &fakeEngine{healthy: 200, version: "0.32.0", block: 2,
		models: `{"data":[{"id":"m","max_model_len":8192,"parent":null},{"id":"ad","parent":"m"}]}`,
		metrics: map[string]float64{"process_start_time_seconds": 1000, "vllm:num_requests_running": 3,
			"vllm:num_requests_waiting": 1,
			"vllm:kv_cache_usage_perc":  0.5, "vllm:prompt_tokens_total": 0, "vllm:request_success_total": 0,
			"vllm:prefix_cache_queries_total": 0, "vllm:prefix_cache_hits_total": 0}}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.auth = r.Header.Get("Authorization")
	switch r.URL.Path {
	case "/health":
		w.WriteHeader(e.healthy)
	case "/v1/models":
		fmt.Fprint(w, e.models)
	case "/version":
		fmt.Fprintf(w, `{"version":%q}`, e.version)
	case "/kv_event_sources":
		if e.sources == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, e.sources)
	case "/metrics":
		if e.noScrape {
			w.WriteHeader(500)
			return
		}
		for k, v := range e.metrics {
			fmt.Fprintln(w, k, v)
		}
		if e.lora != "" {
			fmt.Fprintf(w, "vllm:lora_requests_info{running_lora_adapters=%q} 1\n", e.lora)
		}
		fmt.Fprintf(w, "vllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"100\"} 1\n", e.block)
	case "/v1/completions":
		e.completions(w, r)
	default:
		http.NotFound(w, r)
	}
}

// set changes the engine under its lock.
func (e *fakeEngine) set(f func()) { e.mu.Lock(); f(); e.mu.Unlock() }

func (e *fakeEngine) publishes(p *fakepub.Publisher) {
	e.set(func() {
		e.sources = fmt.Sprintf(`{"0":{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":%q,"replay_endpoint":%q}}`,
			strings.Replace(p.Endpoint(), "127.0.0.1", "*", 1), p.Replay())
	})
}

// board is an Endpoints that keeps the state of each endpoint and signals changes.
type board struct {
	mu      sync.Mutex
	states  map[endpoint.ID]endpoint.State
	lost    int // times that an endpoint was ready and then not
	changed chan struct{}
}

func newBoard() *board {
	return &board{states: map[endpoint.ID]endpoint.State{}, changed: make(chan struct{}, 1)}
}

func (b *board) Update(id endpoint.ID, f func(*endpoint.State)) bool {
	b.mu.Lock()
	s := b.states[id]
	was := s.Ready
	f(&s)
	if was && !s.Ready {
		b.lost++
	}
	b.states[id] = s
	b.mu.Unlock()
	select {
	case b.changed <- struct{}{}:
	default:
	}
	return true
}

// losses returns how often an endpoint stopped being ready.
func (b *board) losses() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost
}

func (b *board) get(id endpoint.ID) endpoint.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[id]
}

// watched is a watcher that runs, and all around it.
type watched struct {
	*board
	t   *testing.T
	e   *fakeEngine
	w   *Watcher
	x   *mapIndex
	cls *clears
}

// clears counts calls of Clear.
type clears struct {
	mu    sync.Mutex
	n     int
	sized [][2]int // holder, blocks of each call of SetCapacity
}

func (c *clears) Clear(int)    { c.mu.Lock(); c.n++; c.mu.Unlock() }
func (c *clears) Held(int) int { return 7 }
func (c *clears) SetCapacity(holder, blocks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sized = append(c.sized, [2]int{holder, blocks})
}

// capacity returns what SetCapacity was called with, holder and blocks: once.
func (c *clears) capacity() [2]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sized) != 1 {
		return [2]int{-1, len(c.sized)}
	}
	return c.sized[0]
}

func (c *clears) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.n }

func watch(t *testing.T, e *fakeEngine, adjust func(*Config)) *watched {
	t.Helper()
	cfg := Config{URL: e.URL, CacheIdentity: identity, Interval: 5 * time.Millisecond, Rediscover: 50 * time.Millisecond,
		JoinWait: 10 * time.Second, Bearer: "token"}
	if adjust != nil {
		adjust(&cfg)
	}
	o := &watched{board: newBoard(), t: t, e: e, x: newMapIndex(), cls: &clears{}}
	var err error
	if o.w, err = NewWatcher(cfg, o.x, o.cls, o.board); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != context.Canceled {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run does not end")
		}
		if s := o.get(0); s.Ready || s.Reason == "" || len(o.x.own(0, 0)) != 0 {
			t.Errorf("after Run: %+v, %d blocks held", s, len(o.x.own(0, 0)))
		}
	})
	return o
}

// until waits for a state.
func (o *watched) until(what string, ok func(s endpoint.State) bool) endpoint.State {
	o.t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		if s := o.get(0); ok(s) {
			return s
		}
		select {
		case <-o.changed:
		case <-timeout:
			o.t.Fatalf("timed out waiting for %s: %+v, %+v", what, o.get(0), o.w.Status())
		}
	}
}

func live(s endpoint.State) bool  { return s.Ready && s.Events == endpoint.EventsLive }
func ready(s endpoint.State) bool { return s.Ready }

func publisher(t *testing.T) *fakepub.Publisher {
	t.Helper()
	p, err := fakepub.New(fakepub.Config{Topic: "kv"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestWatcher_state(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	e.publishes(p)
	p.Publish(fakepub.Batch(1, stored(nil, "s", "", []uint32{1, 2, 3, 4}, 10, 11).Map()))
	o := watch(t, e, nil)
	s := o.until("ready with history", ready)
	if len(o.x.own(0, 0)) != 2 || s.Events != endpoint.EventsLive {
		t.Errorf("ready before its history was replayed: %+v, %d blocks", s, len(o.x.own(0, 0)))
	}
	s = o.until("figures", func(s endpoint.State) bool { return s.Running == 3 })
	if s.Reason != "" || s.Waiting != 1 || s.KVUsage != 0.5 || s.BlockTokens != 2 || s.CacheBlocks != 100 ||
		s.MaxModelLen != 8192 ||
		fmt.Sprint(s.Models, s.Adapters) != "[m] [ad]" || s.ScrapedAt.IsZero() || s.Sleeping || s.Trust != ceilLive {
		t.Errorf("%+v", s)
	}
	begun := time.Now()
	p.Publish(fakepub.Batch(2, stored(uint64(11), "", "", []uint32{5, 6}, 12).Map()))
	o.until("the third block", func(endpoint.State) bool { return len(o.x.own(0, 0)) == 3 })
	e.set(func() { e.lora = "ad,other" })
	s = o.until("figures of cache and way", func(s endpoint.State) bool {
		return s.CachedTokens == 6 &&
			len(s.Loaded) == 2
	})
	if s.RTTMS <= 0 || s.RTTMS > 2000 || s.EventAt.Before(begun.Add(-time.Second)) || s.EvictRate != 0 ||
		s.Loaded[0] != "ad" {
		t.Errorf("%+v", s)
	}
	if o.cls.capacity() != [2]int{0, 100} {
		t.Errorf("capacity of the model %v, want the engine's 100 blocks", o.cls.capacity())
	}
	for range 3 {
		o.w.ObserveCached(6, 6)
	}
	o.until("verified trust", func(s endpoint.State) bool { return s.Trust == 1 })
	st := o.w.Status()
	if c := st.Capabilities; c.Version != "0.32.0" || st.Publisher != p.Endpoint() ||
		st.EventsReason != "" || st.Feed.StoredBlocks != 3 || st.Trust.Reports != 3 || st.Stream.LastSeq != 1 {
		t.Errorf("%+v", st)
	}
	e.set(func() {
		if e.auth != "Bearer token" {
			t.Errorf("engine was shown %q", e.auth)
		}
	})
	p.Publish(fakepub.Batch(3, fakepub.Removed("GPU", 12)))
	o.until("the rate of evictions", func(s endpoint.State) bool { return s.EvictRate > 0 && s.CachedTokens == 4 })
}

func TestWatcher_health(t *testing.T) {
	e := newFakeEngine(t)
	e.set(func() { e.healthy = 503 })
	o := watch(t, e, func(c *Config) { c.Events.Mode = EventsOff })
	o.until("not ready", func(s endpoint.State) bool { return !s.Ready && s.Reason == "health check answered 503" })
	e.set(func() { e.healthy = 200 })
	o.until("ready", ready)
	e.set(func() { e.healthy = 500 })
	o.until("not ready again", func(s endpoint.State) bool { return !s.Ready })
	e.set(func() { e.healthy = 200 })
	o.until("ready again", ready)
	e.Close()
	o.until("gone", func(s endpoint.State) bool { return !s.Ready && s.Reason == "connection refused" })
}

func TestHealth_hysteresis(t *testing.T) {
	h := health{fail: 3, rise: 2}
	slow := context.DeadlineExceeded
	step := func(err error, want bool) {
		t.Helper()
		if h.take(err); h.up != want {
			t.Errorf("%v: up %v, %+v", err, h.up, h)
		}
	}
	step(nil, true) // the first suffices
	step(slow, true)
	step(slow, true)
	step(nil, true)
	step(slow, true)
	step(slow, true)
	step(slow, false)
	step(nil, false)
	step(slow, false)
	step(nil, false)
	step(nil, true)
	step(dialect.StatusError(503), true) // counts twice
	step(slow, false)
}

func TestWatcher_engineRestarts(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	e.publishes(p)
	p.Publish(fakepub.Batch(1, stored(nil, "", "", []uint32{1, 2}, 10).Map()))
	o := watch(t, e, nil)
	o.until("live", live)
	e.set(func() { e.metrics["vllm:prompt_tokens_total"] = 50 })
	o.until("a scrape", func(endpoint.State) bool { return o.w.Status().Metrics.PromptTokens == 50 })
	clears := o.cls.count()
	// The publisher's connection outlives the engine here, so only the metrics show it.
	p.Recount()
	p.Publish(fakepub.Batch(100, stored(nil, "", "", []uint32{3, 4}, 20).Map()))
	e.set(func() {
		e.metrics["process_start_time_seconds"] = 2000
		e.metrics["vllm:prompt_tokens_total"] = 5
	})
	o.until("the second life", func(endpoint.State) bool {
		return o.w.Status().Restarts == 1 && fmt.Sprint(o.x.own(0, 0)) == fmt.Sprint(set(chain("", "", 2, 3, 4)))
	})
	if o.cls.count() == clears {
		t.Error("the predicted cache was not cleared")
	}
}

func TestWatcher_sleep(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	e.publishes(p)
	p.Publish(fakepub.Batch(1, stored(nil, "", "", []uint32{1, 2}, 10).Map()))
	o := watch(t, e, nil)
	o.until("live", live)
	e.set(func() { e.metrics[`vllm:engine_sleep_state{sleep_state="discard_all"}`] = 1 })
	o.until("sleep, nothing held", func(s endpoint.State) bool { return s.Sleeping && len(o.x.own(0, 0)) == 0 })
	e.set(func() { e.metrics[`vllm:engine_sleep_state{sleep_state="discard_all"}`] = 0 })
	p.Publish(fakepub.Batch(2, fakepub.Cleared(), stored(nil, "", "", []uint32{3, 4}, 11).Map()))
	o.until("awake, with what came since", func(s endpoint.State) bool { return !s.Sleeping && len(o.x.own(0, 0)) == 1 })
}

func TestWatcher_withoutEvents(t *testing.T) {
	cases := []struct {
		name, sources, want string
		adjust              func(*Config)
	}{
		{"engine has none", `{}`, "engine publishes no cache events", nil},
		{"required", `[]`, "engine publishes no cache events although they are required",
			func(c *Config) { c.Events.Mode = EventsOn }},
		{"of no use", `{"0":{"endpoint":"ipc:///tmp/x"}}`, `dialect: event address "ipc:///tmp/x" is not tcp://`, nil},
		{"other rank", `{"1":{"endpoint":"tcp://*:9"}}`, "engine publishes no cache events for rank 0", nil},
		{"switched off", `{"0":{"endpoint":"tcp://*:9"}}`, "", func(c *Config) { c.Events.Mode = EventsOff }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(t)
			e.set(func() { e.sources = c.sources })
			o := watch(t, e, c.adjust)
			s := o.until("ready", ready)
			if s.Events != endpoint.EventsPredicted || s.Trust != ceilPredicted {
				t.Errorf("%+v", s)
			}
			o.until("the reason", func(endpoint.State) bool { return o.w.Status().EventsReason == c.want })
		})
	}
}

// An engine that cannot report its sockets is tried on the base port, and taken
// without events when nothing is there.
func TestWatcher_basePort(t *testing.T) {
	e := newFakeEngine(t)
	o := watch(t, e, func(c *Config) { c.Events.Port, c.Rank, c.JoinWait = 1, 1, 30*time.Millisecond })
	s := o.until("ready", ready)
	if s.Events != endpoint.EventsPredicted {
		t.Errorf("%+v", s)
	}
	st := o.w.Status()
	if st.Publisher != "tcp://127.0.0.1:2" || st.EventsReason != "cache events: no connection to the publisher" {
		t.Errorf("%q, %q", st.Publisher, st.EventsReason)
	}
}

func TestWatcher_configuredAddress(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	o := watch(t, e, func(c *Config) { c.Events.Publisher, c.Events.Replay = p.Endpoint(), p.Replay() })
	o.until("live", live)
}

func TestWatcher_deadStream(t *testing.T) {
	e := newFakeEngine(t)
	p, err := fakepub.New(fakepub.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	e.publishes(p)
	p.Publish(fakepub.Batch(1, stored(nil, "", "", []uint32{1, 2}, 10).Map()))
	o := watch(t, e, func(c *Config) { c.DeadAfter = 200 * time.Millisecond })
	o.until("live", live)
	p.Close()
	o.until("connection lost, still used", func(s endpoint.State) bool {
		return s.Events == endpoint.EventsLive && o.w.Status().EventsReason == "cache events: connection lost"
	})
	s := o.until("prediction", func(s endpoint.State) bool {
		return s.Events == endpoint.EventsPredicted && len(o.x.own(0,
			0)) == 0
	})
	if !s.Ready {
		t.Errorf("an engine without events still serves: %+v", s)
	}
}

func TestWatcher_silentStream(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	e.publishes(p)
	o := watch(t, e, nil)
	o.until("live", live)
	var q quiet
	now := time.Unix(1e6, 0)
	st := o.w.Status().Stream
	m := dialect.Metrics{HasCache: true}
	q.take(&m, &st, 16, now)
	m.CacheQueries, m.Requests = 5000, 1000 // short prompts fill no block
	if q.take(&m, &st, 16, now.Add(time.Hour)); q.silent {
		t.Error("short prompts count")
	}
	m.CacheQueries = 1e6
	if q.take(&m, &st, 16, now.Add(time.Second)); q.silent {
		t.Error("silent at once")
	}
	if q.take(&m, &st, 16, now.Add(time.Hour)); !q.silent {
		t.Error("not silent")
	}
	st.Messages++
	if q.take(&m, &st, 16, now.Add(time.Hour)); q.silent {
		t.Error("still silent after a message")
	}
	st.Connected = false
	m.CacheQueries = 1e9
	q.take(&m, &st, 16, now.Add(2*time.Hour))
	if q.take(&m, &st, 16, now.Add(9*time.Hour)); q.silent {
		t.Error("a stream that is down is not silent")
	}
}

func TestWatcher_blockSizeMismatch(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	e.publishes(p)
	e.set(func() { e.block = 16 })
	p.Publish(fakepub.Batch(1, stored(nil, "", "", []uint32{1, 2}, 10).Map()))
	o := watch(t, e, func(c *Config) { c.BlockTokens = 32 })
	o.until("events' size, ready", func(s endpoint.State) bool {
		return s.Ready && s.BlockTokens == 2 &&
			s.CacheBlocks == 800
	})
	o.until("the reason", func(endpoint.State) bool {
		return o.w.Status().BlockReason == "events have blocks of 2 tokens, 16 were expected"
	})
}

func TestWatcher_openAI(t *testing.T) {
	e := newFakeEngine(t)
	e.set(func() { e.models = `{"data":[{"id":"x","meta":{"n_ctx":4096}},{"id":""}]}` })
	o := watch(t, e, func(c *Config) { c.Dialect = dialect.Of("openai") })
	s := o.until("ready", ready)
	if s.MaxModelLen != 4096 || s.Models != nil || s.Events != endpoint.EventsPredicted || !s.ScrapedAt.IsZero() {
		t.Errorf("%+v", s)
	}
	if c := o.w.Status().Capabilities; s.NoSalt != uint16(llmapi.Prompts) {
		t.Errorf("%+v", c)
	}
}

func TestWatcher_brokenAnswers(t *testing.T) {
	e := newFakeEngine(t)
	e.set(func() { e.models, e.noScrape = `{"data":`, true })
	o := watch(t, e, func(c *Config) { c.JoinWait = time.Nanosecond })
	o.until("a reason", func(s endpoint.State) bool { return !s.Ready && s.Reason == "its models are not known yet" })
	idle := &Watcher{cfg: Config{Interval: time.Second, JoinWait: time.Second}.withDefaults(),
		healthy: time.Now().Add(-time.Hour)}
	if idle.next() < time.Second/2 {
		t.Error("an endpoint that is not ready is looked at without pause")
	}
	e.set(func() { e.models = `{"data":[{"id":"m"}]}`; e.sources = `{}` })
	o.until("ready", ready)
	o.until("failed scrapes", func(endpoint.State) bool { return o.w.Status().ScrapeFails > 0 })
}

func TestConfig_Validate(t *testing.T) {
	for _, c := range []Config{{}, {URL: "ftp://x"}, {URL: "http://x", Events: Events{Mode: "maybe"}}, {URL: "http://x",
		FailAfter: -1}} {
		if _, err := NewWatcher(c, newMapIndex(), nil, newBoard()); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
	if _, ok := dialect.ByName("nothing"); ok {
		t.Error("unknown dialect accepted")
	}
}
