package scheduler

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/policy"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden files")

// TestExplain_golden compares the JSON of `kvasir explain` with the golden
// file; go test -run Explain_golden -rewrite writes it.
func TestExplain_golden(t *testing.T) {
	now := time.Unix(1000, 0)
	r := newRig(t, 3, func(sc *StateConfig, _ *Config) { sc.Now = func() time.Time { return now } })
	r.add("10.0.1.1:8000", "main", map[string]string{"region": "us"})
	r.policy.d.Constraints = []policy.Constraint{{Label: "region", NotIn: true, Values: []string{"us"}}}
	text := words(1, 1000)
	r.index.Add(1, chainOf(text, "s", 16)[:40])
	r.store.Update(2, func(s *endpoint.State) { s.Ready, s.Reason = false, "health: 500" })
	r.store.Load().Loads[1].Charge("globex", 123, 456)
	req := r.request(text)
	p := r.place(req)
	p.FirstToken()
	p.Done(exchange.Outcome{Status: 200, TTFT: 20 * time.Millisecond, E2E: time.Second, HasCached: true,
		CachedTokens: 640, End: exchange.EndComplete})
	e, ok := r.state.Explain("acme", req.ID)
	if !ok {
		t.Fatal("not kept")
	}
	got, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "explain.json")
	if *rewrite {
		if err := os.WriteFile(file, append(got, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestExplain_fields: the fields that scripts read are there.
func TestExplain_fields(t *testing.T) {
	r := newRig(t, 2, nil)
	b, err := json.Marshal(r.sched.DryRun(r.request(words(1, 100))))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields("request_id tenant allow reason status rules model pool namespace_hash tokens " +
		"block_tokens candidates order chosen arm predicted_cached_tokens reported_cached_tokens plugins policy_revision " +
		"revision stages_us endpoint state matched_tokens columns scores total score terms name digest fault") {
		if !strings.Contains(string(b), `"`+f+`":`) {
			t.Errorf("no field %q in %s", f, b)
		}
	}
	if !strings.Contains(string(b), `"reported_cached_tokens":null`) {
		t.Error("reported_cached_tokens is not null before the report")
	}
	for _, secret := range []string{"Bearer", `"s"`} {
		if strings.Contains(string(b), secret) {
			t.Errorf("%s is in the explanation", secret)
		}
	}
}

// TestExplain_earlierBlocks: explain and the observation say that an endpoint may hold blocks
// that the router has not seen.
func TestExplain_earlierBlocks(t *testing.T) {
	o := new(lastSeen)
	r := newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.Observer = o })
	for _, earlier := range []bool{true, false} {
		r.store.Update(0, func(s *endpoint.State) { s.EarlierBlocks = earlier })
		r.store.Update(1, func(s *endpoint.State) { s.Ready, s.Reason = false, "health: 500" })
		req := r.request(words(1, 100))
		p := r.place(req)
		e, ok := r.state.Explain("acme", req.ID)
		if !ok || e.Candidates[0].EarlierBlocks != earlier || e.Candidates[1].EarlierBlocks {
			t.Errorf("explain: kept %v, %+v; want %v of the first endpoint", ok, e.Candidates, earlier)
		}
		p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete})
		if o.earlier != earlier {
			t.Errorf("observation: got %v, want %v", o.earlier, earlier)
		}
	}
}

// TestExplain_termsAddUp: the terms of the built-in cost add up to the score.
func TestExplain_termsAddUp(t *testing.T) {
	r := newRig(t, 3, nil)
	for i, l := range r.store.Load().Loads {
		l.Charge("x", int64(1000*i), int64(500*i))
	}
	for _, c := range r.sched.DryRun(r.request(words(1, 2000))).Candidates {
		s := c.Scores["leastwork"]
		sum := (s.Terms["outstanding"] + s.Terms["own"] + s.Terms["interference"] + s.Terms["kv_active"]) * s.Terms["speed"]
		if d := sum - s.Score; d > .01 || d < -.01 {
			t.Errorf("terms %v add up to %v, score %v", s.Terms, sum, s.Score)
		}
	}
}

func TestDryRun_changesNothing(t *testing.T) {
	r := newRig(t, 3, nil)
	req := r.request(words(1, 1000))
	e := r.sched.DryRun(req)
	if !e.Allow || e.Chosen == "" || len(e.Order) != 3 || e.Order[0] != e.Chosen {
		t.Errorf("got %+v", e)
	}
	r.idle()
	if r.index.adds != 0 {
		t.Error("predicted by a dry run")
	}
	if _, ok := r.state.Explain("acme", req.ID); ok {
		t.Error("a dry run was recorded")
	}
	if n := r.state.Stats().Decisions["cold"]; n != 0 {
		t.Error("a dry run was counted")
	}
	if p := r.place(req); p.Target().Addr != strings.TrimPrefix(e.Chosen, "http://") {
		t.Errorf("placed at %s, the dry run said %s", p.Target().Addr, e.Chosen)
	}
	req.API.Model = "nope"
	if e := r.sched.DryRun(req); e.Allow || e.Status != 404 || e.Reason == "" {
		t.Errorf("got %+v, want a refusal", e)
	}
}

func TestTrace_keepsTheLast(t *testing.T) {
	r := newRig(t, 2, func(sc *StateConfig, _ *Config) { sc.TraceEntries = 10 })
	for i := range 25 {
		req := r.request(words(i, 50))
		req.ID = fmt.Sprint("id", i)
		end(r.place(req))
	}
	for i := range 25 {
		if _, ok := r.state.Explain("acme", fmt.Sprint("id", i)); ok != (i >= 15) {
			t.Errorf("id%d: got kept %v, want %v", i, ok, i >= 15)
		}
	}
	long := strings.Repeat("x", 300)
	req := r.request("x")
	req.ID = long
	end(r.place(req))
	if e, ok := r.state.Explain("acme", long); !ok || e.RequestID != long {
		t.Error("a long request id is not found")
	}
	if _, ok := r.state.Explain("acme", long+"y"); ok {
		t.Error("another long id with the same beginning is found")
	}
}

// TestTrace_byteBound: the bound holds: candidates are overwritten, and a decision that
// lost some of its candidates is forgotten as a whole.
func TestTrace_byteBound(t *testing.T) {
	r := newRig(t, 100, func(sc *StateConfig, _ *Config) { sc.TraceBytes = 1 })
	for i := range 50 {
		req := r.request(words(i, 50))
		req.ID = fmt.Sprint("id", i)
		end(r.place(req))
	}
	if n := len(r.state.trace[0].cands); n != minTraceCands {
		t.Errorf("got %d candidates kept, want %d", n, minTraceCands)
	}
	kept := 0
	for i := range 50 {
		if e, ok := r.state.Explain("acme", fmt.Sprint("id", i)); ok {
			kept++
			if len(e.Candidates) != 100 || e.Chosen == "" {
				t.Errorf("id%d is incomplete: %d candidates", i, len(e.Candidates))
			}
		}
	}
	if kept != minTraceCands/100 {
		t.Errorf("got %d decisions kept, want %d of 100 candidates each", kept, minTraceCands/100)
	}
}

// TestExplain_tenants: clients choose request ids. Two tenants that use the same one each
// get their own decision, and another tenant's id is treated as unknown.
func TestExplain_tenants(t *testing.T) {
	r := newRig(t, 2, nil)
	ask := func(tenant, id string, tokens int) {
		req := r.request(words(1, tokens))
		req.ID, req.Principal = id, &identity.Principal{Tenant: tenant}
		end(r.place(req))
	}
	ask("acme", "same", 100)
	ask("globex", "same", 200)
	ask("globex", "foreign", 300)
	for _, c := range []struct {
		tenant, id string
		tokens     int // 0 = not found
	}{{"acme", "same", 100}, {"globex", "same", 200}, {"globex", "foreign", 300}, {"acme", "foreign", 0},
		{"acme", "absent", 0}, {"", "same", 0}} {
		for name, explain := range map[string]func(tenant, id string) (*Explanation, bool){"state": r.state.Explain,
			"scheduler": r.sched.Explain} {
			e, ok := explain(c.tenant, c.id)
			if ok != (c.tokens > 0) || ok && (e.Tokens != c.tokens || e.Tenant != c.tenant) {
				t.Errorf("%s: %s of %q: got %v %+v, want %d tokens", name, c.id, c.tenant, ok, e, c.tokens)
			}
		}
	}
	for id, want := range map[string][]string{"same": {"acme", "globex"}, "foreign": {"globex"}, "absent": nil} {
		if got := r.state.ExplainTenants(id); !slices.Equal(got, want) {
			t.Errorf("tenants of %s: got %q, want %q", id, got, want)
		}
	}
}
