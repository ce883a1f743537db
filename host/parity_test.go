package host

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/kvindex"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

// demoDir writes the demo tokenizer's files and returns their directory.
func demoDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, demo.Files()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// world is a scheduler with all its state and a manual clock.
type world struct {
	store     *endpoint.Store
	predictor *kvindex.Predictor
	state     *scheduler.State
	rules     *scheduler.Scheduler
	clock     time.Time
	open      []*scheduler.Placement
	first     map[*scheduler.Placement]bool // placements whose first token has arrived
}

func newWorld(t testing.TB, n int, model *rules.Prompts, p scheduler.Profile) *world {
	t.Helper()
	w := &world{store: endpoint.NewStore(),
		predictor: kvindex.NewPredictor(kvindex.Config{Holders: 4096, BudgetBytes: 64 << 20}), clock: time.UnixMilli(1e12),
		first: map[*scheduler.Placement]bool{}}
	for i := range n {
		addr := fmt.Sprintf("10.0.0.%d:8000", i)
		id, err := w.store.Add(endpoint.Info{URL: "http://" + addr, Addr: addr, Pool: "main", Dialect: "vllm"})
		if err != nil {
			t.Fatal(err)
		}
		w.ready(int(id), true)
	}
	w.state = scheduler.NewState(scheduler.StateConfig{Store: w.store, Seed: 5, Now: func() time.Time { return w.clock },
		Locality: scheduler.Locality{Predictor: w.predictor, Holders: 4096,
			HolderOf: func(id endpoint.ID, tier int) int { return kvindex.HolderOf(int(id), tier) }}})
	engine, err := policy.NewStatic(policy.StaticConfig{Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	w.rules, err = scheduler.New(scheduler.Config{State: w.state, Policy: engine, Profiles: []scheduler.Profile{p},
		Models: []scheduler.Model{{Name: "m", Pools: []scheduler.PoolRef{{Pool: "main"}}, Prompter: model.Chat()}},
		Pools:  []scheduler.Pool{{Name: "main", MaxInflight: 12}}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) ready(i int, yes bool) {
	w.store.Update(endpoint.ID(i), func(s *endpoint.State) {
		s.Reason = fmt.Sprint(w.clock) // no figure: the change is visible at once
		s.Ready, s.Trust, s.BlockTokens, s.Events, s.ScrapedAt = yes, 1, 16, endpoint.EventsLive, w.clock
	})
	w.store.Flush()
}

// step is one event, generated once and applied to every world.
type step struct {
	what, which int
	body        []byte
	id          string
	pass        time.Duration
}

// draw generates a step: mostly the next turn of one of twenty conversations, half of
// which share a system prompt.
func draw(t testing.TB, rng *rand.Rand, n int, turns []int) step {
	s := step{what: rng.IntN(10), which: rng.IntN(1 << 20), pass: time.Duration(rng.IntN(40)) * time.Millisecond}
	if s.what > 4 {
		return s
	}
	c := rng.IntN(len(turns))
	turns[c]++
	system := "You are careful. "
	if c%2 == 0 {
		system = fmt.Sprint("You are number ", c, ". ")
	}
	msgs := []map[string]string{{"role": "system", "content": repeat(system, 60)}}
	for i := range turns[c] {
		msgs = append(msgs, map[string]string{"role": "user", "content": repeat(fmt.Sprint(c, " asks ", i, ". "), 30+c)},
			map[string]string{"role": "assistant", "content": fmt.Sprint("yes ", i)})
	}
	turns[c] %= 8
	b, err := json.Marshal(map[string]any{"model": "m", "messages": msgs[:len(msgs)-1], "max_tokens": 20 + c,
		"user": fmt.Sprint("user-", c)})
	if err != nil {
		t.Fatal(err)
	}
	s.body, s.id = b, fmt.Sprint("r-", rng.Uint64())
	return s
}

func repeat(s string, n int) string {
	out := make([]byte, 0, n*len(s))
	for range n {
		out = append(out, s...)
	}
	return string(out)
}

// do applies a step and returns a description of its result.
func (w *world) do(t testing.TB, s *step, n int) any {
	t.Helper()
	w.clock = w.clock.Add(s.pass)
	switch {
	case s.body != nil:
		var api llmapi.Request
		if err := api.Scan(llmapi.OpChat, s.body); err != nil {
			t.Fatal(err)
		}
		p, err := w.rules.Schedule(&scheduler.Request{API: &api,
			Principal: &identity.Principal{Tenant: fmt.Sprint("t", len(s.body)%3)}, ID: s.id})
		if err != nil {
			return err.Error()
		}
		w.open = append(w.open, p)
		e, _ := w.state.Explain(fmt.Sprint("t", len(s.body)%3), s.id)
		scores := make([]scheduler.Score, len(e.Candidates))
		for i := range e.Candidates {
			scores[i].Score = e.Candidates[i].Scores["leastwork"].Score
			e.Candidates[i].Scores = nil
		}
		return []any{e.Order, e.Kind, e.Arm, e.Candidates, scores, p.PredictedCached()}
	case s.what == 9 && s.which%2 == 0:
		w.ready(s.which/2%n, s.which%7 != 0)
	case s.what == 9:
		w.predictor.Rotate()
		w.state.Refresh()
	case len(w.open) > 0:
		return w.advance(s)
	}
	return nil
}

// advance applies an event to a request in progress.
func (w *world) advance(s *step) any {
	i := s.which % len(w.open)
	p := w.open[i]
	if s.what == 5 && !w.first[p] {
		return p.Next()
	}
	p.FirstToken()
	w.first[p] = true
	if s.what >= 6 {
		delete(w.first, p)
		p.Done(exchange.Outcome{Status: []int{200, 200, 200, 500}[s.which%4], HasUsage: true, OutputTokens: s.which % 90,
			End: exchange.EndComplete})
		w.open = slices.Delete(w.open, i, i+1)
	}
	return nil
}

// TestParity_leastwork checks that over random histories the scheduler places with the
// shipped plugin exactly as with the native cost: the same order, kind, state and total
// of every candidate, bit for bit.
func TestParity_leastwork(t *testing.T) {
	testdeps.Sequential(t)
	model, err := rules.OpenPrompts(&config.Tokenizer{Dir: demoDir(t), TimeZone: "UTC", Library: "bpe"}, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	for seed, n := range []int{2, 5, 16, 64} {
		objective := []string{"blend", "ttft", "throughput", "blend"}[seed]
		rules := func(s scheduler.Scorer) scheduler.Profile {
			return scheduler.Profile{Name: "default", Objective: scheduler.Objective(objective), Holdout: 0.02,
				Scorers: []scheduler.Weighted{{Scorer: s, Weight: 1}}}
		}
		var shipped scheduler.Profile
		planned(t, &config.Config{Profiles: []config.Profile{{Objective: objective, Picker: config.Builtin,
			Scorers: []config.Scorer{{Plugin: "leastwork", Weight: 1}}}}}, endpoint.NewStore()).Extend(0, &shipped)
		guest := newWorld(t, n, model, rules(shipped.Scorers[0].Scorer))
		native := newWorld(t, n, model, rules(scheduler.NewLeastWork(scheduler.Objective(objective))))
		rng, turns, placed := rand.New(rand.NewPCG(uint64(seed), 9)), make([]int, 20), 0
		for i := range 1000 {
			s := draw(t, rng, n, turns)
			got, want := guest.do(t, &s, n), native.do(t, &s, n)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%d endpoints, step %d (%d):\n%v\nby the plugin, natively\n%v", n, i, s.what, got, want)
			}
			if _, ok := got.([]any); ok {
				placed++
			}
		}
		kinds := guest.state.Stats().Decisions
		t.Logf("%d endpoints, %s: %d placed, %v", n, objective, placed, kinds)
		if placed < 200 || kinds["warm"] < 50 || kinds["cold"] == 0 || guest.state.Stats().Faults != 0 {
			t.Errorf("%d endpoints: %d placed, %v, %d faults: the history covers too little", n, placed, kinds,
				guest.state.Stats().Faults)
		}
	}
}
