package host

import (
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/plugins"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// decider is a policy engine that always returns the same decision.
type decider struct{ d policy.Decision }

func (d *decider) Decide(*policy.Input) (*policy.Decision, error) { return &d.d, nil }

// planned returns the plugin set for cfg.
func planned(t testing.TB, cfg *config.Config, store *endpoint.Store) *plugins.Set {
	t.Helper()
	m, err := plugins.New(plugins.Options{StateDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Endpoints: store})
	if err != nil {
		t.Fatal(err)
	}
	set, err := m.Plan(cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		set.Release()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}

// columnsWorld has three endpoints with many known values, and places with a plugin
// whose terms report every column that it receives.
type columnsWorld struct {
	t     *testing.T
	store *endpoint.Store
	index *kvindex.Index
	model *rules.Prompts
	rules *scheduler.Scheduler
	now   time.Time
}

const columnsBody = `{"model":%q,"stream":true,"max_tokens":33,"user":"u1","messages":[{"role":"user","content":%q}]}`

func newColumnsWorld(t *testing.T) *columnsWorld {
	t.Helper()
	w := &columnsWorld{t: t, store: endpoint.NewStore(),
		index: kvindex.New(kvindex.Config{Holders: 4096, BudgetBytes: 64 << 20}), now: time.Now()}
	var err error
	if w.model, err = rules.OpenPrompts(&config.Tokenizer{Dir: demoDir(t), TimeZone: "UTC", Library: "bpe"},
		64<<20); err != nil {
		t.Fatal(err)
	}
	for i, info := range []endpoint.Info{{Labels: map[string]string{"gpu": "h100"}, Price: 2.5, Spot: true},
		{Labels: map[string]string{"gpu": "l4"}}, {}} {
		info.Addr, info.Pool, info.Dialect = fmt.Sprintf("10.0.0.%d:8000", i), "main", "vllm"
		info.URL = "http://" + info.Addr
		id, err := w.store.Add(info)
		if err != nil {
			t.Fatal(err)
		}
		w.store.Update(id,
			func(s *endpoint.State) { s.Ready, s.Trust, s.BlockTokens, s.Events = true, 1, 16, endpoint.EventsLive })
	}
	none := config.Profile{Objective: "ttft", Picker: config.Builtin}
	scored := none
	scored.Scorers = []config.Scorer{{Plugin: "columns", Weight: 1}}
	cfg := &config.Config{Plugins: []config.Plugin{{Name: "columns", File: "testdata/columns.wasm"}},
		Profiles: []config.Profile{none, none, none, scored},
		Models: []config.Model{{Name: "other"}, {Name: "m", Pools: []config.ModelPool{{Name: "main", ServedAs: "m"}}},
			{Name: "lora", Pools: []config.ModelPool{{Name: "main", ServedAs: "ad"}}}}}
	// TestColumns asks again after an hour.
	profile := scheduler.Profile{Name: "default", Objective: scheduler.TTFT, SessionTTL: 2 * time.Hour}
	planned(t, cfg, w.store).Extend(3, &profile)
	d := &decider{policy.Decision{Allow: true, Salt: "s", Priority: 7,
		Prefer:   []policy.Preference{{Label: "gpu", Values: []string{"h100"}, Weight: 0.375}},
		Affinity: policy.Affinity{Weight: 0.5}}}
	w.rules, err = scheduler.New(scheduler.Config{Policy: d,
		State: scheduler.NewState(scheduler.StateConfig{Store: w.store, Seed: 5, Now: func() time.Time { return w.now },
			Locality: scheduler.Locality{Index: kvindex.Tiered{Index: w.index}, Holders: 4096, Tiers: tierWeights,
				HolderOf: func(id endpoint.ID, tier int) int { return kvindex.HolderOf(int(id), tier) }}}),
		Profiles: []scheduler.Profile{profile},
		Models: []scheduler.Model{{Name: "m", Pools: []scheduler.PoolRef{{Pool: "main"}}, Prompter: w.model.Chat()},
			{Name: "lora", Pools: []scheduler.PoolRef{{Pool: "main", ServedAs: "ad"}}, Prompter: w.model.Chat()}},
		Pools: []scheduler.Pool{{Name: "main", MaxInflight: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// ask places a request and returns the columns that the plugin received, by endpoint.
func (w *columnsWorld) ask(id, model, text string) map[int]map[string]float32 {
	w.t.Helper()
	var api llmapi.Request
	if err := api.Scan(llmapi.OpChat, []byte(fmt.Sprintf(columnsBody, model, text))); err != nil {
		w.t.Fatal(err)
	}
	p, err := w.rules.Schedule(&scheduler.Request{API: &api, Principal: &identity.Principal{Tenant: "acme"}, ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	p.Done(exchange.Outcome{End: exchange.EndRewrite})
	e, ok := w.rules.Explain("acme", id)
	if !ok || e.Plugins[0].Fault != "" {
		w.t.Fatalf("%v %+v", ok, e)
	}
	out := map[int]map[string]float32{}
	for i, c := range e.Candidates {
		if c.State == "filtered" {
			continue
		}
		if out[i] = c.Scores["columns"].Terms; len(out[i]) == 0 {
			w.t.Fatalf("the plugin reports no terms: %+v", e)
		}
		for name, v := range c.Columns { // explain reports the same values
			if seen, ok := out[i][name]; ok && seen != v && name != "endpoint_id" {
				w.t.Errorf("%s of endpoint %d: explain reports %v, the plugin received %v", name, i, v, seen)
			}
		}
	}
	return out
}

// chain returns a prompt's tokens and block hashes.
func (w *columnsWorld) chain(model, adapter, text string) (int, []uint64) {
	w.t.Helper()
	var api llmapi.Request
	if err := api.Scan(llmapi.OpChat, []byte(fmt.Sprintf(columnsBody, model, text))); err != nil {
		w.t.Fatal(err)
	}
	var p tokenizer.Prompt
	if err := w.model.Chat().Blocks(&api, &tokenizer.Query{Adapter: adapter, Salt: "s", Sizes: []int{16}},
		&p); err != nil || !p.Exact {
		w.t.Fatal(err, p.Reason)
	}
	return p.Tokens, p.Chains[0]
}

// hold adds blocks [from, to) of a chain to the index of an endpoint's tier.
func (w *columnsWorld) hold(id, tier int, chain []uint64, from, to int) {
	w.t.Helper()
	parent, has := uint64(0), from > 0
	if has {
		parent = chain[from-1]
	}
	if err := w.index.Store(kvindex.HolderOf(id, tier), parent, has, chain[from:to], chain[from:to]); err != nil {
		w.t.Fatal(err)
	}
}

// TestColumns checks that a plugin that reads a column receives the host's value, in the
// unit of the registry. For a value that the host does not know it receives the
// registry's default.
func TestColumns(t *testing.T) {
	w := newColumnsWorld(t)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 60)
	tokens, chain := w.chain("m", "", text)
	if len(chain) < 12 {
		t.Fatalf("%d blocks", len(chain))
	}
	w.hold(0, 0, chain, 0, 4)
	w.hold(0, 1, chain, 4, 6)
	w.hold(0, 2, chain, 6, 7)
	w.ask("first", "m", text) // places the session on the preferred endpoint

	w.store.Update(0, func(s *endpoint.State) {
		s.Running, s.Waiting, s.KVUsage, s.Trust = 3, 2, 0.25, 0.75
		s.CacheBlocks, s.CachedTokens, s.EvictRate, s.RTTMS = 1000, 480, 12.5, 1.5
		s.ScrapedAt, s.EventAt = w.now.Add(-700*time.Millisecond), w.now.Add(-300*time.Millisecond)
	})
	loads := w.store.Load().Loads
	for range 8 {
		loads[0].ObservePrefill(2000, time.Second)
		loads[0].ObserveDecode(11, 200*time.Millisecond)
		loads[1].ObserveDecode(11, 50*time.Millisecond)
	}
	w.store.Report(loads[0], endpoint.ResultFailed, w.now)
	w.store.Report(loads[0], endpoint.ResultOK, w.now)
	loads[0].Charge("x", 500, 900)
	for range 5 {
		loads[2].Charge("x", 1, 1) // at its cap
	}
	before := w.now
	w.now = w.now.Add(time.Hour)
	w.store.Update(0, func(s *endpoint.State) {
		s.ScrapedAt, s.EventAt = w.now.Add(-700*time.Millisecond), w.now.Add(-300*time.Millisecond)
	})
	w.store.Report(loads[0], endpoint.ResultFailed, w.now)
	loads[0].Progressed(w.now)
	got := w.ask("second", "m", text)
	if len(got) != 2 {
		t.Fatalf("%d candidates", len(got))
	}
	// Value of the match: 4 blocks in GPU memory, 2 in host memory, 1 on disk, by trust and affinity.
	worth := 16 * (4 + 2*0.8 + 0.5) * 0.75 * 0.5
	uncached := float64(tokens) - worth
	hour := float64(time.Hour / time.Millisecond)
	// The engine reports five requests, of which two wait, and 4,000 tokens of KV memory in
	// use; one request with 500 and 900 tokens is this router's, which has not begun. The
	// others count, too: the one that waits with 1,024 tokens.
	want := map[string][2]float64{
		"matched_tokens": {112, 0}, "matched_tokens_gpu": {64, 0}, "matched_tokens_cpu": {32, 0},
		"matched_tokens_disk": {16, 0},
		"matched_ratio":       {112 / float64(tokens), 0}, "uncached_tokens": {uncached, float64(tokens)},
		"outstanding_uncached_tokens": {1524, 0},
		"inflight":                    {5, 0}, "kv_active_tokens": {4000, 0}, "speed": {1, 1}, "running": {3, 0},
		"waiting": {2, 0}, "kv_usage": {0.25, 0},
		"kv_cached_tokens": {480, 0}, "kv_capacity_tokens": {16000, 0}, "kv_evict_rate": {12.5, 0},
		"est_prefill_ms": {uncached / 2, float64(tokens) / 2}, "est_queue_ms": {762, 0}, "est_itl_ms": {20, 5},
		"prefill_rate": {2000, 0}, "decode_rate": {50, 200},
		"transfer_ms": {0, 0}, "colocated": {0, 0}, "rtt_ms": {1.5, 0}, "age_ms": {700, 1e9}, "events_age_ms": {300, 1e9},
		"index_trust": {0.75, 1}, "adapter_state": {0, 0}, "draining": {0, 0}, "warm_age_ms": {hour, hour},
		"error_rate": {1. / 32, 0}, "price": {2.5, 0}, "spot": {1, 0}, "prefer_weight": {0.375, 0},
		"affinity_weight": {0.5, 0.5}, "session_match": {1, 0}, "decode_delay_tokens": {66, 0},
		"endpoint_id": {float64(abi.EndpointID(0, w.store.Load().Infos[0].Epoch) & 0xfffff),
			float64(abi.EndpointID(1, w.store.Load().Infos[1].Epoch) & 0xfffff)},
		"label/gpu=h100": {1, 0},
	}
	for _, c := range abi.Columns {
		if _, ok := want[c.Name]; !ok {
			t.Errorf("column %s is not checked", c.Name)
		}
	}
	for name, v := range want {
		for i := range v {
			tolerance := 1e-6 * max(1, math.Abs(v[i]))
			if name == "warm_age_ms" {
				tolerance = float64(time.Since(before)/time.Millisecond) + 1000 // ms since Update, by the real clock
			}
			if name == "error_rate" {
				tolerance = 1e-3
			}
			if x, ok := got[i][name]; !ok || math.Abs(float64(x)-v[i]) > tolerance {
				t.Errorf("%s of endpoint %d: got %v, want %v", name, i, x, v[i])
			}
		}
	}
	body := len(fmt.Sprintf(columnsBody, "m", text))
	for name, v := range map[string]float64{"model_id": 1, "adapter_id": 0, "operation": abi.OperationChat, "profile": 3,
		"objective":  abi.ObjectiveTTFT,
		"size_class": float64(bits.Len(uint(body - 1))), "capacity_state": 1} {
		if x := got[0]["req/"+name]; float64(x) != v {
			t.Errorf("request %s: got %v, want %v", name, x, v)
		}
	}
	if x := got[0]["req/tenant_hash"]; x == 0 || x != got[1]["req/tenant_hash"] {
		t.Errorf("request tenant_hash: got %v", x)
	}
	if got[0]["priority"] != 7 || got[0]["max_tokens"] != 33 {
		t.Errorf("got priority %v, max_tokens %v", got[0]["priority"], got[0]["max_tokens"])
	}
}

// TestColumns_adapter checks that requests for a model that the engines serve as a LoRA
// adapter go only to endpoints that can serve it and match the adapter's own blocks, and
// that plugins receive the adapter's state.
func TestColumns_adapter(t *testing.T) {
	w := newColumnsWorld(t)
	w.store.Update(0, func(s *endpoint.State) {
		s.Models, s.Adapters, s.Loaded = []string{"m"}, []string{"ad", "ad2"}, []string{"ad"}
	})
	w.store.Update(1, func(s *endpoint.State) { s.Models, s.Adapters = []string{"m"}, []string{"ad"} })
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40)
	_, chain := w.chain("lora", "ad", text)
	_, plain := w.chain("m", "", text)
	w.hold(0, 0, chain, 0, 4)
	w.hold(1, 0, plain, 0, 6)
	got := w.ask("a", "lora", text)
	for i, want := range []float32{scheduler.AdapterLoaded, scheduler.AdapterKnown, scheduler.AdapterUnknown} {
		if x := got[i]["adapter_state"]; x != want {
			t.Errorf("endpoint %d: adapter_state %v, want %v", i, x, want)
		}
	}
	if got[0]["matched_tokens"] != 64 || got[1]["matched_tokens"] != 0 {
		t.Errorf("matched %v and %v: blocks of the adapter are not those of its base", got[0]["matched_tokens"],
			got[1]["matched_tokens"])
	}
	if got[0]["req/adapter_id"] != 3 || got[0]["req/model_id"] != 2 {
		t.Errorf("adapter_id %v, model_id %v", got[0]["req/adapter_id"], got[0]["req/model_id"])
	}
	w.store.Update(1, func(s *endpoint.State) { s.Adapters = nil })
	if got := w.ask("b", "lora", text); len(got) != 2 || got[1] != nil {
		t.Errorf("an endpoint without the adapter is a candidate: %v", got)
	}
	if got := w.ask("c", "m", text); len(got) != 3 || got[0]["adapter_state"] != 0 || got[0]["req/adapter_id"] != 0 ||
		got[1]["matched_tokens"] != 96 {
		t.Errorf("base model: %v", got)
	}
}

// TestColumns_shadow checks that columns that only a shadow reads are filled while the
// shadow exists.
func TestColumns_shadow(t *testing.T) {
	code, err := os.ReadFile("testdata/columns.wasm")
	if err != nil {
		t.Fatal(err)
	}
	h, _ := startHost(t, t.TempDir(), "profiles: [{name: d, holdout: 0}]\n")
	rules := func() scheduler.ColumnSet {
		l := h.rules.Acquire()
		defer l.Release()
		var p scheduler.Profile
		l.Value().Plugins.Extend(0, &p)
		return p.Wants()
	}
	if rules() != 0 {
		t.Fatal("the profile wants columns that no plugin reads")
	}
	if _, ok := placeOne(t, h, "a").Candidates[0].Columns["price"]; ok {
		t.Error("a column that no plugin reads is filled")
	}
	if _, err := h.plugins.Shadow(t.Context(), "leastwork", code, ""); err != nil {
		t.Fatal(err)
	}
	if rules() != scheduler.AllColumns {
		t.Errorf("the shadow reads %b", rules())
	}
	if _, ok := placeOne(t, h, "b").Candidates[0].Columns["price"]; !ok {
		t.Error("a column that the shadow reads is not filled")
	}
	if _, err := h.plugins.EndShadow(t.Context(), "leastwork"); err != nil || rules() != 0 {
		t.Errorf("%v, %b after the end", err, rules())
	}
}
