package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// cli runs kvasir and returns its output and exit code.
func cli(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), args...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(o.String()), e.String(), cmd.ProcessState.ExitCode()
}

// ok runs kvasir, which must succeed, and returns its output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := cli(t, args...)
	if code != 0 {
		t.Fatalf("kvasir %s: exit %d\n%s", strings.Join(args, " "), code, errs)
	}
	return out
}

// issued is the JSON of an issued key.
type issued struct{ ID, Key, Tenant string }

func keyOf(t *testing.T, out string) issued {
	t.Helper()
	var k issued
	if err := json.Unmarshal([]byte(out), &k); err != nil || k.Key == "" {
		t.Fatalf("%v: %s", err, out)
	}
	return k
}

// TestKeyLife issues, rotates and revokes keys of a running router with a key that
// grants only these operations. A change is in force when the command returns.
func TestKeyLife(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--engines", "1")
	as := func(token string, args ...string) []string {
		return append(args, "--admin", d.Admin, "--token", token)
	}
	ask := func(key string) int { return harness.Get(d.URL+"/v1/models", key) }
	operator := keyOf(t, ok(t, as(d.AdminToken, "key", "issue", "--tenant", "ops", "--scope", "key:*@*",
		"--label", "team=sre", "--output", "json")...))
	first := keyOf(t, ok(t, as(operator.Key, "key", "issue", "--tenant", "acme", "--user", "u1", "--output", "json")...))
	if got := ask(first.Key); got != 200 {
		t.Fatalf("an issued key: %d", got)
	}
	second := keyOf(t, ok(t, as(operator.Key, "key", "rotate", first.ID, "--grace", "1h", "--output", "json")...))
	if a, b := ask(first.Key), ask(second.Key); a != 200 || b != 200 {
		t.Errorf("within the grace period: %d and %d", a, b)
	}
	third := keyOf(t, ok(t, as(operator.Key, "key", "rotate", second.ID, "--grace", "0s", "--output", "json")...))
	if a, b := ask(second.Key), ask(third.Key); a != 401 || b != 200 {
		t.Errorf("without a grace period: %d and %d", a, b)
	}
	for range 20 { // the first request after each revocation is refused
		k := keyOf(t, ok(t, as(operator.Key, "key", "issue", "--tenant", "acme", "--output", "json")...))
		if got := ask(k.Key); got != 200 {
			t.Fatalf("an issued key: %d", got)
		}
		ok(t, as(operator.Key, "key", "revoke", k.ID)...)
		if got := ask(k.Key); got != 401 {
			t.Fatalf("a revoked key: %d", got)
		}
	}
	for what, args := range map[string][]string{
		"config:reload":   {"POST", "/v1/reload"},
		"plugin:activate": {"DELETE", "/v1/plugins/leastwork"},
		"explain:own":     {"GET", "/v1/explain/x"},
		"metrics:read":    {"GET", "/metrics"},
		"debug:profile":   {"GET", "/debug/pprof/heap"},
		"endpoint:read":   {"GET", "/v1/endpoints"},
		"status:read":     {"GET", "/v1/status"},
		"plugin:read":     {"GET", "/v1/plugins"},
	} {
		status, body := harness.Do(args[0], d.Admin+args[1], operator.Key)
		if status != 403 || !strings.Contains(string(body), what) {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	if _, errs, code := cli(t,
		as(operator.Key, "key", "issue", "--tenant", "ops", "--scope", "plugin:push")...); code != 1 ||
		!strings.Contains(errs, "plugin:push") {
		t.Errorf("more scopes than the issuer has: exit %d: %s", code, errs)
	}
	// keys without scopes; one is revoked
	for _, key := range []string{first.Key, second.Key, third.Key, d.Tenants["globex"]} {
		if status, body := harness.GetBody(d.Admin+"/v1/keys", key); status != 403 && (key != second.Key || status != 401) {
			t.Errorf("a tenant's key on the admin listener: %d %s", status, body)
		}
	}
	checkAudit(t, d, operator, first)
}

// checkAudit verifies the audit log of TestKeyLife and detects modifications of copies of it.
func checkAudit(t *testing.T, d *harness.Dev, operator, first issued) {
	t.Helper()
	log := filepath.Join(d.StateDir, "audit.log")
	// on the file, without the running router
	before := ok(t, "key", "issue", "--state-dir", d.StateDir, "--tenant", "globex")
	harness.Await(t, 5*time.Second, "a key of the file accepted",
		func() bool { return harness.Get(d.URL+"/v1/models", before) == 200 })
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{
		`"actor":"admin_token","verb":"key:issue","object":"tenant/ops","result":"ok"`,
		`"actor":"key:` + operator.ID + `","verb":"key:issue","object":"tenant/acme","result":"begun"`,
		`"actor":"key:` + operator.ID + `","verb":"key:rotate","object":"key/` + first.ID + `","result":"ok"`,
		`"verb":"key:revoke"`, `"verb":"config:reload","object":"config","result":"refused"`,
		`"actor":"cli:`, `"verb":"router:start"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
	for _, secret := range []string{operator.Key, first.Key, before, d.AdminToken} {
		if strings.Contains(text, secret) || strings.Contains(d.Log.String(), secret) {
			t.Error("a log contains a key")
		}
	}
	var st struct {
		Head string `json:"audit_head"`
	}
	_, sb := harness.GetBody(d.Admin+"/v1/status", d.AdminToken)
	if err := json.Unmarshal(sb, &st); err != nil {
		t.Fatal(err)
	}
	out := ok(t, "audit", "verify", log, "--anchor", st.Head)
	number := regexp.MustCompile(`kvasir_audit_head (\d+)`).FindStringSubmatch(out)
	_, metrics := harness.GetBody(d.Admin+"/metrics", d.AdminToken)
	m := regexp.MustCompile(`(?m)^kvasir_audit_head (\S+)$`).FindSubmatch(metrics)
	if number == nil || m == nil {
		t.Fatalf("no head in %q or the metrics", out)
	}
	var shown float64
	if fmt.Sscan(string(m[1]), &shown); fmt.Sprintf("%.0f", shown) != number[1] {
		t.Errorf("metric %.0f, verify reports %s", shown, number[1])
	}

	lines := strings.SplitAfter(text, "\n")
	copied := filepath.Join(t.TempDir(), "audit.log")
	for what, edit := range map[string]func() (string, string){
		"line 3 does not match its hash": func() (string, string) {
			return strings.Join(lines[:2], "") + strings.Replace(lines[2], "key:issue", "key:read", 1) +
				strings.Join(lines[3:], ""), ""
		},
		"line 4 does not have the number": func() (string, string) {
			return strings.Join(lines[:3], "") +
				strings.Join(lines[4:], ""), ""
		},
		"does not contain the anchor": func() (string, string) { return strings.Join(lines[:5], ""), st.Head },
	} {
		changed, anchor := edit()
		if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"audit", "verify", copied}
		if anchor != "" {
			args = append(args, "--anchor", anchor)
		}
		if _, errs, code := cli(t, args...); code != 1 || !strings.Contains(errs, what) {
			t.Errorf("%s: exit %d: %s", what, code, errs)
		}
	}
}

// TestPastedKeys puts a key into every part of a request to the router that can hold
// one. Neither the logs nor the output for operators contains it. The command that
// revokes it accepts the whole key.
func TestPastedKeys(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--engines", "1")
	admin := []string{"--admin", d.Admin, "--token", d.AdminToken}
	k := keyOf(t, ok(t, append([]string{"key", "issue", "--tenant", "acme", "--output", "json"}, admin...)...))
	secret := k.Key[len("kv_")+len(k.ID)+1:]
	body := map[string]any{"model": d.Model, "messages": []map[string]string{{"role": "user", "content": "hello"}},
		"max_tokens": 2}
	for _, change := range []func(map[string]any) []string{
		func(map[string]any) []string { return []string{"X-Request-Id", k.Key} },
		func(map[string]any) []string { return []string{"X-Kvasir-Session", k.Key} },
		func(map[string]any) []string { return []string{"X-Kvasir-Priority", k.Key} },
		func(b map[string]any) []string { b["model"] = k.Key; return nil },
		func(b map[string]any) []string { b["user"] = k.Key; return nil },
		func(b map[string]any) []string { b[k.Key] = k.Key; return nil },
	} {
		b := map[string]any{}
		for name, v := range body {
			b[name] = v
		}
		a, err := harness.Post(d.URL+"/v1/chat/completions", k.Key, b, change(b)...)
		if err != nil {
			t.Fatal(err)
		}
		_, x := harness.GetBody(d.Admin+"/v1/explain/"+a.Header.Get("X-Request-Id"), d.AdminToken)
		if strings.Contains(string(x), secret) {
			t.Errorf("explain contains the key: %s", x)
		}
	}
	for _, path := range []string{"/v1/explain/" + k.Key, "/v1/keys/" + k.Key, "/v1/plugins/" + k.Key + "/rollback",
		"/v1/" + k.Key, "/v1/reload?" + k.Key} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			for _, token := range []string{d.AdminToken, k.Key, "unknown-" + k.Key} {
				if _, answer := harness.Do(method, d.Admin+path, token); strings.Contains(string(answer), secret) {
					t.Errorf("%s %s answers %s", method, path, answer)
				}
			}
		}
	}
	for _, path := range []string{"/metrics", "/v1/status", "/v1/policy", "/v1/endpoints", "/v1/keys"} {
		if status, answer := harness.GetBody(d.Admin+path, d.AdminToken); status != 200 ||
			strings.Contains(string(answer), secret) {
			t.Errorf("%s: %d %.2000s", path, status, answer)
		}
	}
	out, errs, code := cli(t, append([]string{"key", "revoke", k.Key}, admin...)...)
	if code != 0 || strings.Contains(out+errs, secret) || !strings.Contains(out+errs, "revoked "+k.ID) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if got := harness.Get(d.URL+"/v1/models", k.Key); got != 401 {
		t.Errorf("the revoked key: %d", got)
	}
	log, err := os.ReadFile(filepath.Join(d.StateDir, "audit.log"))
	if err != nil || strings.Contains(string(log), secret) ||
		!strings.Contains(string(log), `"verb":"key:revoke","object":"key/`+k.ID+`"`) {
		t.Errorf("%v, audit log:\n%s", err, log)
	}
	if strings.Contains(d.Log.String(), secret) {
		t.Error("the log contains the key")
	}
}

// TestKeyUse checks that the router lists the time of each key's last use, and that
// the key file holds it after the router has stopped.
func TestKeyUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, state := filepath.Join(dir, "keys.json"), filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	key := harness.IssueKey(t, keys, state, "acme")
	d := harness.StartDev(t, "--engines", "1")
	r := harness.Serve(t, fmt.Sprintf(`listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: %s
identity: {api_keys_file: %s}
pools: [{name: main, endpoints: [%q]}]
models: [{name: m, pools: [main]}]
`, state, keys, d.Engines[0].URL))
	if got := harness.Get(r.URL+"/v1/models", key); got != 200 {
		t.Fatalf("got %d", got)
	}
	used := func(args ...string) string {
		t.Helper()
		var list []struct {
			Issuer  string
			LastUse time.Time `json:"last_use"`
			MAC     string
		}
		out := ok(t, append([]string{"key", "list", "--output", "json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].MAC != "" ||
			!strings.HasPrefix(list[0].Issuer, "cli:") {
			t.Fatalf("%v: %s", err, out)
		}
		return list[0].LastUse.String()
	}
	at := used("--admin", r.Admin, "--token", r.Token)
	if since, err := time.Parse("2006-01-02 15:04:05 -0700 MST", at); err != nil || time.Since(since) > time.Minute {
		t.Fatalf("used %s: %v", at, err)
	}
	if !r.Stop(20 * time.Second) {
		t.Fatal("the router did not stop")
	}
	if got := used("--file", keys, "--state-dir", state); got != at {
		t.Errorf("after the router stopped: used %s, want %s", got, at)
	}
}

// TestPluginAuthors checks that one scope grants pushing a plugin and another one activating it.
func TestPluginAuthors(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--engines", "1")
	key := func(scope string) string {
		return keyOf(t, ok(t, "key", "issue", "--admin", d.Admin, "--token", d.AdminToken, "--tenant", "ops",
			"--scope", scope, "--output", "json")).Key
	}
	author, activator := key("plugin:push"), key("plugin:activate")
	file := filepath.Join(t.TempDir(), "mine.wasm")
	if err := os.WriteFile(file, guest(t, "last", 0), 0o600); err != nil {
		t.Fatal(err)
	}
	push := func(token string, more ...string) (string, string, int) {
		return cli(t, append([]string{"plugin", "push", file, "--name", "mine", "--output", "json",
			"--admin", d.Admin, "--token", token}, more...)...)
	}
	for token, more := range map[string][]string{author: {"--activate"}, activator: nil} {
		if _, errs, code := push(token, more...); code != 1 || !strings.Contains(errs, "scope plugin:") {
			t.Errorf("exit %d: %s", code, errs)
		}
	}
	out, errs, code := push(author)
	var v struct{ Digest string }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		t.Fatalf("%v: exit %d: %s", err, code, errs)
	}
	activate := func(token, digest string) (string, string, int) {
		return cli(t, "plugin", "activate", "mine", digest, "--admin", d.Admin, "--token", token)
	}
	for _, c := range []struct{ token, digest, want string }{
		{author, v.Digest, "scope plugin:activate"}, {activator, "00000000", "no version"},
		{activator, v.Digest[:4], "at least 8"},
	} {
		if _, errs, code := activate(c.token, c.digest); code != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d: %s", c.want, code, errs)
		}
	}
	if out, errs, code := activate(activator, v.Digest[:12]); code != 0 ||
		!strings.Contains(out, "mine "+v.Digest[:12]+": active") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	b, err := os.ReadFile(filepath.Join(d.StateDir, "audit.log"))
	if err != nil ||
		!regexp.MustCompile(`"verb":"plugin:activate","object":"plugin/mine","result":"ok","detail":\{"digest":"`+v.Digest+
			`"`).Match(b) {
		t.Errorf("%v: the activation is not in the audit log:\n%s", err, b)
	}
}
