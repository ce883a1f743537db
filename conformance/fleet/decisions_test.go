package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// decision is the part of a logged decision that tests check.
type decision struct {
	ID        string `json:"decision_id"`
	Path      string
	RequestID string `json:"request_id"`
	Tenant    string
	Cached    bool
	Endpoint  string
	Namespace string
	Rules     []string `json:"rule_ids"`
	Erased    []string
	Bundles   map[string]struct{ Revision string }
	Input     struct{ Tenant, Request map[string]any }
	Result    struct {
		Allow  bool
		Reason string
	}
	Refused struct {
		Status int
		Code   string
	}
}

// decisionLog starts a router with the shipped policy, a mask and a decision log. It
// returns the router and two keys: of acme, which the policy allows, and of an unknown tenant.
func decisionLog(t *testing.T, settings string) (r *harness.Router, engine, log, acme, stranger string) {
	t.Helper()
	dir := t.TempDir()
	policies, keys, state := filepath.Join(dir, "policy"), filepath.Join(dir, "keys.json"), filepath.Join(dir, "state")
	log = filepath.Join(dir, "logs", "decisions.log")
	for _, d := range []string{state, filepath.Dir(log)} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, "policy", "init", policies, "--example", "log_mask")
	issue := func(tenant string) string {
		return ok(t, "key", "issue", "--file", keys, "--state-dir", state, "--tenant", tenant, "--user", "u-personal")
	}
	acme, stranger = issue("acme"), issue("stranger")
	d := harness.StartDev(t, "--engines", "1")
	r = harness.Serve(t, fmt.Sprintf(`listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: %s
identity: {api_keys_file: %s}
policy: {dir: %s}
pools: [{name: main, endpoints: [%q]}]
models: [{name: m, pools: [{name: main, served_as: %s}], tokenizer: {dir: %s}}]
telemetry: {decision_log: {file: %s, %s}}
`, state, keys, policies, d.Engines[0].URL, d.Model, demoDir(t), log, settings))
	return r, d.Engines[0].URL, log, acme, stranger
}

const askBody = `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"a prompt that stays out of logs"}]}`

// logged returns the decisions in a log.
func logged(t *testing.T, log string) (out []decision) {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.SplitAfter(b, []byte("\n")) {
		var d decision
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the last line is incomplete
		}
		if err := json.Unmarshal(line, &d); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		out = append(out, d)
	}
	return out
}

// TestDecisionLog checks that decisions are logged with OPA's field names and without
// the masked and secret values.
func TestDecisionLog(t *testing.T) {
	t.Parallel()
	r, engine, log, acme, stranger := decisionLog(t, "sample_allow: 1")
	var ids []string
	for i, c := range []struct {
		key    string
		status int
	}{{acme, 200}, {acme, 200}, {stranger, 403}} {
		a, err := harness.Post(r.URL+"/v1/chat/completions", c.key, askBody)
		if err != nil || a.Status != c.status {
			t.Fatalf("%d: %v, got %d %s", i, err, a.Status, a.Body)
		}
		ids = append(ids, a.RequestID)
	}
	var got []decision
	harness.Await(t, 10*time.Second, "three decisions logged", func() bool {
		got = logged(t, log)
		return len(got) == 3
	})
	for i, d := range got {
		if d.ID == "" || d.Path != "kvasir/decision" || d.RequestID != ids[i] || d.Bundles["kvasir"].Revision == "" ||
			len(d.Rules) == 0 && i < 2 {
			t.Errorf("%d: got %+v", i, d)
		}
	}
	if d := got[0]; d.Tenant != "acme" || !d.Result.Allow || d.Endpoint != engine || len(d.Namespace) != 16 || d.Cached ||
		d.Input.Request["model"] != "m" || d.Input.Tenant["id"] != "acme" {
		t.Errorf("allowed: %+v", d)
	}
	if d := got[1]; !d.Cached || d.ID == got[0].ID {
		t.Errorf("again: %+v", d)
	}
	if d := got[2]; d.Tenant != "stranger" || d.Result.Allow || d.Result.Reason == "" || d.Refused.Status != 403 ||
		d.Endpoint != "" {
		t.Errorf("denied: %+v", d)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"a prompt that stays", "u-personal", acme, stranger} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%q is in the log:\n%s", secret, b)
		}
	}
	if _, m := harness.GetBody(r.Admin+"/metrics", r.Token); !strings.Contains(string(m),
		"kvasir_decision_log_written_total 3") || !strings.Contains(string(m), "kvasir_decision_log_dropped_total 0") {
		t.Error("the metrics do not report three decisions")
	}
}

// TestDecisionLog_required checks that the router serves no request whose decision it
// cannot log, and that decisions accepted before are not lost.
func TestDecisionLog_required(t *testing.T) {
	t.Parallel()
	r, _, log, acme, _ := decisionLog(t, "sample_allow: 1, require_audit: true")
	ask := func() *harness.Answer {
		a, err := harness.Post(r.URL+"/v1/chat/completions", acme, askBody)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	served := 0
	if a := ask(); a.Status != 200 {
		t.Fatalf("got %d %s", a.Status, a.Body)
	}
	served++
	dir := filepath.Dir(log)
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, 10*time.Second, "requests refused", func() bool {
		a := ask()
		if a.Status == 200 {
			served++
		}
		return a.Status == 503 && strings.Contains(string(a.Body), "audit_unavailable")
	})
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, 10*time.Second, "requests served", func() bool { return ask().Status == 200 })
	served++
	harness.Await(t, 10*time.Second, "every served request logged", func() bool {
		b, err := os.ReadFile(log)
		return err == nil && bytes.Count(b, []byte("\n")) == served
	})
}

// placedLine is what the test checks of the lines of a request in the sample.
type placedLine struct {
	ID        string `json:"decision_id"`
	Path      string
	RequestID string `json:"request_id"`
	Placement *struct {
		V            int
		Model        string
		Profile      string
		Kind         string
		Exact        bool
		Key          string
		Blocks       string
		PromptTokens int `json:"prompt_tokens"`
		BlockTokens  int `json:"block_tokens"`
		Candidates   []struct {
			Endpoint, State string
			Columns         map[string]float32
			Scores          map[string]float32
		}
	}
	Outcome *struct {
		Endpoint     string
		Status       int
		TTFTMS       float64 `json:"ttft_ms"`
		OutputTokens *int    `json:"output_tokens"`
		CachedTokens *int    `json:"cached_tokens"`
	}
}

// TestDecisionLog_placements: with sample_placements each allowed request has a line
// with its candidates, columns, scores and encrypted blocks, and one with its outcome.
func TestDecisionLog_placements(t *testing.T) {
	r, engine, log, acme, stranger := decisionLog(t, "sample_allow: 0, sample_placements: 1")
	body := strings.Replace(askBody, "a prompt", strings.Repeat("a long prompt with several blocks ", 40), 1)
	for _, key := range []string{acme, acme, stranger} {
		if _, err := harness.Post(r.URL+"/v1/chat/completions", key, body); err != nil {
			t.Fatal(err)
		}
	}
	var raw []byte
	var lines []placedLine
	harness.Await(t, 10*time.Second, "five lines", func() bool {
		raw, _ = os.ReadFile(log)
		lines = nil
		for _, b := range bytes.SplitAfter(raw, []byte("\n")) {
			var l placedLine
			if bytes.HasSuffix(b, []byte("\n")) && json.Unmarshal(b, &l) == nil {
				lines = append(lines, l)
			}
		}
		return len(lines) == 5
	})
	placed, ends := map[string]placedLine{}, 0
	for _, l := range lines {
		if p := l.Placement; p != nil {
			placed[l.ID] = l
			if p.V != 1 || p.Model != "m" || p.Profile != "default" || !p.Exact || p.PromptTokens < 100 || p.Key == "" ||
				len(p.Blocks) != p.PromptTokens/p.BlockTokens*8 {
				t.Errorf("placement %+v", p)
			}
			if len(p.Candidates) != 1 || p.Candidates[0].Endpoint != engine || p.Candidates[0].State != "kept" ||
				len(p.Candidates[0].Columns) < 8 || len(p.Candidates[0].Scores) != 1 {
				t.Errorf("candidates %+v", p.Candidates)
			}
		}
		if o := l.Outcome; o != nil {
			ends++
			first, ok := placed[l.ID]
			if !ok || first.RequestID != l.RequestID || l.Path != "kvasir/outcome" || o.Endpoint != engine || o.Status != 200 ||
				o.TTFTMS <= 0 || o.OutputTokens == nil || *o.OutputTokens != 2 || o.CachedTokens == nil {
				t.Errorf("outcome %+v of %+v", o, first)
			}
		}
	}
	if len(placed) != 2 || ends != 2 {
		t.Errorf("%d placements, %d outcomes, want 2 of each", len(placed), ends)
	}
	if bytes.Contains(raw, []byte("several blocks")) || bytes.Contains(raw, []byte("u-personal")) {
		t.Error("the log has a prompt or a user")
	}
}
