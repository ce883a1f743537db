package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// policyState is the part of GET /v1/policy that the tests read.
type policyState struct {
	State     string `json:"state"`
	Source    string `json:"source"`
	Revision  string `json:"revision"`
	LastError string `json:"last_error"`
	Faults    []struct {
		File, What, Fix string
		Line            int
	} `json:"faults"`
	Diff *struct {
		Compared    int `json:"compared"`
		AllowToDeny int `json:"allow_to_deny"`
	} `json:"diff"`
}

func policyOf(t testing.TB, admin, token string) (s policyState) {
	t.Helper()
	status, b := harness.GetBody(admin+"/v1/policy", token)
	if err := json.Unmarshal(b, &s); err != nil || status != 200 {
		t.Fatalf("%d %v: %s", status, err, b)
	}
	return s
}

// editFile replaces text in a file.
func editFile(t testing.TB, file, old, new string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %q", file, old)
	}
	save(t, file, []byte(strings.Replace(string(b), old, new, 1)))
}

// kvasir runs the command and returns its output and exit code.
func kvasir(t testing.TB, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), args...)
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// TestPolicy_dev checks that in kvasir dev an edit of a tenant's data applies to the
// next request, while a stream in flight continues. After a broken rule or a broken test
// the previous policy stays in force, and the CLI, the admin API, the log and a metric
// report file, line and fix.
func TestPolicy_dev(t *testing.T) {
	d := harness.StartDev(t)
	ask := func(tenant string) (*harness.Answer, int) {
		t.Helper()
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants[tenant],
			chatBody(d.Model, "You are brief.", "x", false, 4))
		if err != nil {
			t.Fatal(err)
		}
		return a, a.Status
	}
	if a, status := ask("acme"); status != 200 {
		t.Fatalf("%d %s", status, a.Body)
	}
	acme := filepath.Join(d.PolicyDir, "data", "tenants", "acme.json")
	streamed := make(chan error, 1)
	var ended atomic.Bool
	go func() {
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants["acme"],
			chatBody(d.Model, "You are long.", "y", true, 300))
		ended.Store(true)
		if err == nil && (a.Status != 200 || !strings.Contains(string(a.Body), "[DONE]")) {
			err = fmt.Errorf("%d %.200s", a.Status, a.Body)
		}
		streamed <- err
	}()
	harness.Await(t, 5*time.Second, "the stream began", func() bool {
		_, b := harness.GetBody(d.Admin+"/metrics", d.AdminToken)
		return strings.Contains(string(b), "kvasir_inflight 1")
	})
	begun := time.Now()
	editFile(t, acme, `"models": {"*": true}`, `"models": {"other": true}`)
	harness.Await(t, 5*time.Second, "acme lost the model", func() bool { _, status := ask("acme"); return status == 403 })
	took := time.Since(begun)
	if took > 1500*time.Millisecond {
		t.Errorf("the edit was in force after %v, want within a second", took)
	}
	if _, status := ask("globex"); status != 200 {
		t.Errorf("globex: %d", status)
	}
	t.Logf("in force after %v; the stream had ended: %v", took, ended.Load())
	if err := <-streamed; err != nil {
		t.Errorf("the stream in flight: %v", err)
	}
	editFile(t, acme, `"models": {"other": true}`, `"models": {"*": true}`)
	harness.Await(t, 5*time.Second, "acme has the model back",
		func() bool { _, status := ask("acme"); return status == 200 })

	good := policyOf(t, d.Admin, d.AdminToken)
	if good.State != "ok" || good.Source != "directory" {
		t.Errorf("got %+v", good)
	}
	refused := func(file, old, new, wantFile, what, fix string) {
		t.Helper()
		name := filepath.Join(d.PolicyDir, filepath.FromSlash(file))
		editFile(t, name, old, new)
		out, code := kvasir(t, "policy", "check", d.PolicyDir)
		if code != 1 || !strings.Contains(out, wantFile+":") || !strings.Contains(out, what) || !strings.Contains(out, fix) {
			t.Errorf("check: %d %s", code, out)
		}
		var s policyState
		harness.Await(t, 5*time.Second, "refused: "+what, func() bool {
			s = policyOf(t, d.Admin, d.AdminToken)
			return s.State == "degraded" && strings.Contains(s.LastError, what)
		})
		reported := false
		for _, f := range s.Faults {
			reported = reported || f.File == wantFile && f.Line > 0 && strings.Contains(f.Fix, fix)
		}
		if s.Revision != good.Revision || !reported {
			t.Errorf("got %+v", s)
		}
		if !strings.Contains(d.Log.String(), "policy refused, the previous one stays in force") ||
			!strings.Contains(d.Log.String(), what) {
			t.Errorf("the log lacks %q", what)
		}
		if _, status := ask("acme"); status != 200 {
			t.Errorf("with a refused policy: %d", status)
		}
		_, b := harness.GetBody(d.Admin+"/metrics", d.AdminToken)
		if !strings.Contains(string(b), "kvasir_policy_load_failures_total ") ||
			strings.Contains(string(b), "kvasir_policy_load_failures_total 0\n") {
			t.Error("no metric counts the failure")
		}
		editFile(t, name, new, old)
		harness.Await(t, 5*time.Second, "the fixed policy in force",
			func() bool { return policyOf(t, d.Admin, d.AdminToken).State == "ok" })
	}
	refused("kvasir/admission.rego", "input.request.model", "input.request.modle", "kvasir/admission.rego",
		"undefined ref: input.request.modle", `did you mean "model"?`)
	refused("kvasir/decision.rego", `"constraints":`, `"contraints":`, "kvasir/decision.rego",
		"unknown decision field contraints", `did you mean "constraints"?`)
	refused("data/tenants/acme.json", `"pools"`, `"pool"`, "data/tenants/acme.json", "pool", "pools")
	if out, code := kvasir(t, "policy", "reload", "--admin", d.Admin, "--token", d.AdminToken); code != 0 ||
		!strings.Contains(out, "ok: revision "+good.Revision) {
		t.Errorf("reload: %d %s", code, out)
	}
}

// policyBody is a policy whose decisions contain its number in several fields: a
// rule's id, the trust group and the reason.
func policyBody(number int) string {
	return fmt.Sprintf(`package kvasir

default decision := {"allow": false, "reason": "undefined"}

# METADATA
# labels: {id: rule_%[1]d}
decision := {
	"allow": true,
	"constraints": [{"label": "pool", "op": "in", "values": ["main"]}],
	"cache": {"scope": "group", "group": data.group},
} if {
	input.request.model != ""
	data.number == %[1]d
}
`, number)
}

// writePolicy writes a numbered policy to dir. Its data contains the number too.
func writePolicy(t testing.TB, dir string, number int) {
	t.Helper()
	for _, d := range []string{"kvasir", "data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	save(t, filepath.Join(dir, "data", "data.json"), fmt.Appendf(nil, `{"group": "g%[1]d", "number": %[1]d}`, number))
	save(t, filepath.Join(dir, "kvasir", "decision.rego"), []byte(policyBody(number)))
}

// TestPolicy_reloadsUnderLoad replaces policies under load. No request fails, no
// decision mixes parts of two policies, and streams continue.
func TestPolicy_reloadsUnderLoad(t *testing.T) {
	reloads := 500
	if testing.Short() {
		reloads = 50
	}
	engines := startEngines(t, 2)
	dirs := [2]string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	link := filepath.Join(t.TempDir(), "policy")
	writePolicy(t, dirs[0], 0)
	if err := os.Symlink(dirs[0], link); err != nil {
		t.Fatal(err)
	}
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}", "{name: default, holdout: 0}",
		fmt.Sprintf("policy: {dir: %q}\n", link+"/"))
	model := engines[0].Model
	var mu sync.Mutex            // guards known and seen
	known := map[string]string{} // revision → rule and namespace
	seen := map[string]string{}
	note := func(number int) {
		t.Helper()
		s, b := adminDo(t, r, "POST", "/v1/policy/explain",
			fmt.Appendf(nil, `{"tenant": {"id": "local"}, "request": {"model": %q}}`, model))
		var x struct {
			Revision string
			Decision struct {
				Allow     bool
				Rules     []string
				Namespace string `json:"namespace_hash"`
			}
		}
		if err := json.Unmarshal(b, &x); err != nil || s != 200 || !x.Decision.Allow ||
			!slices.Equal(x.Decision.Rules, []string{"rule_" + strconv.Itoa(number)}) {
			t.Fatalf("policy %d: %v %s", number, err, b)
		}
		mu.Lock()
		known[x.Revision] = x.Decision.Rules[0] + " " + x.Decision.Namespace
		mu.Unlock()
	}
	note(0)
	var stop atomic.Bool
	var sent, failed, streams atomic.Int64
	var wg sync.WaitGroup
	for c := range 12 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				stream, tokens := c < 2, 4
				if stream {
					tokens = 200
				}
				a, err := harness.Post(r.URL+"/v1/chat/completions", "",
					chatBody(model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), stream, tokens))
				if sent.Add(1); err != nil || a.Status != 200 || stream && !strings.Contains(string(a.Body), "[DONE]") {
					failed.Add(1)
					t.Errorf("%v %+v", err, a)
					return
				}
				if stream {
					streams.Add(1)
				}
				var e harness.Explanation
				if s, b := harness.GetBody(r.Admin+"/v1/explain/"+a.RequestID, r.Token); s != 200 || json.Unmarshal(b, &e) != nil ||
					len(e.Rules) != 1 {
					t.Errorf("explain: %d %s", s, b)
					return
				}
				mu.Lock()
				parts := e.Rules[0] + " " + e.Namespace
				if old := seen[e.Revision]; old != "" && old != parts {
					t.Errorf("revision %s: %s and %s", e.Revision, old, parts)
				}
				seen[e.Revision] = parts
				mu.Unlock()
			}
		})
	}
	begun := time.Now()
	for i := 1; i <= reloads; i++ {
		// written to a new directory and swapped in with one rename, as Kubernetes does
		writePolicy(t, dirs[i%2], i)
		next := link + ".next"
		if err := os.Symlink(dirs[i%2], next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, link); err != nil {
			t.Fatal(err)
		}
		if s, b := adminDo(t, r, "POST", "/v1/policy/reload", nil); s != 200 {
			t.Fatalf("reload %d: %d %s", i, s, b)
		}
		note(i)
		harness.Await(t, 30*time.Second, "requests between reloads", func() bool { return sent.Load() >= int64(4*i) })
	}
	took := time.Since(begun)
	stop.Store(true)
	wg.Wait()
	for revision, parts := range seen {
		if known[revision] != parts {
			t.Errorf("a request was decided by %s with %s, that revision is %s", revision, parts, known[revision])
		}
	}
	t.Logf("%d reloads in %v, %d requests of which %d streams, %d failed; %d revisions decided", reloads,
		took.Round(time.Millisecond), sent.Load(), streams.Load(), failed.Load(), len(seen))
	if len(seen) < reloads/25 || streams.Load() == 0 {
		t.Errorf("only %d revisions decided, %d streams", len(seen), streams.Load())
	}
}

// TestPolicy_lastGood checks that a router that starts with a broken policy uses the
// last good one and reports this. A router without any policy is not ready until one loads.
func TestPolicy_lastGood(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 1)
	dir := filepath.Join(t.TempDir(), "policy")
	writePolicy(t, dir, 7)
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}", "{name: default, holdout: 0}",
		fmt.Sprintf("policy: {dir: %q}\n", dir))
	before := policyOf(t, r.Admin, r.Token)
	if e := ask(t, r, engines[0].Model, "1"); e.Revision != before.Revision || !slices.Equal(e.Rules, []string{"rule_7"}) {
		t.Errorf("got %+v", e)
	}
	rules := filepath.Join(dir, "kvasir", "decision.rego")
	save(t, rules, []byte("package kvasir\n\ndecision := {"))
	r.Restart(t)
	s := policyOf(t, r.Admin, r.Token)
	if s.State != "degraded" || s.Source != "last_good" || s.Revision != before.Revision || len(s.Faults) == 0 ||
		s.Faults[0].File != "kvasir/decision.rego" {
		t.Errorf("got %+v", s)
	}
	if e := ask(t, r, engines[0].Model, "2"); e.Revision != before.Revision {
		t.Errorf("got %+v", e)
	}
	if !strings.Contains(r.Log.String(), "the last good one is in force") {
		t.Error("the log does not report it")
	}
	writePolicy(t, dir, 8)
	harness.Await(t, 5*time.Second, "the fixed policy", func() bool {
		return slices.Equal(ask(t, r, engines[0].Model, "3").Rules, []string{"rule_8"})
	})
	if s := policyOf(t, r.Admin, r.Token); s.State != "ok" || s.Source != "directory" {
		t.Errorf("got %+v", s)
	}
}

// TestPolicy_cli checks that the command line reports what a new policy would change
// for the live decisions, and which rules decided about a request. These commands
// change nothing.
func TestPolicy_cli(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--engines", "1")
	at := []string{"--admin", d.Admin, "--token", d.AdminToken}
	for _, tenant := range []string{"acme", "globex"} {
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants[tenant],
			chatBody(d.Model, "You are brief.", "x", false, 4))
		if err != nil || a.Status != 200 {
			t.Fatalf("%v %+v", err, a)
		}
		out, code := kvasir(t, append([]string{"policy", "explain", "--request", a.RequestID}, at...)...)
		if code != 0 || !strings.Contains(out, "tenant     "+tenant) || !strings.Contains(out, "tenant_pools") ||
			!strings.Contains(out, "allowed") {
			t.Errorf("explain: %d %s", code, out)
		}
	}
	before := policyOf(t, d.Admin, d.AdminToken)
	next := filepath.Join(t.TempDir(), "next")
	if out, code := kvasir(t, "policy", "init", next); code != 0 {
		t.Fatalf("init: %d %s", code, out)
	}
	diff := func(args ...string) (string, int) {
		return kvasir(t, append(append([]string{"policy", "diff", next, "--exit-code"}, args...), at...)...)
	}
	if out, code := diff(); code != 0 || !strings.Contains(out, "0 µs") &&
		!strings.Contains(out, "with the same decision") {
		t.Errorf("the same policy: %d %s", code, out)
	}
	editFile(t, filepath.Join(next, "data", "tenants", "globex.json"), `"models": {"*": true}`,
		`"models": {"other": true}`)
	editFile(t, filepath.Join(next, "data", "tenants", "acme.json"), `"pools": ["main"]`, `"pools": ["main", "spare"]`)
	out, code := diff()
	if code != 1 || !strings.Contains(out, "1 allowed before, denied now") ||
		!strings.Contains(out, "1 other endpoints") || !strings.Contains(out, `"id":"globex"`) {
		t.Errorf("diff: %d %s", code, out)
	}
	editFile(t, filepath.Join(next, "kvasir", "admission.rego"), "package kvasir.admission", "package kvasir.admision")
	if out, code := diff(); code != 1 || !strings.Contains(out, "no such rule data.kvasir.admission") {
		t.Errorf("a faulty one: %d %s", code, out)
	}
	if after := policyOf(t, d.Admin, d.AdminToken); after.Revision != before.Revision || after.State != "ok" {
		t.Errorf("the commands changed the policy: %+v", after)
	}
	if out, code := kvasir(t, "policy", "status", "--admin", d.Admin, "--token", "wrong-token"); code != 1 ||
		!strings.Contains(out, "token") {
		t.Errorf("a wrong token: %d %s", code, out)
	}
	if _, code := kvasir(t, "policy", "status", "--admin", "http://127.0.0.1:1", "--token", "x"); code != 3 {
		t.Errorf("no router: exit code %d, want 3", code)
	}
	if _, code := kvasir(t, "policy", "explain", next, "--model", "m"); code != 2 {
		t.Errorf("no tenant: exit code %d, want 2", code)
	}
	inputs := filepath.Join(t.TempDir(), "inputs")
	save(t, inputs, []byte(`{"tenant": {"id": "acme", "auth": {"method": "api_key"}}, "request": {"model": "m"}}`+"\n"))
	other := filepath.Join(t.TempDir(), "other")
	if out, code := kvasir(t, "policy", "init", other); code != 0 {
		t.Fatalf("init: %d %s", code, out)
	}
	editFile(t, filepath.Join(other, "data", "tenants", "acme.json"), `"enabled": true`, `"enabled": false`)
	out, code = kvasir(t, "policy", "diff", other, "--old", d.PolicyDir, "--inputs", inputs)
	if code != 0 || !strings.Contains(out, "1 inputs compared, 0 with the same decision") ||
		!strings.Contains(out, "tenant_disabled") {
		t.Errorf("offline: %d %s", code, out)
	}
}

// TestPolicy_settings checks that gates refuse a policy that changes too much, unless it
// is forced, and that a broken policy delays no other change. If a policy gives no
// decision, the answer is 503 or, if so configured, the fallback decides.
func TestPolicy_settings(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 1)
	model := engines[0].Model
	dir := filepath.Join(t.TempDir(), "policy")
	rules := filepath.Join(dir, "kvasir", "decision.rego")
	writePolicy(t, dir, 1)
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}", "{name: default, holdout: 0}",
		fmt.Sprintf("policy: {dir: %q, gates: {allow_to_deny: 0.1}}\n", dir))
	status := func(name string) (int, string) {
		t.Helper()
		a, err := harness.Post(r.URL+"/v1/chat/completions", "", chatBody(name, "You are brief.", "x", false, 4))
		if err != nil {
			t.Fatal(err)
		}
		return a.Status, string(a.Body)
	}
	expect := func(what string, want int, text string) {
		t.Helper()
		harness.Await(t, 5*time.Second, what, func() bool {
			s, b := status(model)
			return s == want && strings.Contains(b, text)
		})
	}
	expect("allowed", 200, "")
	denies := `package kvasir

default decision := {"allow": false, "reason": "closed"}
`
	save(t, rules, []byte(denies))
	if s, b := adminDo(t, r, "POST", "/v1/policy/reload", nil); s != 422 ||
		!strings.Contains(string(b), "1 of 1 live decisions would be denied") {
		t.Errorf("the gate: %d %s", s, b)
	}
	expect("still allowed", 200, "")
	if s, b := adminDo(t, r, "POST", "/v1/policy/reload?force=true", nil); s != 200 {
		t.Errorf("forced: %d %s", s, b)
	}
	expect("denied", 403, "closed")

	// a broken policy delays no other change
	save(t, rules, []byte("package kvasir\n\ndecision {"))
	editFile(t, r.Config, "models: [{name: "+model+",", "models: [{name: "+model+", aliases: [another],")
	s, b := adminDo(t, r, "POST", "/v1/reload", nil)
	if s != 422 || !strings.Contains(string(b), "all other changes are in force") ||
		!strings.Contains(string(b), "kvasir/decision.rego:3") {
		t.Errorf("reload with a broken policy: %d %s", s, b)
	}
	if s, b := status("another"); s != 403 || !strings.Contains(b, "closed") {
		t.Errorf("the alias is not in force: %d %s", s, b)
	}

	// a policy that contradicts itself gives no decision
	both := policyBody(1) + "\ndecision := {\"allow\": false, \"reason\": \"other\"} if input.request.model == \"" +
		model + "\"\n"
	save(t, rules, []byte(both))
	if s, b := adminDo(t, r, "POST", "/v1/policy/reload?force=true", nil); s != 200 {
		t.Fatalf("reload: %d %s", s, b)
	}
	expect("no decision", 503, "policy_error")
	editFile(t, r.Config, "gates: {allow_to_deny: 0.1}", "on_error: allow, fallback: {pools: [main]}")
	if s, b := adminDo(t, r, "POST", "/v1/reload", nil); s != 200 {
		t.Fatalf("reload: %d %s", s, b)
	}
	expect("the fallback", 200, "")
	if n := gauges(t, r)["kvasir_policy_fallbacks_total"]; n == 0 {
		t.Error("the fallback is not counted")
	}
	if e := ask(t, r, model, "y"); !slices.Equal(e.Rules, []string{"policy_fallback"}) || e.Namespace == "public" ||
		e.Namespace == "" {
		t.Errorf("got %+v", e)
	}
}

// TestPolicy_push checks that a pushed policy is in force although the directory holds
// another one, also after a restart and a reload of the rest, until the directory
// changes or an operator requests it. A faulty policy is refused.
func TestPolicy_push(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 1)
	dir, other := filepath.Join(t.TempDir(), "policy"), filepath.Join(t.TempDir(), "other")
	writePolicy(t, dir, 1)
	writePolicy(t, other, 2)
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}", "{name: default, holdout: 0}",
		fmt.Sprintf("policy: {dir: %q}\n", dir))
	n := 0
	decides := func(what string, number int) {
		t.Helper()
		harness.Await(t, 5*time.Second, what, func() bool {
			n++
			return slices.Equal(ask(t, r, engines[0].Model, strconv.Itoa(n)).Rules, []string{"rule_" + strconv.Itoa(number)})
		})
	}
	push := func() (string, int) {
		return kvasir(t, "policy", "push", other, "--admin", r.Admin, "--token", r.Token)
	}
	decides("the directory's", 1)
	if out, code := push(); code != 0 || !strings.Contains(out, "from pushed") {
		t.Fatalf("push: %d %s", code, out)
	}
	decides("the pushed", 2)
	if s, b := adminDo(t, r, "POST", "/v1/reload", nil); s != 200 {
		t.Errorf("reload: %d %s", s, b)
	}
	decides("the pushed after a reload", 2)
	r.Restart(t)
	if s := policyOf(t, r.Admin, r.Token); s.State != "ok" || s.Source != "pushed" {
		t.Errorf("after a restart: %+v", s)
	}
	decides("the pushed after a restart", 2)
	save(t, filepath.Join(other, "kvasir", "x.rego"), []byte("package kvasir\n\nx {"))
	if out, code := push(); code != 1 || !strings.Contains(out, "kvasir/x.rego:3") {
		t.Errorf("a faulty one: %d %s", code, out)
	}
	decides("the pushed after a faulty one", 2)
	writePolicy(t, dir, 3)
	decides("the directory's, changed", 3)
	if s := policyOf(t, r.Admin, r.Token); s.State != "ok" || s.Source != "directory" {
		t.Errorf("after an edit: %+v", s)
	}
	if err := os.Remove(filepath.Join(other, "kvasir", "x.rego")); err != nil {
		t.Fatal(err)
	}
	if out, code := push(); code != 0 {
		t.Fatalf("push: %d %s", code, out)
	}
	decides("pushed again", 2)
	if s, b := adminDo(t, r, "POST", "/v1/policy/reload", nil); s != 200 {
		t.Errorf("reload: %d %s", s, b)
	}
	decides("the directory's, asked for", 3)
}
