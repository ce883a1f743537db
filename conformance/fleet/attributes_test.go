package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// attributed is a router whose pool changes all its attributes with each reload.
type attributed struct {
	*harness.Router
	t       *testing.T
	engines []*engine
	model   string
	tokens  [2]string // credential files
	head    string    // the first part of the configuration
	tail    string
}

// yaml returns the configuration after n changes. Every attribute of the pool differs
// from the previous change; its endpoints and their event settings are the same.
func (a *attributed) yaml(n int) string {
	var urls, sources []string
	for _, e := range a.engines {
		urls = append(urls, strconv.Quote(e.URL))
		sources = append(sources, fmt.Sprintf("{endpoint: %q, events: %q, replay: %q}", e.URL, e.Events, e.Replay))
	}
	i := n % 2
	pool := fmt.Sprintf(`{name: main, endpoints: [%s], events: {sources: [%s]}, labels: {zone: z%d, gpu: g%d}, price: %d,
  spot: %t, capacity: {max_inflight: %d, kv_tokens: %d}, timeouts: {total: %ds}, credentials: {bearer_file: %q},
  isolation_probe: {mode: %q, every: %dh}, priority: %q}`,
		strings.Join(urls, ", "), strings.Join(sources, ", "), n%7, n%3, 1+n%5, i == 0, 200+n%50, (1+n%4)<<18, 300+n%60,
		a.tokens[i], []string{"on", "off"}[i], 1+n%5, []string{"on", "off"}[i])
	return fmt.Sprintf("region: r%d\n%spools: [%s]\n%s", n%5, a.head, pool, a.tail)
}

// change writes the n-th change and waits until the router has applied it.
func (a *attributed) change(n int) {
	a.t.Helper()
	next := a.Config + ".next"
	if err := os.WriteFile(next, []byte(a.yaml(n)), 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(next, a.Config); err != nil {
		a.t.Fatal(err)
	}
	if s, b := adminDo(a.t, a.Router, "POST", "/v1/reload", nil); s != 200 {
		a.t.Fatalf("change %d: %d %s", n, s, b)
	}
}

func newAttributed(t *testing.T) *attributed {
	t.Helper()
	a := &attributed{t: t, engines: startEngines(t, 3, "--preset", "instant")}
	a.model = a.engines[0].Model
	dir := t.TempDir()
	for i := range a.tokens {
		a.tokens[i] = filepath.Join(dir, "bearer"+strconv.Itoa(i))
		if err := os.WriteFile(a.tokens[i], []byte("token-"+strconv.Itoa(i)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.head = "listen: {LISTEN}\nadmin: {http: \"{ADMIN}\", token_file: \"{TOKEN}\"}\n" +
		"state_dir: \"{STATE}\"\nidentity: {anonymous: {tenant: local}}\n"
	a.tail = fmt.Sprintf("models: [{name: %s, pools: [main], tokenizer: {dir: %s}}]\n", a.model, demoDir(t)) +
		"profiles: [{name: default, holdout: 0}]\n"
	a.Router = harness.Serve(t, a.yaml(0))
	b, err := os.ReadFile(a.Config)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b) // includes the addresses that Serve chose
	a.head = text[strings.Index(text, "listen:"):strings.Index(text, "pools: [{")]
	a.EventsLive(t, len(a.engines), 30*time.Second)
	return a
}

// TestAttributes_underLoad sends 10,000 requests while labels, price, spot, limits,
// region, timeouts, credentials and probe settings of their pool change. No request
// fails, and no endpoint leaves the fleet.
func TestAttributes_underLoad(t *testing.T) {
	const requests, clients, least = 10_000, 12, 20
	a := newAttributed(t)
	var next, failed, ended atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			defer ended.Add(1)
			for i := next.Add(1); i <= requests; i = next.Add(1) {
				body := chatBody(a.model, "You are client "+strconv.Itoa(c)+". "+strings.Repeat("Answer briefly. ", 10),
					strconv.FormatInt(i, 10), i%8 == 0, 4)
				res, err := harness.Post(a.URL+"/v1/chat/completions", "", body)
				if err != nil || res.Status != 200 || i%8 == 0 && !strings.Contains(string(res.Body), "[DONE]") {
					if failed.Add(1) <= 5 {
						t.Errorf("request %d: %v %+v", i, err, res)
					}
				}
			}
		})
	}
	begun, changes := time.Now(), 0
	for ended.Load() < clients {
		changes++
		a.change(changes)
		time.Sleep(20 * time.Millisecond)
	}
	wg.Wait()
	t.Logf("%d requests in %v, %d failed, %d changes", requests, time.Since(begun).Round(time.Millisecond), failed.Load(),
		changes)
	if failed.Load() != 0 || changes < least {
		t.Errorf("%d of %d requests failed during %d changes, want 0 and at least %d changes", failed.Load(), requests,
			changes, least)
	}
	if n := strings.Count(a.Log.String(), "endpoint removed"); n != 0 {
		t.Errorf("endpoints were removed %d times", n)
	}
}

// TestAttributes_index checks that the router keeps its index of the engines' blocks
// when attributes change.
func TestAttributes_index(t *testing.T) {
	t.Parallel()
	a := newAttributed(t)
	system := strings.Repeat("The fleet keeps what it knows. ", 40)
	ask := func() *harness.Explanation {
		t.Helper()
		res, err := harness.Post(a.URL+"/v1/chat/completions", "", chatBody(a.model, system, "again", false, 4))
		if err != nil || res.Status != 200 {
			t.Fatalf("%v %+v", err, res)
		}
		return harness.Explain(t, a.Admin, a.Token, res.RequestID)
	}
	first := ask()
	harness.Await(t, 10*time.Second, "the engine's events", func() bool { return ask().Predicted > first.Tokens/2 })
	for n := 1; n <= 5; n++ {
		a.change(n)
		e := ask()
		if e.Predicted <= e.Tokens/2 || e.Reported == nil || *e.Reported < e.Predicted {
			t.Errorf("after change %d: %d of %d tokens predicted, %v reported", n, e.Predicted, e.Tokens, e.Reported)
		}
	}
}
