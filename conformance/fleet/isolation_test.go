package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// isolationOf returns the isolation that the router has detected for each engine, by URL.
func isolationOf(t *testing.T, r *harness.Router) map[string]string {
	t.Helper()
	status, b := harness.GetBody(r.Admin+"/v1/endpoints", r.Token)
	if status != 200 {
		t.Fatalf("/v1/endpoints: %d", status)
	}
	var es []struct{ URL, Isolation string }
	if err := json.Unmarshal(b, &es); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range es {
		out[e.URL] = e.Isolation
	}
	return out
}

// probesOf returns the isolation probe requests that an engine received.
func probesOf(t *testing.T, e *engine) (out []harness.SimRequest) {
	t.Helper()
	for _, q := range harness.SimRequests(t, e.URL) {
		if q.Path == "/v1/completions" && bytes.Contains(q.Body, []byte(`"prompt":[`)) {
			out = append(out, q)
		}
	}
	return out
}

// TestIsolationProbe checks that an engine that ignores salts is detected before a
// tenant's prompt is sent to it. An engine that honours salts serves all tenants.
func TestIsolationProbe(t *testing.T) {
	t.Parallel()
	engines := []*engine{startEngine(t, "--preset", "instant"), startEngine(t, "--preset", "instant", "--ignore-salt")}
	good, bad := engines[0], engines[1]
	state := filepath.Join(t.TempDir(), "state")
	keys := filepath.Join(state, "keys.json")
	acme := harness.IssueKey(t, keys, state, "acme")
	globex := harness.IssueKey(t, keys, state, "globex")
	r := serveAs(t, engines, state, "{api_keys_file: "+keys+"}", "{name: default}")
	harness.Await(t, 20*time.Second, "isolation of both engines", func() bool {
		is := isolationOf(t, r)
		return is[good.URL] == "verified" && is[bad.URL] == "none"
	})
	for _, e := range engines {
		if n := len(probesOf(t, e)); n != 3 {
			t.Errorf("%s: a probe is %d requests, want 3", e.URL, n)
		}
	}
	prompt := sentence(rand.New(rand.NewPCG(7, 7)), 300)
	for i := range 12 {
		key := acme
		if i%2 == 1 {
			key = globex
		}
		a, err := harness.Post(r.URL+"/v1/completions", key,
			map[string]any{"model": good.Model, "prompt": prompt, "max_tokens": 2})
		if err != nil || a.Status != 200 {
			t.Fatalf("%v %+v", err, a)
		}
		e := harness.Explain(t, r.Admin, r.Token, a.RequestID)
		if e.Chosen != good.URL {
			t.Errorf("request %d went to %s, which ignores salts", i, e.Chosen)
		}
		for _, c := range e.Candidates {
			if c.Endpoint == bad.URL && !strings.HasPrefix(c.Reason, "no cache isolation") {
				t.Errorf("%s: %s", c.State, c.Reason)
			}
		}
	}
	if all := harness.SimRequests(t, bad.URL); len(all) != 3 {
		t.Errorf("the engine that ignores salts received %d requests, want the probe's 3", len(all))
	}
	good.Kill()
	harness.Await(t, 20*time.Second, "the refusal", func() bool {
		a, err := harness.Post(r.URL+"/v1/completions", acme,
			map[string]any{"model": good.Model, "prompt": "x", "max_tokens": 2})
		return err == nil && a.Status == 503 && strings.Contains(string(a.Body), "no_eligible_endpoint")
	})
	status, b := harness.GetBody(r.Admin+"/metrics", r.Token)
	for _, want := range []string{
		fmt.Sprintf(`kvasir_endpoint_isolation{endpoint=%q,isolation="none",pool="main"} 1`, bad.URL),
		`kvasir_unsalted_requests_total{reason="public"} 0`, `kvasir_unsalted_requests_total{reason="fault"} 0`,
		`kvasir_unexplained_cached_tokens_total 0`,
		fmt.Sprintf(`kvasir_endpoint_tenant_share{endpoint=%q,pool="main"} 0.5`, good.URL),
	} {
		if status != 200 || !strings.Contains(string(b), want) {
			t.Errorf("metrics (%d) lack %s", status, want)
		}
	}
	if strings.Contains(string(b), "acme") {
		t.Error("the metrics name a tenant")
	}
}
