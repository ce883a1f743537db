package fleet

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

func chatBody(model, system, user string, stream bool, maxTokens int) map[string]any {
	return map[string]any{"model": model, "stream": stream, "max_tokens": maxTokens,
		"messages": []any{map[string]any{"role": "system", "content": system}, map[string]any{"role": "user", "content": user}}}
}

// TestTenants: two tenants, one prompt, the simulated fleet; also after a
// restart of the router.
func TestTenants(t *testing.T) {
	d := harness.StartDev(t)
	ask := func(tenant, user string) (*harness.Explanation, int) {
		t.Helper()
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants[tenant], chatBody(d.Model, strings.Repeat("You are a careful engineer. ", 60), user, false, 8))
		if err != nil || a.Status != 200 {
			t.Fatalf("%v %+v", err, a)
		}
		c, err := a.Completion()
		if err != nil {
			t.Fatal(err)
		}
		cached, ok := c.Usage.Cached()
		if !ok {
			t.Fatalf("no cached_tokens in %s", a.Body)
		}
		return harness.Explain(t, d.Admin, d.AdminToken, a.RequestID), cached
	}
	first, cached := ask("acme", "one")
	if cached != 0 || first.Arm == "holdout" {
		t.Fatalf("a new prompt: cached %d, arm %s", cached, first.Arm)
	}
	again, cached := ask("acme", "two")
	if cached == 0 || again.Chosen != first.Chosen || again.Predicted != cached || again.Reported == nil || *again.Reported != cached {
		t.Errorf("the same system prompt again: on %s then %s, predicted %d, reported %d", first.Chosen, again.Chosen, again.Predicted, cached)
	}
	other, cached := ask("globex", "one")
	if cached != 0 || other.Predicted != 0 {
		t.Errorf("globex on acme's prompt: predicted %d, reported %d", other.Predicted, cached)
	}
	for _, c := range other.Candidates {
		for tier, n := range c.Matched {
			if n > 0 {
				t.Errorf("globex on acme's prompt: %d tokens matched at %s, %s", n, c.Endpoint, tier)
			}
		}
	}
	if other.Namespace == first.Namespace || first.Namespace == "" {
		t.Errorf("namespaces %q and %q", first.Namespace, other.Namespace)
	}
}

// TestTenants_restart: the router is killed and started again; the tenants keep
// their namespaces and the index is whole from the engines' replay.
func TestTenants_restart(t *testing.T) {
	es := startEngines(t, 2, "--preset", "instant")
	keys, state := t.TempDir()+"/keys.json", t.TempDir()
	acme, globex := harness.IssueKey(t, keys, state, "acme"), harness.IssueKey(t, keys, state, "globex")
	r := serveAs(t, es, state, "{api_keys_file: "+keys+"}", "{name: default, holdout: 0}")
	ask := func(key string) (*harness.Explanation, int) {
		t.Helper()
		a, err := harness.Post(r.URL+"/v1/chat/completions", key, chatBody(es[0].Model, strings.Repeat("Keep to the facts. ", 80), "go", false, 4))
		if err != nil || a.Status != 200 {
			t.Fatalf("%v %+v", err, a)
		}
		c, err := a.Completion()
		if err != nil {
			t.Fatal(err)
		}
		cached, _ := c.Usage.Cached()
		return harness.Explain(t, r.Admin, r.Token, a.RequestID), cached
	}
	first, _ := ask(acme)
	r.Restart(t)
	live(t, r, 2)
	again, cached := ask(acme)
	if cached == 0 || again.Predicted != cached || again.Chosen != first.Chosen {
		t.Errorf("acme after the restart: on %s then %s, predicted %d, reported %d", first.Chosen, again.Chosen, again.Predicted, cached)
	}
	other, cached := ask(globex)
	if cached != 0 || other.Predicted != 0 {
		t.Errorf("globex on acme's prompt after the restart: predicted %d, reported %d", other.Predicted, cached)
	}
}

// TestEngineDiesMidStream: the client gets an error event, no [DONE], and the
// prompt is generated once.
func TestEngineDiesMidStream(t *testing.T) {
	es := startEngines(t, 2, "--preset", "instant", "--faults", `{"die":-1,"die_after_events":5}`)
	r := serve(t, es, "{name: default, holdout: 0}")
	a, err := harness.Post(r.URL+"/v1/chat/completions", "", chatBody(es[0].Model, "short", "go on", true, 50))
	if a == nil || a.Status != 200 {
		t.Fatalf("%v %+v", err, a)
	}
	if err == nil {
		t.Error("the answer ended cleanly")
	}
	if !bytes.Contains(a.Body, []byte(`data: {"error":`)) || bytes.Contains(a.Body, []byte("[DONE]")) {
		t.Errorf("the client got %q", a.Body)
	}
	n := 0
	for _, e := range es {
		n += len(harness.SimRequests(t, e.URL))
	}
	if n != 1 {
		t.Errorf("the engines got %d requests, want 1", n)
	}
}

// TestHangingEngine: a client that leaves before the first byte of an engine
// that hangs ends the engine's request.
func TestHangingEngine(t *testing.T) {
	es := startEngines(t, 1, "--preset", "instant", "--faults", `{"hang":-1}`)
	r := serve(t, es, "{name: default, holdout: 0}")
	done := make(chan error, 1)
	go func() { done <- leaveSilently(r.URL, chatBody(es[0].Model, "s", "u", true, 5), 200*time.Millisecond) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	harness.Await(t, 2*time.Second, "the engine's request aborted", func() bool {
		rs := harness.SimRequests(t, es[0].URL)
		return len(rs) == 1 && rs[0].Aborted
	})
}
