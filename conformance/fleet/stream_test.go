package fleet

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

func chatBody(model, system, user string, stream bool, maxTokens int) map[string]any {
	return map[string]any{"model": model, "stream": stream, "max_tokens": maxTokens,
		"messages": []any{map[string]any{"role": "system", "content": system},
			map[string]any{"role": "user", "content": user}}}
}

// askIn sends a conversation with an API and returns the router's explanation and the
// engine's answer.
func askIn(t *testing.T, url, admin, token, key, model string, a *harness.API, system string,
	turns ...string) (*harness.Explanation, *harness.Reply) {
	t.Helper()
	res, err := harness.Post(url+a.Path, key, a.Body(model, system, turns, 8, false))
	if err != nil || res.Status != 200 {
		t.Fatalf("%s: %v %+v %s", a.Name, err, res, res.Body)
	}
	reply, err := a.Reply(res.Body)
	if err != nil {
		t.Fatalf("%s: %v", a.Name, err)
	}
	return harness.Explain(t, admin, token, res.RequestID), reply
}

// TestTenants sends one prompt of two tenants to the simulated fleet, with every API,
// and checks that neither finds the other's blocks.
func TestTenants(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	for i := range harness.APIs {
		a := &harness.APIs[i]
		system := strings.Repeat("You are a careful engineer of "+a.Name+". ", 60)
		ask := func(tenant, user string) (*harness.Explanation, int) {
			t.Helper()
			e, r := askIn(t, d.URL, d.Admin, d.AdminToken, d.Tenants[tenant], d.Model, a, system, user)
			return e, r.Cached
		}
		first, cached := ask("acme", "one")
		if cached != 0 || first.Arm == "holdout" {
			t.Fatalf("%s: a new prompt: cached %d, arm %s", a.Name, cached, first.Arm)
		}
		again, cached := ask("acme", "two")
		if cached == 0 || again.Chosen != first.Chosen || again.Predicted != cached || again.Reported == nil ||
			*again.Reported != cached {
			t.Errorf("%s: the same system prompt again: on %s then %s, predicted %d, reported %d", a.Name, first.Chosen,
				again.Chosen, again.Predicted, cached)
		}
		other, cached := ask("globex", "one")
		if cached != 0 || other.Predicted != 0 {
			t.Errorf("%s: globex on acme's prompt: predicted %d, reported %d", a.Name, other.Predicted, cached)
		}
		for _, c := range other.Candidates {
			for tier, n := range c.Matched {
				if n > 0 {
					t.Errorf("%s: globex on acme's prompt: %d tokens matched at %s, %s", a.Name, n, c.Endpoint, tier)
				}
			}
		}
		if other.Namespace == first.Namespace || first.Namespace == "" {
			t.Errorf("%s: namespaces %q and %q", a.Name, first.Namespace, other.Namespace)
		}
	}
}

// TestTenants_restart kills the router in front of one engine and starts it again. The
// tenants keep their namespaces, the engine's replay restores the whole index, and one
// tenant's prompt is uncached for the other tenant, in every API.
func TestTenants_restart(t *testing.T) {
	t.Parallel()
	es := startEngines(t, 1, "--preset", "instant")
	keys, state := t.TempDir()+"/keys.json", t.TempDir()
	acme, globex := harness.IssueKey(t, keys, state, "acme"), harness.IssueKey(t, keys, state, "globex")
	r := serveAs(t, es, state, "{api_keys_file: "+keys+"}", "{name: default, holdout: 0}")
	ask := func(key string, a *harness.API) (*harness.Explanation, *harness.Reply) {
		t.Helper()
		return askIn(t, r.URL, r.Admin, r.Token, key, es[0].Model, a,
			strings.Repeat("Keep to the facts of "+a.Name+". ", 80), "go")
	}
	for i := range harness.APIs {
		ask(acme, &harness.APIs[i])
	}
	r.Restart(t)
	live(t, r, 1)
	for i := range harness.APIs {
		a := &harness.APIs[i]
		again, reply := ask(acme, a)
		if reply.Cached == 0 || again.Predicted != reply.Cached || again.Tokens != reply.Prompt {
			t.Errorf("%s: acme after the restart: predicted %d of %d, reported %d of %d", a.Name, again.Predicted, again.Tokens,
				reply.Cached, reply.Prompt)
		}
		other, reply := ask(globex, a)
		if reply.Cached != 0 || other.Predicted != 0 || other.Chosen != again.Chosen {
			t.Errorf("%s: globex on acme's prompt after the restart: predicted %d, reported %d, on %s", a.Name, other.Predicted,
				reply.Cached, other.Chosen)
		}
	}
}

// TestTurns runs conversations with every API, turn by turn. The router predicts the
// cached tokens that the engine reports and counts the same tokens as the engine. The
// APIs share a cache: a conversation that continues with another API is found.
func TestTurns(t *testing.T) {
	t.Parallel()
	es := startEngines(t, 2, "--preset", "instant")
	r := serve(t, es, "{name: default, holdout: 0}")
	var turns []string
	for i := range harness.APIs {
		a := &harness.APIs[i]
		turns = []string{"Hello " + a.Name}
		for turn := range 5 {
			e, reply := askIn(t, r.URL, r.Admin, r.Token, "", es[0].Model, a,
				strings.Repeat("Say it in short sentences. ", 20), turns...)
			if e.Predicted != reply.Cached || e.Tokens != reply.Prompt || turn > 0 && reply.Cached == 0 {
				t.Errorf("%s turn %d: predicted %d of %d, reported %d of %d", a.Name, turn, e.Predicted, e.Tokens,
					reply.Cached, reply.Prompt)
			}
			turns = append(turns, reply.Text, "And then?")
		}
	}
	for i := range harness.APIs {
		if a := &harness.APIs[i]; a.Name != "completions" {
			e, reply := askIn(t, r.URL, r.Admin, r.Token, "", es[0].Model, a,
				strings.Repeat("Say it in short sentences. ", 20), turns...)
			if e.Predicted != reply.Cached || reply.Prompt-reply.Cached > 2*blockTokens+10 {
				t.Errorf("%s continues the conversation of messages: predicted %d, reported %d of %d", a.Name, e.Predicted,
					reply.Cached, reply.Prompt)
			}
		}
	}
}

// clientRequests counts the requests that the engines received, without the router's
// own isolation probes, which are completions of token ids.
func clientRequests(t *testing.T, es []*engine) (n int) {
	t.Helper()
	for _, e := range es {
		for _, q := range harness.SimRequests(t, e.URL) {
			if !bytes.HasPrefix(bytes.ToLower(q.Head), []byte("post /v1/completions")) ||
				bytes.Contains(q.Body, []byte("go on")) {
				n++
			}
		}
	}
	return n
}

// TestPreviousResponse checks that a request that continues a response goes to the
// engine that produced it, which may have stored it, whole or streamed. Such a request
// of another tenant reaches no engine.
func TestPreviousResponse(t *testing.T) {
	t.Parallel()
	es := startEngines(t, 3, "--preset", "instant")
	keys, state := t.TempDir()+"/keys.json", t.TempDir()
	acme, globex := harness.IssueKey(t, keys, state, "acme"), harness.IssueKey(t, keys, state, "globex")
	r := serveAs(t, es, state, "{api_keys_file: "+keys+"}", "{name: default, holdout: 0}")
	api := &harness.APIs[2]
	id := regexp.MustCompile(`"id":"(resp_[^"]+)"`)
	used := map[string]bool{}
	for i := range 12 {
		a, err := harness.Post(r.URL+api.Path, acme,
			api.Body(es[0].Model, "", []string{fmt.Sprint(i, strings.Repeat(" a word", 200))}, 4, i%2 == 0))
		if err != nil || a.Status != 200 {
			t.Fatalf("%v %+v", err, a)
		}
		first := harness.Explain(t, r.Admin, r.Token, a.RequestID)
		used[first.Chosen] = true
		m := id.FindSubmatch(a.Body)
		if m == nil {
			t.Fatalf("no id in %.300s", a.Body)
		}
		body := api.Body(es[0].Model, "", []string{"go on"}, 4, false)
		body["previous_response_id"] = string(m[1])
		if a, err := harness.Post(r.URL+api.Path, globex, body); err != nil || a.Status != 404 ||
			!bytes.Contains(a.Body, []byte(`"code":"response_not_found"`)) {
			t.Errorf("globex: %v %+v", err, a)
		}
		a, err = harness.Post(r.URL+api.Path, acme, body)
		// the engine's text: it stores no responses
		if err != nil || a.Status != 404 || !bytes.Contains(a.Body, []byte("not found.")) {
			t.Errorf("acme: %v %d %s", err, a.Status, a.Body)
		}
		if e := harness.Explain(t, r.Admin, r.Token, a.RequestID); e.Chosen != first.Chosen {
			t.Errorf("a response of %s is continued on %s", first.Chosen, e.Chosen)
		}
	}
	if len(used) < 2 {
		t.Errorf("only %v were used", used)
	}
	if n := clientRequests(t, es); n != 24 {
		t.Errorf("the engines received %d requests, want 24", n)
	}
}

// TestEngineDiesMidStream checks that the client receives the error event of its API
// and no regular end of the stream, and that the prompt is sent to one engine only.
func TestEngineDiesMidStream(t *testing.T) {
	t.Parallel()
	es := startEngines(t, 2, "--preset", "instant", "--faults", `{"die":-1,"die_after_events":7}`)
	r := serve(t, es, "{name: default, holdout: 0}")
	for i := range harness.APIs {
		x := &harness.APIs[i]
		a, err := harness.Post(r.URL+x.Path, "", x.Body(es[0].Model, "short", []string{"go on"}, 50, true))
		if a == nil || a.Status != 200 {
			t.Fatalf("%s: %v %+v", x.Name, err, a)
		}
		if err == nil {
			t.Errorf("%s: the answer ended cleanly", x.Name)
		}
		if !bytes.Contains(a.Body, []byte(x.Breaks)) || bytes.Contains(a.Body, []byte(x.Ends)) {
			t.Errorf("%s: the client received %q", x.Name, a.Body)
		}
	}
	if n := clientRequests(t, es); n != len(harness.APIs) {
		t.Errorf("the engines received %d requests, want %d", n, len(harness.APIs))
	}
}

// TestHangingEngine checks that a client that disconnects before the first byte of an
// engine that hangs cancels the engine's request.
func TestHangingEngine(t *testing.T) {
	es := startEngines(t, 1, "--preset", "instant", "--faults", `{"hang":-1}`)
	r := serve(t, es, "{name: default, holdout: 0}")
	done := make(chan error, 1)
	go func() { done <- leaveSilently(r.URL, chatBody(es[0].Model, "s", "u", true, 5), 200*time.Millisecond) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	harness.Await(t, 2*time.Second, "the engine's request is aborted", func() bool {
		rs := harness.SimRequests(t, es[0].URL)
		return len(rs) == 1 && rs[0].Aborted
	})
}
