package fleet

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// awaitRevision waits until a policy with a revision other than before is in force, and
// returns its revision.
func awaitRevision(t *testing.T, admin, token, before string) string {
	t.Helper()
	var s policyState
	harness.Await(t, 10*time.Second, "the edited policy", func() bool {
		s = policyOf(t, admin, token)
		return s.State == "ok" && s.Revision != before
	})
	return s.Revision
}

// TestPolicy_trustGroup checks that two tenants share cached blocks while both are in
// the same trust group, and neither before nor after.
func TestPolicy_trustGroup(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	api := &harness.APIs[0]
	round := 0
	var placed *harness.Explanation // of globex's last request
	// shared sends a new prompt as acme and returns how much of it is cached for globex.
	shared := func() (predicted, reported int) {
		t.Helper()
		round++
		system := strings.Repeat(fmt.Sprintf("Round %d of a prompt that two tenants have. ", round), 60)
		e, r := askIn(t, d.URL, d.Admin, d.AdminToken, d.Tenants["acme"], d.Model, api, system, "one")
		if e.Predicted != 0 || r.Cached != 0 {
			t.Fatalf("round %d: acme's prompt is not new: predicted %d, reported %d", round, e.Predicted, r.Cached)
		}
		e, r = askIn(t, d.URL, d.Admin, d.AdminToken, d.Tenants["globex"], d.Model, api, system, "one")
		placed = e
		return e.Predicted, r.Cached
	}
	revision := policyOf(t, d.Admin, d.AdminToken).Revision
	tenant := func(name string) string { return filepath.Join(d.PolicyDir, "data", "tenants", name+".json") }
	group := filepath.Join(d.PolicyDir, "data", "trust_groups", "trust_groups.json")
	join := func(name string) {
		editFile(t, tenant(name), `"cache": "tenant"`, `"cache": "group", "trust_group": "both"`)
		revision = awaitRevision(t, d.Admin, d.AdminToken, revision)
	}
	nothing := func(when string) {
		t.Helper()
		if p, r := shared(); p != 0 || r != 0 {
			t.Errorf("%s: globex on acme's prompt: predicted %d, reported %d", when, p, r)
		}
	}
	nothing("without a group")
	editFile(t, group, "{}", `{"both": {"members": {"acme": true}}}`)
	revision = awaitRevision(t, d.Admin, d.AdminToken, revision)
	nothing("a group that no tenant names")
	join("acme")
	join("globex")
	nothing("a group that does not list globex")
	editFile(t, group, `"acme": true`, `"acme": true, "globex": true`)
	revision = awaitRevision(t, d.Admin, d.AdminToken, revision)
	if p, r := shared(); p == 0 || p != r {
		t.Errorf("both tenants in the group: globex on acme's prompt: predicted %d, reported %d: %+v", p, r, placed)
	}
	editFile(t, tenant("globex"), `"cache": "group"`, `"cache": "tenant"`)
	revision = awaitRevision(t, d.Admin, d.AdminToken, revision)
	nothing("globex left")
}

// TestPolicy_dedicatedPool checks that a tenant moves to its own pool with the next
// request, that no other tenant's request reaches that pool whatever its record says,
// and that a request for a region without endpoints is refused, not placed elsewhere.
func TestPolicy_dedicatedPool(t *testing.T) {
	t.Parallel()
	main, bank := startEngine(t, "--preset", "instant"), startEngine(t, "--preset", "instant")
	dir := filepath.Join(t.TempDir(), "policy")
	if out, code := kvasir(t, "policy", "init", dir, "--example", "dedicated_pool"); code != 0 {
		t.Fatalf("policy init: %d %s", code, out)
	}
	state := filepath.Join(t.TempDir(), "state")
	keys := filepath.Join(state, "keys.json")
	key := map[string]string{"acme": harness.IssueKey(t, keys, state, "acme"),
		"bank": harness.IssueKey(t, keys, state, "bank")}
	pool := func(name, region string, e *engine) string {
		return fmt.Sprintf("{name: %s, labels: {region: %s}, endpoints: [%q], events: {sources: [{endpoint: %q, events: "+
			"%q, replay: %q}]}}", name, region, e.URL, e.URL, e.Events, e.Replay)
	}
	r := harness.Serve(t, fmt.Sprintf(`
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: %q
identity: {api_keys_file: %q}
pools: [%s, %s]
models: [{name: %s, pools: [main, bank], tokenizer: {dir: %s}}]
policy: {dir: %q}
`, state, keys, pool("main", "us", main), pool("bank", "eu", bank), main.Model, demoDir(t), dir))
	live(t, r, 2)
	revision := policyOf(t, r.Admin, r.Token).Revision
	edit := func(tenant, old, new string) {
		t.Helper()
		editFile(t, filepath.Join(dir, "data", "tenants", tenant+".json"), old, new)
		revision = awaitRevision(t, r.Admin, r.Token, revision)
	}
	ask := func(tenant, user string) (*harness.Answer, *harness.Explanation) {
		t.Helper()
		a, err := harness.Post(r.URL+"/v1/chat/completions", key[tenant],
			chatBody(main.Model, "You are brief.", user, false, 2))
		if err != nil {
			t.Fatal(err)
		}
		return a, harness.Explain(t, r.Admin, r.Token, a.RequestID)
	}
	on := func(when, tenant string, want *engine) {
		t.Helper()
		for i := range 8 {
			a, e := ask(tenant, fmt.Sprint(when, i))
			if a.Status != 200 || e.Chosen != want.URL {
				t.Errorf("%s: %s got %d on %s, want %s: %s", when, tenant, a.Status, e.Chosen, want.URL, a.Body)
			}
		}
	}
	on("at first", "acme", main)
	on("at first", "bank", bank)
	edit("acme", `"pools": ["main"]`, `"pools": ["main", "bank"]`)
	on("acme names the pool of bank", "acme", main)
	edit("bank", `"pools": ["bank"]`, `"pools": ["bank", "main"]`)
	if a, _ := ask("bank", "strays"); a.Status != 403 || !strings.Contains(string(a.Body), "dedicated_owner_strays") {
		t.Errorf("a request of bank reached another pool: %d %s", a.Status, a.Body)
	}
	edit("acme", `"regions": "any"`, `"regions": ["eu"]`)
	if a, _ := ask("acme", "eu"); a.Status != 503 || !strings.Contains(string(a.Body), "no_eligible_endpoint") {
		t.Errorf("acme in a region without endpoints of its pools: %d %s", a.Status, a.Body)
	}
	edit("acme", `"regions": ["eu"]`, `"regions": ["us", "eu"]`)
	on("acme in both regions", "acme", main)
}
