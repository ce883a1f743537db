//go:build engine

package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// talk is a conversation in the responses or the messages API.
type talk struct {
	api     *harness.API
	base    map[string]any
	history []any
	user    func() any
}

// talks makes n conversations of an API: plain ones, with tools and a finished
// call in the history, of several parts, with reasoning.
func talks(api *harness.API, n int) []*talk {
	var out []*talk
	system := text(rand.New(rand.NewPCG(4, 4)), 200)
	for i := range n {
		r := rand.New(rand.NewPCG(uint64(i), 99))
		c := &talk{api: api, base: map[string]any{"model": "tiny", "temperature": 0}}
		c.user = func() any { return text(r, 40) }
		if api.Name == "responses" {
			c.base["instructions"], c.base["max_output_tokens"] = system, 12
			c.responsesKind(i, r)
		} else {
			c.base["system"], c.base["max_tokens"] = system, 12
			c.messagesKind(i, r)
		}
		out = append(out, c)
	}
	return out
}

func (c *talk) add(items ...map[string]any) {
	for _, x := range items {
		c.history = append(c.history, x)
	}
}

func (c *talk) responsesKind(i int, r *rand.Rand) {
	user := map[string]any{"role": "user", "content": text(r, 20)}
	call := map[string]any{"type": "function_call", "call_id": "call_1", "name": "tool_0",
		"arguments": `{"query": "naïve 😀", "limit": 3}`}
	switch i % 5 {
	case 1:
		c.base["tools"] = flatTools(r, "parameters")
		c.add(user, map[string]any{"type": "reasoning", "summary": []any{},
			"content": []any{map[string]any{"type": "reasoning_text", "text": text(r, 20)}}},
			call, map[string]any{"type": "function_call_output", "call_id": "call_1", "output": text(r, 40)})
	case 2:
		c.user = func() any {
			return []any{map[string]any{"type": "input_text", "text": text(r, 30)}, map[string]any{"type": "input_text",
				"text": text(r, 9)}}
		}
	case 3:
		c.base["reasoning"] = map[string]any{"effort": "none"}
		c.add(user, map[string]any{"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": text(r, 30), "annotations": []any{}}}})
	case 4:
		delete(c.base, "instructions")
		c.add(map[string]any{"role": "developer", "content": text(r, 30)})
	}
}

func (c *talk) messagesKind(i int, r *rand.Rand) {
	user := map[string]any{"role": "user", "content": text(r, 20)}
	switch i % 5 {
	case 1:
		c.base["tools"] = flatTools(r, "input_schema")
		c.add(user, map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "thinking",
			"thinking": text(r, 20), "signature": "s"},
			map[string]any{"type": "text", "text": text(r, 9)}, map[string]any{"type": "tool_use", "id": "toolu_1",
				"name": "tool_0", "input": map[string]any{"query": "naïve 😀", "limit": 3}}}},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": "toolu_1",
				"content": []any{map[string]any{"type": "text", "text": text(r, 40)}}}}},
			map[string]any{"role": "assistant", "content": text(r, 9)})
	case 2:
		c.base["system"] = []any{map[string]any{"type": "text",
			"text": "x-anthropic-billing-header: cch=" + fmt.Sprint(r.Uint32())},
			map[string]any{"type": "text", "text": text(r, 100), "cache_control": map[string]any{"type": "ephemeral"}}}
		c.user = func() any {
			return []any{map[string]any{"type": "text", "text": text(r, 30)}, map[string]any{"type": "text", "text": text(r, 9)}}
		}
	case 3:
		c.base["thinking"] = map[string]any{"type": "disabled"}
	case 4:
		c.add(user, map[string]any{"role": "assistant", "content": text(r, 30)}, map[string]any{"role": "system",
			"content": text(r, 20)})
	}
}

func flatTools(r *rand.Rand, schema string) []any {
	var out []any
	for i := range 3 {
		out = append(out, map[string]any{"type": "function", "name": fmt.Sprintf("tool_%d", i), "description": text(r, 12),
			schema: map[string]any{"properties": map[string]any{"query": map[string]any{"type": "string"},
				"limit": map[string]any{"type": "integer"}}, "required": []string{"query"}}})
		if schema == "input_schema" {
			delete(out[i].(map[string]any), "type")
		}
	}
	return out
}

// body is the request of the next turn.
func (c *talk) body() map[string]any {
	c.add(map[string]any{"role": "user", "content": c.user()})
	b := maps.Clone(c.base)
	b[map[string]string{"responses": "input", "messages": "messages"}[c.api.Name]] = slices.Clone(c.history)
	return b
}

// apis keeps conversations of the responses and the messages API up: the router
// counts the tokens the engine counts and predicts what the engine reports, also
// where it streams.
func (f *fleet) apis(t *testing.T) {
	for i := range harness.APIs {
		a := &harness.APIs[i]
		if a.Name != "responses" && a.Name != "messages" {
			continue
		}
		all, equal, warm := 0, 0, 0
		for n, c := range talks(a, 15) {
			for turn := range 4 {
				body := c.body()
				res, err := harness.Post(f.router.URL+a.Path, f.acme, body)
				if err != nil || res.Status != 200 {
					t.Fatalf("%s %d turn %d: %v %s", a.Name, n, turn, err, res.Body)
				}
				reply, err := a.Reply(res.Body)
				if err != nil {
					t.Fatal(err)
				}
				e := harness.Explain(t, f.router.Admin, f.router.Token, res.RequestID)
				if e.Tokens != reply.Prompt {
					t.Errorf("%s %d turn %d: router counted %d tokens, engine %d", a.Name, n, turn, e.Tokens, reply.Prompt)
				}
				all++
				if e.Predicted == reply.Cached {
					equal++
				} else {
					t.Logf("%s %d turn %d: predicted %d, reported %d of %d", a.Name, n, turn, e.Predicted, reply.Cached, reply.Prompt)
				}
				if reply.Cached > 0 {
					warm++
				}
				if turn == 3 {
					f.streams(t, a, body, reply)
				}
				c.add(map[string]any{"role": "assistant", "content": "An answer. " + reply.Text})
			}
		}
		t.Logf("%s: %d requests, %d predicted exactly, %d warm", a.Name, all, equal, warm)
		if equal*100 < all*99 || warm*2 < all {
			t.Errorf("%s: predicted = reported for %d of %d requests, %d warm", a.Name, equal, all, warm)
		}
	}
}

// streams sends a request again as a stream, and counts its tokens.
func (f *fleet) streams(t *testing.T, a *harness.API, body map[string]any, whole *harness.Reply) {
	body["stream"] = true
	res, err := harness.Post(f.router.URL+a.Path, f.acme, body)
	if err != nil || res.Status != 200 || !strings.Contains(string(res.Body), a.Ends) {
		t.Fatalf("%s: %v %s", a.Name, err, res.Body)
	}
	e := harness.Explain(t, f.router.Admin, f.router.Token, res.RequestID)
	if e.Reported == nil || *e.Reported != e.Predicted || e.Predicted < whole.Cached {
		t.Errorf("%s streamed: predicted %d, reported %v", a.Name, e.Predicted, e.Reported)
	}
	if a.Name != "messages" {
		return
	}
	for _, k := range []string{"stream", "max_tokens", "temperature"} {
		delete(body, k)
	}
	res, err = harness.Post(f.router.URL+a.Path+"/count_tokens", f.acme, body)
	if err != nil || res.Status != 200 {
		t.Fatalf("count_tokens: %v %s", err, res.Body)
	}
	var count struct {
		Tokens int `json:"input_tokens"`
	}
	if err := json.Unmarshal(res.Body, &count); err != nil || count.Tokens != whole.Prompt {
		t.Errorf("count_tokens: %s, want %d", res.Body, whole.Prompt)
	}
}

// continues continues answers that the engines keep: each at its engine, and only for
// the tenant that got it. Conversations begin until both engines have some: where earlier
// tests left one behind, it is given the first ones.
func (f *fleet) continues(t *testing.T) {
	const path = "/v1/responses"
	ask := func(key, previous, input string) (*harness.Answer, string) {
		t.Helper()
		body := map[string]any{"model": "tiny", "input": input, "max_output_tokens": 4, "temperature": 0}
		if previous != "" {
			body["previous_response_id"] = previous
		}
		a, err := harness.Post(f.router.URL+path, key, body)
		if err != nil {
			t.Error(err)
			return &harness.Answer{}, ""
		}
		var r struct{ ID string }
		if err := json.Unmarshal(a.Body, &r); err != nil {
			t.Errorf("%v: %s", err, a.Body)
		}
		return a, r.ID
	}
	var mu sync.Mutex
	used := map[string]bool{}
	converse := func(in string) {
		a, id := ask(f.acme, "", in)
		first := harness.Explain(t, f.router.Admin, f.router.Token, a.RequestID)
		mu.Lock()
		used[first.Chosen] = true
		mu.Unlock()
		for range 2 {
			if a, _ := ask(f.globex, id, "and?"); a.Status != 404 || !strings.Contains(string(a.Body), "response_not_found") {
				t.Errorf("globex goes on with acme's answer: %d %s", a.Status, a.Body)
			}
			if a, id = ask(f.acme, id, "and?"); a.Status != 200 {
				t.Errorf("acme's own: %d %s", a.Status, a.Body)
				return
			}
			if e := harness.Explain(t, f.router.Admin, f.router.Token, a.RequestID); e.Chosen != first.Chosen {
				t.Errorf("an answer of %s is continued on %s", first.Chosen, e.Chosen)
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for round := 0; round < 16 && len(used) < len(f.engines); round++ {
		var wg sync.WaitGroup
		for range 8 {
			in := text(r, 400)
			wg.Go(func() { converse(in) })
		}
		wg.Wait()
	}
	if len(used) != len(f.engines) {
		t.Errorf("only %v were used", used)
	}
}
