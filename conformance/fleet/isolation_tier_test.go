package fleet

import (
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

// twoTenants starts a router in front of engines for the tenants acme and globex.
func twoTenants(t *testing.T, engines []*engine) (r *harness.Router, state, acme, globex string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state")
	keys := filepath.Join(state, "keys.json")
	acme, globex = harness.IssueKey(t, keys, state, "acme"), harness.IssueKey(t, keys, state, "globex")
	return serveAs(t, engines, state, "{api_keys_file: "+keys+"}", "{name: default}"), state, acme, globex
}

// completion requests two tokens after a prompt and returns the status and the number
// of tokens that the engine reports as cached.
func completion(t *testing.T, r *harness.Router, key, model, prompt string) (status, cached int) {
	t.Helper()
	a, err := harness.Post(r.URL+"/v1/completions", key, map[string]any{"model": model, "prompt": prompt, "max_tokens": 2})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if a.Status == 200 {
		if err := json.Unmarshal(a.Body, &answer); err != nil {
			t.Fatal(err)
		}
	}
	return a.Status, answer.Usage.Details.Cached
}

// TestIsolation_hostTier checks that the probe reaches a cache in host memory whose
// chunks are longer than a few blocks. An engine that isolates only its GPU cache counts
// as not isolating and receives no request of a tenant. One that isolates both caches
// serves all tenants.
func TestIsolation_hostTier(t *testing.T) {
	t.Parallel()
	good := startEngine(t, "--preset", "instant", "--host-chunk", "256")
	for _, chunk := range []int{256, 512, 1024, 2048} {
		t.Run(fmt.Sprint("chunk ", chunk), func(t *testing.T) {
			bad := startEngine(t, "--preset", "instant", "--host-chunk", fmt.Sprint(chunk), "--host-ignore-salt")
			r, _, acme, globex := twoTenants(t, []*engine{good, bad})
			harness.Await(t, 20*time.Second, "isolation of both engines", func() bool {
				is := isolationOf(t, r)
				return is[good.URL] == "verified" && is[bad.URL] == "none"
			})
			before := len(harness.SimRequests(t, bad.URL))
			prompt := sentence(rand.New(rand.NewPCG(8, uint64(chunk))), chunk*2)
			for range 4 {
				completion(t, r, acme, good.Model, prompt)
			}
			if status, cached := completion(t, r, globex, good.Model, prompt); status != 200 || cached != 0 {
				t.Errorf("second tenant: status %d, %d cached tokens of the first", status, cached)
			}
			if n := len(harness.SimRequests(t, bad.URL)); n != before {
				t.Errorf("the engine without isolation received %d requests after its probe", n-before)
			}
		})
	}
}

// TestIsolation_unexplainedHit uses a tier that the probe does not reach, because its
// chunks have 4,096 tokens. The first answer that reports another tenant's tokens as
// cached reveals it, and no later request is sent to that engine.
func TestIsolation_unexplainedHit(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--preset", "instant", "--host-chunk", "4096", "--host-ignore-salt")
	r, state, acme, globex := twoTenants(t, []*engine{e})
	harness.Await(t, 20*time.Second, "a probe's result", func() bool { return isolationOf(t, r)[e.URL] == "verified" })
	rnd := rand.New(rand.NewPCG(9, 9))
	own, prompt := sentence(rnd, 5000), sentence(rnd, 5000)
	for range 3 { // the tenant's own requests explain the cached tokens
		for _, key := range []string{acme, globex} {
			if status, _ := completion(t, r, key, e.Model, key[:16]+own); status != 200 {
				t.Fatalf("own prompt: status %d", status)
			}
		}
	}
	if is := isolationOf(t, r)[e.URL]; is != "verified" {
		t.Fatalf("isolation %s after own prompts", is)
	}
	if status, cached := completion(t, r, acme, e.Model, prompt); status != 200 || cached != 0 {
		t.Fatalf("first tenant: status %d, %d cached", status, cached)
	}
	status, leaked := completion(t, r, globex, e.Model, prompt)
	if status != 200 || leaked < 4096 {
		t.Fatalf("second tenant: status %d, %d cached: the engine does not leak", status, leaked)
	}
	before := len(harness.SimRequests(t, e.URL))
	for _, key := range []string{globex, acme} {
		if status, _ := completion(t, r, key, e.Model, prompt); status != 503 {
			t.Errorf("after the first unexplained hit: status %d, want 503", status)
		}
	}
	if n := len(harness.SimRequests(t, e.URL)); n != before {
		t.Errorf("the engine received %d more requests", n-before)
	}
	reason := fmt.Sprintf("reported %d cached tokens that its namespace cannot hold", leaked)
	if is := isolationOf(t, r)[e.URL]; is != "none" {
		t.Errorf("isolation %s", is)
	}
	if out, code := kvasir(t, "endpoint", "list", "--admin", r.Admin, "--token", r.Token); code != 0 ||
		!strings.Contains(out, reason) {
		t.Errorf("endpoint list: %d\n%s", code, out)
	}
	if log, err := os.ReadFile(filepath.Join(state, "audit.log")); err != nil ||
		!strings.Contains(string(log), "isolation:revoke") || !strings.Contains(string(log), reason) {
		t.Errorf("%v: the audit log lacks the revocation:\n%s", err, log)
	}
	_, metrics := harness.GetBody(r.Admin+"/metrics", r.Token)
	for _, want := range []string{
		fmt.Sprintf(`kvasir_endpoint_isolation_revocations_total{endpoint=%q,pool="main"} 1`, e.URL),
		fmt.Sprint("kvasir_unexplained_cached_tokens_total ", leaked),
	} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if !strings.Contains(r.Log.String(), "another namespace's cache") {
		t.Error("the log lacks the revocation")
	}
}

// TestIsolation_ownHistory checks that cached tokens of requests that a tenant sent
// before the router restarted count as its own, also where no events report them.
func TestIsolation_ownHistory(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--preset", "instant", "--host-chunk", "256")
	state := filepath.Join(t.TempDir(), "state")
	keys := filepath.Join(state, "keys.json")
	acme := harness.IssueKey(t, keys, state, "acme")
	r := harness.Serve(t, fmt.Sprintf(`
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: %q
identity: {api_keys_file: %q}
pools: [{name: main, endpoints: [%q], events: {mode: off}}]
models: [{name: %s, pools: [main], tokenizer: {dir: %s}}]
`, state, keys, e.URL, e.Model, demoDir(t)))
	prompt := sentence(rand.New(rand.NewPCG(10, 10)), 700)
	completion(t, r, acme, e.Model, prompt)
	if !r.Stop(20 * time.Second) {
		t.Fatal("the router did not stop")
	}
	r.Restart(t)
	for range 2 {
		if status, cached := completion(t, r, acme, e.Model, prompt); status != 200 || cached == 0 {
			t.Errorf("after a restart: status %d, %d cached", status, cached)
		}
	}
	if is := isolationOf(t, r)[e.URL]; is == "none" {
		t.Error("the tenant's own cache counts as another's")
	}
}
