package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

// setLimit changes one limit of a tenant in the demo's policy and waits until it
// is in force.
func setLimit(t *testing.T, d *harness.Dev, tenant, name string, from, to int) {
	t.Helper()
	before := policyOf(t, d.Admin, d.AdminToken).Revision
	editFile(t, filepath.Join(d.PolicyDir, "data", "tenants", tenant+".json"), fmt.Sprintf("%q: %d", name, from),
		fmt.Sprintf("%q: %d", name, to))
	harness.Await(t, 10*time.Second, name+" in force", func() bool {
		s := policyOf(t, d.Admin, d.AdminToken)
		return s.State == "ok" && s.Revision != before
	})
}

// TestLimits_clients checks that the official clients handle a tenant's limit like
// their own vendor's: the error, the headers, and retries that wait.
func TestLimits_clients(t *testing.T) {
	t.Parallel()
	python := filepath.Join(testdeps.Cache(t), "venv-clients", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the official clients are not installed: run make deps (%v)", err)
	}
	d := harness.StartDev(t)
	const limit = 20
	setLimit(t, d, "acme", "requests_per_minute", 0, limit)
	setLimit(t, d, "globex", "requests_per_minute", 0, limit)
	out, err := exec.Command(python, "scripts/limits_client.py", d.URL, d.Tenants["acme"], d.Tenants["globex"], d.Model,
		strconv.Itoa(limit)).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%v:\n%s", err, out)
	}
}

// TestLimits checks that limits of tokens and concurrency apply per tenant. A reload
// does not reset them; explain and the metrics report them.
func TestLimits(t *testing.T) {
	d := harness.StartDev(t)
	ask := func(tenant string, tokens int) *harness.Answer {
		t.Helper()
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants[tenant],
			chatBody(d.Model, "You are brief.", "x", false, tokens))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	left := func(a *harness.Answer) int {
		t.Helper()
		n, err := strconv.Atoi(a.Header.Get("x-ratelimit-remaining-tokens"))
		if err != nil {
			t.Fatalf("%d %s: %v", a.Status, a.Body, err)
		}
		return n
	}
	setLimit(t, d, "acme", "tokens_per_minute", 0, 1000)
	a := ask("acme", 4)
	c, err := a.Completion()
	if err != nil || a.Status != 200 || a.Header.Get("x-ratelimit-limit-tokens") != "1000" {
		t.Fatalf("%d %v %v", a.Status, err, a.Header)
	}
	used := c.Usage.PromptTokens + c.Usage.CompletionTokens
	reserved := c.Usage.PromptTokens + 4
	if got := left(a); got > 1000-reserved+2 || got < 1000-reserved-2 {
		t.Errorf("%d tokens left of 1000 after %d were reserved", got, reserved)
	}
	second := ask("acme", 900) // the answer ends long before 900 tokens
	c, err = second.Completion()
	if err != nil {
		t.Fatal(err)
	}
	if got := left(second); got > 1000-used-c.Usage.PromptTokens-880 {
		t.Errorf("%d tokens left although 900 were reserved", got)
	}
	third := ask("acme", 1)
	if got, want := left(third), 1000-used-c.Usage.PromptTokens-c.Usage.CompletionTokens-reserved+3; got < want-60 {
		t.Errorf("%d tokens left, want about %d: unused reserved tokens must be returned", got, want)
	}
	for i := 0; ; i++ {
		if a = ask("acme", 400); a.Status == 429 {
			break
		}
		if i > 100 {
			t.Fatal("no limit")
		}
	}
	if !strings.Contains(string(a.Body), "rate_limit_exceeded") || a.Header.Get("Retry-After") == "" {
		t.Errorf("%s %v", a.Body, a.Header)
	}
	if e := harness.Explain(t, d.Admin, d.AdminToken, a.RequestID); e.Allow ||
		!strings.Contains(e.Reason, "tokens per minute") {
		t.Errorf("explain: %+v", e)
	}
	setLimit(t, d, "globex", "max_concurrency", 32, 1) // a reload in between
	if a = ask("acme", 900); a.Status != 429 {
		t.Errorf("after a reload: %d", a.Status)
	}
	if a = ask("globex", 4); a.Status != 200 {
		t.Errorf("globex: %d %s", a.Status, a.Body)
	}
	begun, end := make(chan *harness.Answer, 1), make(chan struct{})
	go func() {
		defer close(end)
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants["globex"],
			chatBody(d.Model, "You are long.", "y", true, 600))
		if err == nil {
			begun <- a
		}
	}()
	harness.Await(t, 10*time.Second, "the stream began", func() bool {
		_, b := harness.GetBody(d.Admin+"/metrics", d.AdminToken)
		return strings.Contains(string(b), "kvasir_inflight 1")
	})
	if a := ask("globex", 1); a.Status != 429 || !strings.Contains(string(a.Body), "concurrency_limit") {
		t.Errorf("a second request while the first runs: %d %s", a.Status, a.Body)
	}
	<-end
	if a := <-begun; a.Status != 200 {
		t.Errorf("the stream: %d", a.Status)
	}
	if a = ask("globex", 4); a.Status != 200 {
		t.Errorf("after the stream: %d", a.Status)
	}
	file := filepath.Join(t.TempDir(), "body.json")
	save(t, file, fmt.Appendf(nil, `{"model": %q, "messages": [{"role": "user", "content": "x"}]}`, d.Model))
	out, code := kvasir(t, "explain", file, "--tenant", "acme", "--admin", d.Admin, "--token", d.AdminToken)
	if code != 0 || !strings.Contains(out, "pool in [main]") || !strings.Contains(out, "tokens_per_minute 1000") ||
		strings.Contains(out, "refused") {
		t.Errorf("explain of a request that was not sent: %d %s", code, out)
	}
	_, b := harness.GetBody(d.Admin+"/metrics", d.AdminToken)
	for _, want := range []string{`kvasir_refused_total{reason="rate_limit_exceeded"} `,
		`kvasir_refused_total{reason="concurrency_limit"} `} {
		if i := strings.Index(string(b), want); i < 0 || strings.HasPrefix(string(b[i+len(want):]), "0\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}
