package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/kvevents/fakepub"
)

// reconfigure changes the watcher's configuration as adjust does.
func (o *watched) reconfigure(adjust func(*Config)) {
	o.t.Helper()
	o.w.mu.Lock()
	cfg := o.w.cfg
	o.w.mu.Unlock()
	adjust(&cfg)
	if err := o.w.Reconfigure(cfg); err != nil {
		o.t.Fatal(err)
	}
}

func (o *watched) auth() (s string) {
	o.e.set(func() { s = o.e.auth })
	return s
}

// TestReconfigure_index: what gives blocks other names empties the index of the
// endpoint, which the engine's history fills again; nothing else does. The endpoint
// is ready all the time.
func TestReconfigure_index(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	p.Publish(fakepub.Batch(1, stored(nil, "s", "", []uint32{1, 2, 3, 4}, 10, 11).Map()))
	o := watch(t, e, func(c *Config) { c.Events = Events{Publisher: p.Endpoint(), Replay: p.Replay()} })
	o.until("ready with history", func(s endpoint.State) bool { return live(s) && len(o.x.own(0, 0)) == 2 })
	names := o.x.own(0, 0)
	resets := func() uint64 { return o.w.Status().Feed.Resets }
	for name, adjust := range map[string]func(*Config){
		"bearer":       func(c *Config) { c.Bearer += "x" },
		"probe period": func(c *Config) { c.Probe.Every += time.Hour },
		"unused port":  func(c *Config) { c.Events.Port = 1 },
	} {
		before, checks := resets(), o.w.Status().Checks
		o.reconfigure(adjust)
		o.until(name, func(endpoint.State) bool { return o.w.Status().Checks > checks+2 })
		if got := o.x.own(0, 0); !maps.Equal(got, names) || resets() != before {
			t.Errorf("%s: holds %v, want %v; %d resets", name, got, names, resets()-before)
		}
	}
	for _, adjust := range []func(*Config){
		func(c *Config) { c.CacheIdentity = "another tokenizer" },
		func(c *Config) { c.Dialect = dialect.Of("sglang") }, // knows little of this engine, and keeps it in service
		func(c *Config) { c.Dialect = dialect.Of("vllm") },
		func(c *Config) { c.BlockTokens = 4 },
	} {
		before := resets()
		o.reconfigure(adjust)
		o.until("history anew", func(endpoint.State) bool { return resets() > before && len(o.x.own(0, 0)) == 2 })
	}
	for name := range o.x.own(0, 0) {
		if names[name] {
			t.Errorf("block %x has the name of another cache identity", name)
		}
	}
	if n := o.losses(); n != 0 {
		t.Errorf("%d times not ready", n)
	}
}

// TestReconfigure_events: other event sockets are followed, or none, and the endpoint
// is ready all the time.
func TestReconfigure_events(t *testing.T) {
	e, p, q := newFakeEngine(t), publisher(t), publisher(t)
	p.Publish(fakepub.Batch(1, stored(nil, "s", "", []uint32{1, 2, 3, 4}, 10, 11).Map()))
	q.Publish(fakepub.Batch(1, stored(nil, "s", "", []uint32{1, 2}, 20).Map()))
	o := watch(t, e, func(c *Config) { c.Events = Events{Publisher: p.Endpoint(), Replay: p.Replay()} })
	holds := func(n int) func(endpoint.State) bool {
		return func(endpoint.State) bool { return len(o.x.own(0, 0)) == n }
	}
	o.until("the first publisher", func(s endpoint.State) bool { return live(s) && holds(2)(s) })
	o.reconfigure(func(c *Config) { c.Events = Events{Publisher: q.Endpoint(), Replay: q.Replay()} })
	o.until("the second publisher", func(s endpoint.State) bool { return live(s) && holds(1)(s) })
	o.reconfigure(func(c *Config) { c.Events = Events{Mode: EventsOff} })
	o.until("no events", func(s endpoint.State) bool { return s.Events == endpoint.EventsPredicted && holds(0)(s) })
	o.reconfigure(func(c *Config) { c.Events = Events{Publisher: p.Endpoint(), Replay: p.Replay()} })
	o.until("the first publisher again", func(s endpoint.State) bool { return live(s) && holds(2)(s) })
	if n := o.losses(); n != 0 {
		t.Errorf("%d times not ready", n)
	}
}

// TestReconfigure_watch: the engine is shown another token, and a probe that is
// switched off leaves nothing known of its isolation.
func TestReconfigure_watch(t *testing.T) {
	e := newFakeEngine(t)
	e.metrics["vllm:num_requests_waiting"] = 0
	o := watchQuiet(t, e, func(c *Config) { c.Probe.Every = time.Hour })
	isolated := func(want string) func(endpoint.State) bool {
		return func(s endpoint.State) bool { return s.Isolation == want }
	}
	o.until("a probe", isolated(endpoint.IsolationVerified))
	if got := o.auth(); got != "Bearer token" {
		t.Errorf("the engine was shown %q", got)
	}
	o.reconfigure(func(c *Config) { c.Bearer = "other" })
	o.until("the other token", func(endpoint.State) bool { return o.auth() == "Bearer other" })
	o.reconfigure(func(c *Config) { c.Probe.Every = 0 })
	o.until("nothing known", isolated(endpoint.IsolationUnverified))
	o.reconfigure(func(c *Config) { c.Probe.Every = time.Hour })
	o.until("a probe at once", isolated(endpoint.IsolationVerified))
	o.reconfigure(func(c *Config) { c.Dialect = dialect.Of("openai") })
	o.until("a dialect without salts", func(s endpoint.State) bool {
		return s.Isolation == endpoint.IsolationNone &&
			s.NoSalt != 0
	})
	if n := o.losses(); n != 0 {
		t.Errorf("%d times not ready", n)
	}
	if err := o.w.Reconfigure(Config{URL: "nowhere"}); err == nil {
		t.Error("a faulty configuration is accepted")
	}
}

// TestReconfigure_assumedSize: the size that is assumed of an engine's cache counts
// until the engine reports its own, and not after.
func TestReconfigure_assumedSize(t *testing.T) {
	e := newFakeEngine(t)
	e.set(func() { e.noScrape = true })
	o := watch(t, e, func(c *Config) { c.Events.Mode, c.AssumedBlocks = EventsOff, 10 })
	sizes := func() []int {
		o.cls.mu.Lock()
		defer o.cls.mu.Unlock()
		var out []int
		for _, s := range o.cls.sized {
			out = append(out, s[1])
		}
		return out
	}
	until := func(want ...int) {
		t.Helper()
		o.until("sizes", func(endpoint.State) bool { return slices.Equal(sizes(), want) })
	}
	until(10)
	o.reconfigure(func(c *Config) { c.AssumedBlocks = 20 })
	until(10, 20)
	e.set(func() { e.noScrape = false })
	until(10, 20, 100)
	o.reconfigure(func(c *Config) { c.AssumedBlocks, c.Bearer = 30, "seen" })
	o.until("the other token", func(endpoint.State) bool { return o.auth() == "Bearer seen" })
	until(10, 20, 100)
}

// TestReconfigure_revoke: cached tokens that have no explanation because their blocks
// had other names before a change, or because the router has forgotten what it
// sent, take no isolation away.
func TestReconfigure_revoke(t *testing.T) {
	t.Run("renamed", func(t *testing.T) {
		unproven(t, func(*Config) {}, func(o *watched) { o.reconfigure(func(c *Config) { c.CacheIdentity += "x" }) })
	})
	t.Run("forgotten", func(t *testing.T) {
		unproven(t, func(c *Config) { c.Forgotten = true }, func(*watched) {})
	})
}

// unproven has answers with unexplained cached tokens revoke nothing of a watcher
// that was made and then changed, until its engine restarts.
func unproven(t *testing.T, made func(c *Config), change func(o *watched)) {
	e := newFakeEngine(t)
	e.metrics["vllm:num_requests_waiting"] = 0
	o := watchQuiet(t, e, func(c *Config) { c.Probe.Every = time.Hour; made(c) })
	isolated := func(want string) func(endpoint.State) bool {
		return func(s endpoint.State) bool { return s.Isolation == want }
	}
	o.until("a probe", isolated(endpoint.IsolationVerified))
	change(o)
	o.w.Revoke(100)
	o.reconfigure(func(c *Config) { c.Bearer = "seen" })
	o.until("the change", func(endpoint.State) bool { return o.auth() == "Bearer seen" })
	o.w.Revoke(100)
	if s, st := o.get(0), o.w.Status().Probe; s.Isolation != endpoint.IsolationVerified || st.Unproven != 2 ||
		st.Unexplained != 0 || st.Revocations != 0 {
		t.Errorf("%+v, %+v", s, st)
	}
	e.set(func() { e.metrics["process_start_time_seconds"] = 2000 })
	o.until("a restart", func(endpoint.State) bool { return o.w.Status().Restarts == 1 })
	o.until("a probe", isolated(endpoint.IsolationVerified))
	o.w.Revoke(100)
	if s := o.get(0); s.Isolation != endpoint.IsolationNone {
		t.Errorf("after a restart: %+v", s)
	}
}

// TestReconfigure_client: an engine whose certificate is not trusted becomes ready once
// its authority is configured.
func TestReconfigure_client(t *testing.T) {
	e := newFakeEngine(t)
	e.Close()
	e.Server = httptest.NewTLSServer(e)
	e.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail
	t.Cleanup(e.Close)
	o := watch(t, e, func(c *Config) { c.Events.Mode = EventsOff })
	o.until("a failed check", func(s endpoint.State) bool { return o.w.Status().CheckFails > 0 })
	ca := x509.NewCertPool()
	ca.AddCert(e.Certificate())
	o.reconfigure(func(c *Config) { c.Client = NewClient(&tls.Config{RootCAs: ca}) })
	o.until("ready", ready)
	o.reconfigure(func(c *Config) { c.Client, c.Bearer = nil, "seen" })
	o.until("the other token", func(endpoint.State) bool { return o.auth() == "Bearer seen" })
}

// TestReconfigure_stress: reconfigurations, outcomes and questions at once.
func TestReconfigure_stress(t *testing.T) {
	e, p := newFakeEngine(t), publisher(t)
	e.publishes(p)
	o := watch(t, e, func(c *Config) { c.Interval = time.Millisecond })
	o.until("ready", live)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(1); ctx.Err() == nil; i++ {
			p.Publish(fakepub.Batch(float64(i), stored(nil, "s", "", []uint32{uint32(i), 2}, i).Map()))
			time.Sleep(100 * time.Microsecond)
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			o.w.ObserveCached(10, 10)
			o.w.Status()
		}
	})
	changes := []func(*Config){
		func(c *Config) { c.Bearer += "x" }, func(c *Config) { c.CacheIdentity += "x" }, func(c *Config) { c.BlockTokens++ },
		func(c *Config) { c.Events.Mode = EventsOff }, func(c *Config) { c.Events.Mode = EventsAuto },
	}
	for range 20 {
		for _, adjust := range changes {
			o.reconfigure(adjust)
			time.Sleep(time.Millisecond)
		}
	}
	o.reconfigure(func(c *Config) { c.BlockTokens, c.Events.Mode = 0, EventsAuto })
	o.until("live in the end", live)
	cancel()
	wg.Wait()
	if n := o.losses(); n != 0 {
		t.Errorf("%d times not ready", n)
	}
}
