//go:build engine

package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestVLLM runs the router before two real engines. The parts share the fleet,
// which takes most of the time to start, and follow each other.
func TestVLLM(t *testing.T) {
	f := startFleet(t)
	cs := chats(66, 4)
	t.Run("isolation is seen", f.isolation)
	t.Run("tokens are the engine's", f.parity)
	t.Run("predicted is reported", func(t *testing.T) { f.predicted(t, cs) })
	t.Run("completions", f.completions)
	t.Run("responses and messages are rendered alike", f.render)
	t.Run("responses and messages", f.apis)
	t.Run("responses continue", f.continues)
	t.Run("restart keeps conversations", func(t *testing.T) { f.restart(t, cs) })
	t.Run("tenants share nothing", f.tenants)
	t.Run("leaving aborts", f.abort)
	t.Run("errors are clear", f.errors)
	t.Run("beside llama.cpp", f.mixed)
}

// isolation waits until the probe has seen that both engines keep salts apart.
func (f *fleet) isolation(t *testing.T) {
	harness.Await(t, 60*time.Second, "isolation of all engines", func() bool {
		_, b := harness.GetBody(f.router.Admin+"/v1/endpoints", f.router.Token)
		return bytes.Count(b, []byte(`"isolation":"verified"`)) == len(f.engines)
	})
	_, b := harness.GetBody(f.router.Admin+"/metrics", f.router.Token)
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "kvasir_endpoint_isolation_probe") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// turn sends the next turn of a conversation and returns its explanation.
func (f *fleet) turn(t *testing.T, c *chat, n int) (*harness.Explanation, int, error) {
	a, err := harness.Post(f.router.URL+"/v1/chat/completions", f.acme, c.body(n))
	if err != nil {
		return nil, 0, err
	}
	if a.Status != 200 {
		return nil, 0, fmt.Errorf("status %d: %s", a.Status, a.Body)
	}
	got, err := a.Completion()
	if err != nil {
		return nil, 0, err
	}
	c.answer(got.Choices[0].Message.Content)
	cached, ok := got.Usage.Cached()
	if !ok {
		return nil, 0, fmt.Errorf("the engine reported no cached tokens: %s", a.Body)
	}
	e := harness.Explain(t, f.router.Admin, f.router.Token, a.RequestID)
	if e.Tokens != got.Usage.PromptTokens {
		return e, cached, fmt.Errorf("router counted %d tokens, engine %d", e.Tokens, got.Usage.PromptTokens)
	}
	c.engine = e.Chosen
	return e, cached, nil
}

// each runs fn for every conversation, four at a time.
func each(t *testing.T, cs []*chat, fn func(c *chat)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 4)
	for _, c := range cs {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			fn(c)
		}()
	}
	wg.Wait()
}

func (f *fleet) predicted(t *testing.T, cs []*chat) {
	var mu sync.Mutex
	var all, equal, moved, warm int
	each(t, cs, func(c *chat) {
		for n := range c.turns {
			before := c.engine
			e, cached, err := f.turn(t, c, n)
			mu.Lock()
			if err != nil {
				t.Errorf("%s turn %d: %v", c.name, n, err)
				mu.Unlock()
				return
			}
			all++
			if e.Predicted == cached {
				equal++
			} else {
				t.Logf("%s turn %d on %s: predicted %d, reported %d", c.name, n, e.Chosen, e.Predicted, cached)
			}
			if cached > 0 {
				warm++
			}
			if before != "" && before != e.Chosen {
				moved++
			}
			mu.Unlock()
		}
	})
	t.Logf("%d requests: %d predicted exactly, %d warm, %d moved to another engine", all, equal, warm, moved)
	if equal*100 < all*99 {
		t.Errorf("predicted = reported for %d of %d requests, want 99 %%", equal, all)
	}
	if warm*2 < all {
		t.Errorf("only %d of %d requests found a prefix", warm, all)
	}
}

// completions checks text prompts and token ids.
func (f *fleet) completions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	all, equal := 0, 0
	for i := range 10 {
		var prompt any = text(r, 150)
		if i%2 == 1 {
			ids := make([]int, 200+r.IntN(100))
			for j := range ids {
				ids[j] = 100 + r.IntN(100_000)
			}
			prompt = ids
		}
		for range 2 {
			a, err := harness.Post(f.router.URL+"/v1/completions", f.acme, map[string]any{"model": "tiny", "prompt": prompt,
				"max_tokens": 4, "temperature": 0})
			if err != nil || a.Status != 200 {
				t.Fatalf("%v %+v", err, a)
			}
			got, err := a.Completion()
			if err != nil {
				t.Fatal(err)
			}
			cached, _ := got.Usage.Cached()
			e := harness.Explain(t, f.router.Admin, f.router.Token, a.RequestID)
			all++
			if e.Predicted == cached && e.Tokens == got.Usage.PromptTokens {
				equal++
			} else {
				t.Logf("prompt %d: predicted %d of %d tokens, reported %d of %d", i, e.Predicted, e.Tokens, cached,
					got.Usage.PromptTokens)
			}
		}
	}
	if equal*100 < all*99 {
		t.Errorf("predicted = reported for %d of %d completions", equal, all)
	}
}

// restart kills the router with SIGKILL; after the start the index is whole
// again from the engines' replay.
func (f *fleet) restart(t *testing.T, cs []*chat) {
	f.router.Restart(t)
	f.live(t)
	var mu sync.Mutex
	back, equal := 0, 0
	each(t, cs, func(c *chat) {
		before := c.engine
		e, cached, err := f.turn(t, c, c.turns)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			return
		}
		if e.Chosen == before {
			back++
		} else {
			t.Logf("%s: was on %s, now on %s", c.name, before, e.Chosen)
		}
		if e.Predicted == cached {
			equal++
		}
	})
	t.Logf("%d of %d conversations back on their engine, %d predicted exactly", back, len(cs), equal)
	if back != len(cs) {
		t.Errorf("%d of %d conversations went back to their engine", back, len(cs))
	}
	if equal*100 < len(cs)*99 {
		t.Errorf("predicted = reported for %d of %d requests after the restart", equal, len(cs))
	}
}

// tenants sends one prompt for two tenants to one engine, through a router of its
// own that is killed and started again between them: the second tenant finds
// nothing there, in any API.
func (f *fleet) tenants(t *testing.T) {
	f.router.Kill() // vLLM's publisher connects to its one subscriber, which listens
	r := f.serve(t, f.engines[:1])
	defer func() {
		r.Kill()
		f.router.Restart(t)
		f.live(t)
	}()
	ask := func(key string, a *harness.API) (*harness.Explanation, *harness.Reply) {
		t.Helper()
		system := a.Name + text(rand.New(rand.NewPCG(9, 9)), 300)
		res, err := harness.Post(r.URL+a.Path, key, a.Body("tiny", system, []string{"go"}, 2, false))
		if err != nil || res.Status != 200 {
			t.Fatalf("%s: %v %+v", a.Name, err, res)
		}
		reply, err := a.Reply(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return harness.Explain(t, r.Admin, r.Token, res.RequestID), reply
	}
	for i := range harness.APIs {
		a := &harness.APIs[i]
		ask(f.acme, a)
		if e, reply := ask(f.acme, a); reply.Cached == 0 || e.Predicted != reply.Cached {
			t.Fatalf("%s: acme's own prompt again: predicted %d, reported %d", a.Name, e.Predicted, reply.Cached)
		}
	}
	r.Restart(t)
	r.EventsLive(t, 1, 60*time.Second)
	for i := range harness.APIs {
		a := &harness.APIs[i]
		e, reply := ask(f.acme, a)
		if reply.Cached == 0 || e.Predicted != reply.Cached {
			t.Fatalf("%s: acme's own prompt after the restart: predicted %d, reported %d", a.Name, e.Predicted, reply.Cached)
		}
		e, reply = ask(f.globex, a)
		if e.Predicted != 0 || reply.Cached != 0 {
			t.Errorf("%s: globex on acme's prompt: predicted %d, reported %d, want 0 and 0", a.Name, e.Predicted, reply.Cached)
		}
		for _, c := range e.Candidates {
			for tier, n := range c.Matched {
				if n != 0 {
					t.Errorf("%s: globex on acme's prompt: %d tokens matched on %s, %s", a.Name, n, c.Endpoint, tier)
				}
			}
		}
	}
}

// abort leaves a stream of 6,000 tokens at its first bytes: the engine stops
// computing it. vLLM 0.32 counts no abort for a client that left (its abort
// counter stays 0 without a router, too), so what it computes is looked at.
func (f *fleet) abort(t *testing.T) {
	sum := func(name string) float64 {
		n := 0.0
		for _, e := range f.engines {
			n += metric(t, e.URL, name, "")
		}
		return n
	}
	const tokens = 6000
	before := sum("vllm:generation_tokens_total")
	body, err := json.Marshal(map[string]any{"model": "tiny", "stream": true, "max_tokens": tokens, "ignore_eos": true,
		"messages": []any{map[string]any{"role": "user", "content": "count"}}})
	if err != nil {
		t.Fatal(err)
	}
	left := time.Now()
	leave(t, f.router.URL+"/v1/chat/completions", f.acme, body)
	harness.Await(t, 3*time.Second, "the engine is idle",
		func() bool { return sum("vllm:num_requests_running") == 0 })
	took := time.Since(left)
	made := sum("vllm:generation_tokens_total") - before
	t.Logf("the engine was idle %v after the request, having made %.0f of %d tokens", took, made, tokens)
	if made > tokens/2 {
		t.Errorf("the engine made %.0f tokens for a client that had left", made)
	}
}

func (f *fleet) errors(t *testing.T) {
	long := strings.Repeat("word ", 12_000)
	for _, tc := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"unknown model", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`, 404, "nope"},
		{"too long", `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"` + long + `"}]}`, 400, "8192"},
		{"bad JSON", `{"model":"tiny","messages":[`, 400, ""},
		{"the engine's own refusal", `{"model":"tiny","messages":[{"role":"user","content":"x"}],"temperature":-3}`, 400,
			"temperature"},
	} {
		a, err := harness.Post(f.router.URL+"/v1/chat/completions", f.acme, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Error struct{ Message, Type string } `json:"error"`
		}
		if err := json.Unmarshal(a.Body, &e); err != nil || a.Status != tc.status || e.Error.Message == "" ||
			!strings.Contains(e.Error.Message, tc.want) {
			t.Errorf("%s: status %d, body %.300s, want %d with an error that names %q", tc.name, a.Status, a.Body, tc.status,
				tc.want)
		}
	}
}
