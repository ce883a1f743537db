package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// wishes maps the label that a client's header gives the request to a decision.
var wishes = map[string]string{
	"slow": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}, {"label": "tier", "op": ` +
		`"in", "values": ["slow", "moon"]}]`,
	"not_slow": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}, {"label": "tier", "op": ` +
		`"not_in", "values": ["slow"]}]`,
	"nowhere": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}, {"label": "tier", "op": ` +
		`"in", "values": ["moon"]}]`,
	"unlabelled": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}, {"label": "gpu", "op": ` +
		`"in", "values": ["h100"]}]`,
	"verified": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}, {"label": "isolation", ` +
		`"op": "in", "values": ["verified"]}]`,
	"prefer": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}], "prefer": [{"label": ` +
		`"tier", "values": ["slow"], "weight": 0.2}]`,
	"alone":    `"constraints": [{"label": "pool", "op": "in", "values": ["slow"]}], "cache": {"scope": "none"}`,
	"high":     `"constraints": [{"label": "pool", "op": "in", "values": ["fast"]}], "priority": "high"`,
	"high_off": `"constraints": [{"label": "pool", "op": "in", "values": ["slow"]}], "priority": "high"`,
	"capped": `"constraints": [{"label": "pool", "op": "in", "values": ["slow"]}], "limits": {"max_output_tokens": ` +
		`3, "max_prompt_tokens": 100}`,
	"rewrite": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}], "model": "other"`,
	"sticky": `"constraints": [{"label": "pool", "op": "in", "values": ["fast", "slow"]}], "affinity": {"weight": 1, ` +
		`"max_share": 1, "sticky": true}`,
}

func writeWishes(t *testing.T, dir string) {
	t.Helper()
	for _, d := range []string{"kvasir", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	save(t, filepath.Join(dir, "data", "data.json"),
		[]byte(`{"classes": {"high": {"priority": 10}, "standard": {"priority": 0}}}`))
	var b strings.Builder
	b.WriteString("package kvasir\n\ndefault decision := {\"allow\": false, \"reason\": \"no_wish\"}\n")
	for name, text := range wishes {
		fmt.Fprintf(&b,
			"\n# METADATA\n# labels: {id: wish_%s}\ndecision := {\"allow\": true, %s} if input.request.labels.wish == %q\n",
			name, text, name)
	}
	save(t, filepath.Join(dir, "kvasir", "decision.rego"), []byte(b.String()))
}

// TestEnforced checks in the engines' own records that the router applies what a policy decides.
func TestEnforced(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 2, "--preset", "instant")
	fast, slow := engines[0], engines[1]
	dir := filepath.Join(t.TempDir(), "policy")
	writeWishes(t, dir)
	tokenizer := demoDir(t)
	pool := func(name string, e *engine, more string) string {
		return fmt.Sprintf("{name: %s, labels: {tier: %s}, endpoints: [%q], events: {sources: [{endpoint: %q, events: %q, "+
			"replay: %q}]}, isolation_probe: {mode: on}%s}", name, name, e.URL, e.URL, e.Events, e.Replay, more)
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
client_hints: {labels: {wish: x-wish}}
policy: {dir: `+dir+`}
pools:
- `+pool("fast", fast, ", priority: on")+`
- `+pool("slow", slow, "")+`
models:
- {name: `+fast.Model+`, pools: [fast, slow], tokenizer: {dir: `+tokenizer+`}}
- {name: other, pools: [{name: slow, served_as: `+fast.Model+`}], tokenizer: {dir: `+tokenizer+`}}
profiles: [{name: default, holdout: 0}]
`)
	live(t, r, 2)
	prompt := sentence(rand.New(rand.NewPCG(1, 9)), 400)
	ask := func(wish string, more map[string]any, header ...string) (*harness.Answer, *harness.Explanation) {
		t.Helper()
		body := map[string]any{"model": fast.Model, "prompt": prompt, "max_tokens": 5}
		for k, v := range more {
			body[k] = v
		}
		a, err := harness.Post(r.URL+"/v1/completions", "", body, append([]string{"X-Wish", wish}, header...)...)
		if err != nil {
			t.Fatal(err)
		}
		return a, harness.Explain(t, r.Admin, r.Token, a.RequestID)
	}
	goes := func(wish string, e *engine) {
		t.Helper()
		for range 4 {
			if a, x := ask(wish, nil); a.Status != 200 || x.Chosen != e.URL {
				t.Errorf("%s: %d, %s, want %s: %s", wish, a.Status, x.Chosen, e.URL, a.Body)
			}
		}
	}
	refused := func(wish string, status int, code string) {
		t.Helper()
		if a, x := ask(wish, nil); a.Status != status || !strings.Contains(string(a.Body), code) || x.Allow {
			t.Errorf("%s: %d %s, allow %v", wish, a.Status, a.Body, x.Allow)
		}
	}
	// record returns what an engine received of a request.
	record := func(e *engine, id string) map[string]json.RawMessage {
		t.Helper()
		for _, q := range harness.SimRequests(t, e.URL) {
			if bytes.Contains(q.Head, []byte(id)) {
				if bytes.Contains(bytes.ToLower(q.Head), []byte("x-wish")) ||
					bytes.Contains(bytes.ToLower(q.Head), []byte("kvasir")) {
					t.Errorf("a hint reached the engine:\n%s", q.Head)
				}
				var m map[string]json.RawMessage
				if err := json.Unmarshal(q.Body, &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
		}
		t.Fatalf("%s has no record of %s", e.URL, id)
		return nil
	}

	refused("", 403, "no_wish")
	goes("slow", slow)
	goes("not_slow", fast)
	goes("prefer", slow)
	refused("nowhere", 503, "no_eligible_endpoint")
	refused("unlabelled", 503, "no_eligible_endpoint")
	harness.Await(t, 20*time.Second, "isolation verified",
		func() bool { a, _ := ask("verified", nil); return a.Status == 200 })

	for i := range 3 {
		a, x := ask("alone", nil)
		c, err := a.Completion()
		if err != nil {
			t.Fatal(err)
		}
		if cached, ok := c.Usage.Cached(); !ok || cached != 0 || x.Predicted != 0 || x.Chosen != slow.URL {
			t.Errorf("alone, request %d: %d cached tokens reported, %d predicted on %s", i, cached, x.Predicted, x.Chosen)
		}
	}

	a, _ := ask("high", map[string]any{"priority": 3})
	if got := string(record(fast, a.RequestID)["priority"]); got != "-10" {
		t.Errorf("high: the engine received priority %q, want -10", got)
	}
	a, _ = ask("high_off", map[string]any{"priority": 3})
	if got, has := record(slow, a.RequestID)["priority"]; has {
		t.Errorf("an engine without priorities received %s", got)
	}
	a, x := ask("rewrite", nil)
	if got := string(record(slow, a.RequestID)["model"]); x.Model != "other" || got != fmt.Sprintf("%q", fast.Model) {
		t.Errorf("rewrite: explain reports %q, the engine received %s", x.Model, got)
	}
	a, _ = ask("capped", map[string]any{"prompt": "short", "max_tokens": 50})
	if got := string(record(slow, a.RequestID)["max_tokens"]); got != "3" {
		t.Errorf("capped: the engine received max_tokens %s, want 3", got)
	}
	refused("capped", 400, "context_length_exceeded")

	homes := map[string]string{}
	for i := range 24 {
		session := fmt.Sprint("s", i%4)
		_, x := ask("sticky", map[string]any{"prompt": sentence(rand.New(rand.NewPCG(uint64(i), 3)), 200)},
			"X-Kvasir-Session", session)
		if homes[session] != "" && homes[session] != x.Chosen {
			t.Errorf("session %s moved from %s to %s", session, homes[session], x.Chosen)
		}
		homes[session] = x.Chosen
	}
}
