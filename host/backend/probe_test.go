package backend

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// cache is the part of a fakeEngine that serves completions out of a prefix
// cache, block by block.
type cache struct {
	held       map[string]bool // by salt and tokens
	back       map[string]bool // by tokens: a tier without salts, which has what the GPU evicted
	ignoreSalt bool
	off        bool
	silent     bool // the answer does not report cached tokens
	others     int  // further tokens that the counters show per request
	fail       int  // status, 0 = 200
	asked      int
	bodies     []string
}

// completions answers POST /v1/completions. The engine's lock is held.
func (e *fakeEngine) completions(w http.ResponseWriter, r *http.Request) {
	c := &e.cache
	b, _ := io.ReadAll(r.Body)
	c.asked++
	c.bodies = append(c.bodies, string(b))
	if c.fail != 0 {
		w.WriteHeader(c.fail)
		return
	}
	var q struct {
		Model     string `json:"model"`
		Prompt    []int  `json:"prompt"`
		MaxTokens int    `json:"max_tokens"`
		Salt      string `json:"cache_salt"`
	}
	if err := json.Unmarshal(b, &q); err != nil || q.Model != "m" || q.MaxTokens != 1 || q.Salt == "" {
		w.WriteHeader(400)
		return
	}
	if c.ignoreSalt {
		q.Salt = ""
	}
	if c.held == nil {
		c.held = map[string]bool{}
	}
	found := 0
	for n := e.block; n < len(q.Prompt); n += e.block {
		key := q.Salt + fmt.Sprint(q.Prompt[:n])
		if (c.held[key] || c.back[fmt.Sprint(q.Prompt[:n])]) && found == n-e.block && !c.off {
			found = n
		}
		c.held[key] = true
	}
	e.metrics["vllm:prefix_cache_queries_total"] += float64(len(q.Prompt) + c.others)
	e.metrics["vllm:prefix_cache_hits_total"] += float64(found)
	if c.silent {
		fmt.Fprint(w, `{"usage":{"prompt_tokens":7,"prompt_tokens_details":null}}`)
		return
	}
	fmt.Fprintf(w, `{"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":%d}}}`, found)
}

// watchQuiet watches an engine without events, which is ready at once.
func watchQuiet(t *testing.T, e *fakeEngine, adjust func(*Config)) *watched {
	t.Helper()
	return watch(t, e, func(cfg *Config) {
		cfg.Events.Mode = EventsOff
		adjust(cfg)
	})
}

// TestProbe: what an engine does with salts ends in its label, and one that
// mixes them gets no salted requests.
func TestProbe(t *testing.T) {
	for _, c := range []struct {
		name   string
		cache  cache
		mod    func(*fakeEngine)
		adjust func(*Config)
		want   string
		asked  bool
		noSalt bool
	}{
		{name: "honours salts", want: endpoint.IsolationVerified, asked: true},
		{name: "ignores salts", cache: cache{ignoreSalt: true}, want: endpoint.IsolationNone, asked: true, noSalt: true},
		{name: "honours, by its counters", cache: cache{silent: true}, want: endpoint.IsolationVerified, asked: true},
		{name: "ignores, by its counters", cache: cache{silent: true, ignoreSalt: true}, want: endpoint.IsolationNone,
			asked: true, noSalt: true},
		{name: "old release", mod: func(e *fakeEngine) { e.version = "0.9.1" }, want: endpoint.IsolationNone, noSalt: true},
		{name: "no salts in the dialect", adjust: func(c *Config) { c.Dialect = dialect.Of("openai") },
			want: endpoint.IsolationNone, noSalt: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newFakeEngine(t)
			e.metrics["vllm:num_requests_waiting"] = 0
			e.cache = c.cache
			if c.mod != nil {
				c.mod(e)
			}
			o := watchQuiet(t, e, func(cfg *Config) {
				cfg.Probe.Every = time.Hour
				if c.adjust != nil {
					c.adjust(cfg)
				}
			})
			s := o.until("a result", func(s endpoint.State) bool { return s.Ready && s.Isolation == c.want })
			if got := llmapi.Operations(s.NoSalt).Has(llmapi.OpChat); got != c.noSalt {
				t.Errorf("salts are ignored: got %v, want %v", got, c.noSalt)
			}
			asked := 0
			if c.asked {
				asked = 3
			}
			e.set(func() {
				if e.cache.asked != asked {
					t.Errorf("sent %d requests, want %d", e.cache.asked, asked)
				}
			})
			if st := o.w.Status().Probe; st.Fault != "" || st.At.IsZero() || st.Isolation != c.want {
				t.Errorf("status: %+v", st)
			}
		})
	}
}

// TestProbe_withoutResult: such probes leave the label and are made again later.
func TestProbe_withoutResult(t *testing.T) {
	for name, c := range map[string]cache{
		"cache off":                 {off: true},
		"cache off, by counters":    {off: true, silent: true},
		"others' requests":          {silent: true, others: 5},
		"refused":                   {fail: 500},
		"completions are not there": {fail: 404},
	} {
		t.Run(name, func(t *testing.T) {
			e := newFakeEngine(t)
			e.metrics["vllm:num_requests_waiting"] = 0
			e.cache = c
			o := watchQuiet(t, e, func(cfg *Config) { cfg.Probe.Every = 20 * time.Millisecond })
			o.until("faults", func(endpoint.State) bool { return o.w.Status().Probe.Faults >= 2 })
			if s := o.get(0); s.Isolation != endpoint.IsolationUnverified || s.NoSalt != 0 || !s.Ready {
				t.Errorf("got %+v, want unverified and ready", s)
			}
			if f := o.w.Status().Probe.Fault; f == "" || strings.Contains(f, "salt\":") {
				t.Errorf("fault %q", f)
			}
			e.set(func() { e.cache = cache{} })
			o.until("a result", func(s endpoint.State) bool { return s.Isolation == endpoint.IsolationVerified })
		})
	}
}

// TestProbe_notWhileBusy: an engine with a queue, or one that this router says
// is not idle, is left alone.
func TestProbe_notWhileBusy(t *testing.T) {
	if busy(&dialect.Metrics{}) || !busy(&dialect.Metrics{Waiting: 1}) || !busy(&dialect.Metrics{KVUsage: 0.9}) ||
		!busy(&dialect.Metrics{Sleeping: true}) {
		t.Error("busy")
	}
	for _, waiting := range []float64{0, 1} {
		e := newFakeEngine(t)
		e.metrics["vllm:num_requests_waiting"] = waiting
		var asked atomic.Int64
		o := watchQuiet(t, e, func(cfg *Config) {
			cfg.Probe = Probe{Every: time.Hour, Idle: func() bool { asked.Add(1); return false }}
		})
		o.until("ready", ready)
		o.until("scrapes", func(endpoint.State) bool { return o.w.Status().Scrapes > 10 })
		if st := o.w.Status().Probe; st.Probes != 0 || (asked.Load() > 0) != (waiting == 0) {
			t.Errorf("%v waiting: %+v, idle asked %d times", waiting, st, asked.Load())
		}
	}
}

// TestProbe_restart: what an engine has shown is of its process.
func TestProbe_restart(t *testing.T) {
	e := newFakeEngine(t)
	e.metrics["vllm:num_requests_waiting"] = 0
	o := watchQuiet(t, e, func(cfg *Config) { cfg.Probe.Every = time.Hour })
	o.until("verified", func(s endpoint.State) bool { return s.Isolation == endpoint.IsolationVerified })
	e.set(func() {
		e.metrics["process_start_time_seconds"] = 2000
		e.cache = cache{ignoreSalt: true}
	})
	o.until("none", func(s endpoint.State) bool { return s.Isolation == endpoint.IsolationNone })
}

// evict has the engine move all its blocks to the tier without salts.
func (c *cache) evict() {
	if c.back == nil {
		c.back = map[string]bool{}
	}
	for key := range c.held {
		_, tokens, _ := strings.Cut(key, "[")
		c.back["["+tokens] = true
	}
	c.held = nil
}

// TestProbe_evicted: a tier that is written when the GPU evicts a block is reached
// by the prompt of the probe before.
func TestProbe_evicted(t *testing.T) {
	e := newFakeEngine(t)
	e.metrics["vllm:num_requests_waiting"] = 0
	o := watchQuiet(t, e, func(cfg *Config) { cfg.Probe.Every = 20 * time.Millisecond })
	o.until("verified", func(s endpoint.State) bool { return s.Isolation == endpoint.IsolationVerified })
	e.set(func() { e.cache.evict() })
	o.until("none", func(s endpoint.State) bool { return s.Isolation == endpoint.IsolationNone })
	if st := o.w.Status().Probe; !strings.Contains(st.Reason, "of an earlier probe") {
		t.Errorf("reason %q", st.Reason)
	}
}

// TestProbe_length: the prompt is longer than the chunks of cache tiers, unless the
// engine's context or cache is smaller.
func TestProbe_length(t *testing.T) {
	for _, c := range []struct{ block, maxLen, cache, want int }{
		{16, 0, 0, 2049}, {16, 32768, 1 << 20, 2049}, {528, 0, 0, 1585}, {1056, 0, 0, 3169},
		{16, 1024, 0, 1023}, {16, 0, 8192, 1025}, {16, 0, 64, 49}, {16, 40, 64, 39},
	} {
		if got := probeLength(c.block, c.maxLen, c.cache); got != c.want {
			t.Errorf("%+v: %d tokens", c, got)
		}
	}
}

// TestRevoke: an answer outweighs probes until the engine restarts or an operator
// readmits it; LogOnly counts and no more.
func TestRevoke(t *testing.T) {
	e := newFakeEngine(t)
	e.metrics["vllm:num_requests_waiting"] = 0
	var reasons []string
	o := watchQuiet(t, e, func(cfg *Config) {
		cfg.Probe.Every = 20 * time.Millisecond
		cfg.Revoked = func(reason string) { reasons = append(reasons, reason) }
	})
	verified := func(s endpoint.State) bool { return s.Isolation == endpoint.IsolationVerified && s.NoSalt == 0 }
	o.until("verified", verified)
	for _, restore := range []func(){
		func() { e.set(func() { e.metrics["process_start_time_seconds"] = 2000 }) },
		o.w.Readmit,
	} {
		o.w.Revoke(512)
		if s := o.get(0); s.Isolation != endpoint.IsolationNone || llmapi.Operations(s.NoSalt) != llmapi.Prompts {
			t.Errorf("when Revoke returned: %+v", s)
		}
		o.w.Revoke(512)
		probes := o.w.Status().Probe.Probes
		o.until("further probes", func(endpoint.State) bool { return o.w.Status().Probe.Probes > probes+2 })
		if st := o.w.Status().Probe; o.get(0).Isolation != endpoint.IsolationNone || !strings.Contains(st.Reason, "512") {
			t.Errorf("after further probes: %+v", st)
		}
		restore()
		o.until("verified again", verified)
	}
	if st := o.w.Status().Probe; len(reasons) != 2 || st.Revocations != 2 || st.Unexplained != 4 || st.Reason != "" {
		t.Errorf("reported %q, status %+v", reasons, st)
	}
	quiet := watchQuiet(t, newFakeEngine(t), func(cfg *Config) { cfg.Probe.LogOnly = true })
	quiet.until("ready", ready)
	quiet.w.Revoke(512)
	if st := quiet.w.Status().Probe; st.Unexplained != 1 || st.Revocations != 0 || quiet.get(0).NoSalt != 0 {
		t.Errorf("log only: %+v", st)
	}
}

// TestProbe_off: an endpoint whose probes are off receives none.
func TestProbe_off(t *testing.T) {
	e := newFakeEngine(t)
	e.metrics["vllm:num_requests_waiting"] = 0
	o := watchQuiet(t, e, func(*Config) {})
	o.until("ready", ready)
	o.until("scrapes", func(endpoint.State) bool { return o.w.Status().Scrapes > 10 })
	if st := o.w.Status().Probe; st.Probes != 0 || o.get(0).Isolation != endpoint.IsolationUnverified {
		t.Errorf("got %+v", st)
	}
}
