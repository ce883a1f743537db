package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// listedEndpoint is the part of an endpoint of the admin API that tests check.
type listedEndpoint struct {
	URL          string
	Ready        bool
	State        string
	Reason       string
	Events       string
	EventsReason string `json:"events_reason"`
	Trust        float64
	Inflight     int
}

// endpointOf returns what the router's admin API says about an engine.
func endpointOf(t testing.TB, r *harness.Router, url string) (out listedEndpoint) {
	t.Helper()
	var list []listedEndpoint
	if code, b := harness.GetBody(r.Admin+"/v1/endpoints", r.Token); code != 200 || json.Unmarshal(b, &list) != nil {
		t.Fatalf("endpoints: %d %s", code, b)
	}
	for _, e := range list {
		if e.URL == url {
			return e
		}
	}
	t.Fatalf("endpoint %s is not listed in %+v", url, list)
	return out
}

// metricOf returns the value of a sample of the router's metrics, "" if there is none.
func metricOf(t testing.TB, r *harness.Router, sample string) string {
	t.Helper()
	_, b := harness.GetBody(r.Admin+"/metrics", r.Token)
	for line := range strings.SplitSeq(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, sample+" "); ok {
			return v
		}
	}
	return ""
}

// chatText sends a chat request and returns its answer.
func chatText(t testing.TB, r *harness.Router, model, text string) *harness.Answer {
	t.Helper()
	a, err := harness.Post(r.URL+"/v1/chat/completions", "", fmt.Sprintf(
		`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":%q}]}`, model, text))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestBreaker_shown: an endpoint whose circuit breaker keeps requests away is not shown
// as ready by the admin API, the command line or the metrics.
func TestBreaker_shown(t *testing.T) {
	bad := startEngine(t, "--preset", "instant", "--faults", `{"reject":-1,"reject_status":500}`)
	es := []*engine{bad, startEngine(t, "--preset", "instant")}
	r := serve(t, es, "{name: default, holdout: 0}")
	var e listedEndpoint
	harness.Await(t, 30*time.Second, "the breaker is open", func() bool {
		for i := range 8 {
			chatText(t, r, bad.Model, fmt.Sprintf("prompt %d of the test at %v", i, time.Now()))
		}
		e = endpointOf(t, r, bad.URL)
		return e.State == "breaker open"
	})
	if e.Ready || !strings.Contains(e.Reason, "breaker open") || !strings.Contains(e.Reason, "failed") {
		t.Errorf("got %+v", e)
	}
	labels := fmt.Sprintf(`{endpoint=%q,pool="main"}`, bad.URL)
	open, ready := metricOf(t, r, "kvasir_endpoint_breaker_open"+labels), metricOf(t, r, "kvasir_endpoint_ready"+labels)
	if e = endpointOf(t, r, bad.URL); e.State == "breaker open" && (open != "1" || ready != "0") {
		t.Errorf("metrics: breaker open %q, ready %q, want 1 and 0", open, ready)
	}
	list := exec.Command(harness.Binary(t), "endpoint", "list", "--admin", r.Admin, "--token", r.Token)
	out, err := list.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "breaker") {
		t.Errorf("kvasir endpoint list: %v\n%s", err, out)
	}
	if good := endpointOf(t, r, es[1].URL); !good.Ready || good.State != "ready" {
		t.Errorf("the other endpoint: %+v", good)
	}
}

// TestSilentEvents: an engine whose event socket is connected and silent, while its
// answers report cached tokens, has its cache predicted, with a reason, until events
// come again.
func TestSilentEvents(t *testing.T) {
	es := startEngines(t, 2, "--preset", "instant", "--faults", `{"drop_batches":-1,"drop_replay":true}`)
	r := serve(t, es, "{name: default, holdout: 0}")
	system := strings.Repeat("You answer questions about the manual of a machine. ", 40)
	var warm, id string
	harness.Await(t, 40*time.Second, "the cache of the warm engine is predicted", func() bool {
		for i := range 6 {
			id = chatText(t, r, es[0].Model, system+fmt.Sprint("Question ", i)).RequestID
		}
		time.Sleep(300 * time.Millisecond)
		warm = harness.Explain(t, r.Admin, r.Token, id).Chosen
		return endpointOf(t, r, warm).Events == "predicted"
	})
	if s := endpointOf(t, r, warm); !s.Ready || !strings.Contains(s.EventsReason, "cached tokens") {
		t.Errorf("got %+v", s)
	}
	// The cache is now modelled, so that its contents stay known: without a model, a
	// prompt is forgotten after some seconds.
	chatText(t, r, es[0].Model, system+"Question 1")
	time.Sleep(12 * time.Second)
	a := chatText(t, r, es[0].Model, system+"Question 1")
	if y := harness.Explain(t, r.Admin, r.Token, a.RequestID); y.Chosen != warm || y.Predicted < 100 {
		t.Errorf("predicted %d tokens at %s, want many at %s", y.Predicted, y.Chosen, warm)
	}
	for _, e := range es {
		a, err := harness.Post(e.URL+"/sim/faults", "", `{"drop_batches":0,"drop_replay":false}`)
		if err != nil || a.Status != 200 {
			t.Fatalf("sim/faults: %v, %+v", err, a)
		}
	}
	harness.Await(t, 40*time.Second, "its cache is known again", func() bool {
		for i := range 4 {
			chatText(t, r, es[0].Model, fmt.Sprint(time.Now(), i)+system)
		}
		time.Sleep(300 * time.Millisecond)
		return endpointOf(t, r, warm).Events == "live"
	})
}

// TestParity: an engine that counts other prompt tokens than the router makes the
// model's prompts approximate there, in log, metric and explain.
func TestParity(t *testing.T) {
	es := startEngines(t, 1, "--preset", "instant")
	template := filepath.Join(t.TempDir(), "other.jinja")
	if err := os.WriteFile(template, []byte("{% for m in messages %}Somebody says: {{ m.content }}\n{% endfor %}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := harness.Serve(t, fmt.Sprintf(`
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools: [{name: main, endpoints: [%q], events: {sources: [{endpoint: %[1]q, events: %q, replay: %q}]}}]
models: [{name: %s, pools: [main], tokenizer: {dir: %s, template_file: %s}}]
`, es[0].URL, es[0].Events, es[0].Replay, es[0].Model, demoDir(t), template))
	live(t, r, 1)
	var id string
	for i := range 12 {
		id = chatText(t, r, es[0].Model, fmt.Sprint("Question ", i)).RequestID
	}
	sample := fmt.Sprintf("kvasir_prompt_contradicted{endpoint=%q,model=%q}", es[0].URL, es[0].Model)
	if v := metricOf(t, r, sample); v != "1" {
		t.Errorf("%s is %q", sample, v)
	}
	if !strings.Contains(r.Log.String(), "counts other prompt tokens") {
		t.Error("the log does not say so")
	}
	x := harness.Explain(t, r.Admin, r.Token, id)
	if x.TokensExact || !strings.Contains(x.PromptReason, "other prompt tokens") {
		t.Errorf("explain: exact %v, %q", x.TokensExact, x.PromptReason)
	}
}

// TestProfileMatch: profiles are chosen by label, model and operation without a policy
// in Rego, and explain says which and why.
func TestProfileMatch(t *testing.T) {
	es := startEngines(t, 1, "--preset", "instant")
	r := serveWith(t, es, "{STATE}", "{anonymous: {tenant: local}}", "{name: default, holdout: 0}, "+
		"{name: batch, objective: throughput, match: [{labels: {class: [batch, night]}}]}, "+
		"{name: fast, objective: ttft, match: [{models: ["+es[0].Model+"], operations: [completions]}]}",
		"client_hints: {labels: {class: x-class}}\n")
	const hello = `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct{ path, body, class, profile, objective, why string }{
		{"chat/completions", hello, "", "default", "blend", "no other profile matches"},
		{"chat/completions", hello, "night", "batch", "throughput", "match[0] holds"},
		{"completions", `"prompt":"hi"`, "", "fast", "ttft", "match[0] holds"},
	} {
		a, err := harness.Post(r.URL+"/v1/"+c.path, "", fmt.Sprintf(`{"model":%q,"max_tokens":2,%s}`, es[0].Model, c.body),
			"x-class", c.class)
		if err != nil || a.Status != 200 {
			t.Fatalf("%v, %+v", err, a)
		}
		x := harness.Explain(t, r.Admin, r.Token, a.RequestID)
		if x.Profile != c.profile || x.Objective != c.objective || !strings.Contains(x.ProfileReason, c.why) {
			t.Errorf("%s, class %q: got %q (%q), objective %q", c.path, c.class, x.Profile, x.ProfileReason, x.Objective)
		}
	}
}

// TestMedia: an image is not charged by its base64 text and does not end locality for
// the text before it; several prompts in one request have a prediction.
func TestMedia(t *testing.T) {
	es := startEngines(t, 2, "--preset", "instant")
	r := serve(t, es, "{name: default, holdout: 0}")
	system := strings.Repeat("You describe pictures in few words. ", 80)
	ask := func(path, body string) *harness.Explanation {
		a, err := harness.Post(r.URL+"/v1/"+path, "", fmt.Sprintf(`{"model":%q,"max_tokens":2,%s}`, es[0].Model, body))
		if err != nil {
			t.Fatal(err)
		}
		return harness.Explain(t, r.Admin, r.Token, a.RequestID)
	}
	messages := func(user string) string {
		return fmt.Sprintf(`"messages":[{"role":"system","content":%q},{"role":"user","content":%s}]`, system, user)
	}
	warm := ask("chat/completions", messages(`"hi"`))
	// The simulated engine refuses images; the placement is made all the same.
	x := ask("chat/completions", messages(fmt.Sprintf(`[{"type":"text","text":"What is this?"},`+
		`{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}]`, strings.Repeat("QUJD", 20000))))
	if x.TokensExact || x.Chosen != warm.Chosen || x.Predicted < 300 {
		t.Errorf("image: %d tokens predicted at %s, want many at %s", x.Predicted, x.Chosen, warm.Chosen)
	}
	if extra := x.Tokens - warm.Tokens; extra < 500 || extra > 2000 {
		t.Errorf("an image of 80 kB is taken for %d tokens", extra)
	}
	first := ask("completions", fmt.Sprintf(`"prompt":%q`, system))
	several := ask("completions", fmt.Sprintf(`"prompt":[%q,%q]`, system, system+" And briefly."))
	if several.Predicted < 300 || several.Chosen != first.Chosen || several.Tokens < 2*first.Tokens-10 {
		t.Errorf("several prompts: %d of %d tokens predicted", several.Predicted, several.Tokens)
	}
}
