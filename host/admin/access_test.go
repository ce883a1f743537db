package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// TestScopes calls every route as a sender with every scope but its own, which is
// refused and recorded, and as senders with only its own scope, which is not.
func TestScopes(t *testing.T) {
	s := newSite(t, nil)
	want := map[string]string{
		"GET /v1/explain/{id...}": ScopeExplainOwn, "POST /v1/explain": ScopeExplainOwn,
		"GET /v1/status": ScopeStatus, "GET /v1/openapi.json": ScopeStatus,
		"POST /v1/endpoints/cordon": ScopeEndpointWrite, "POST /v1/endpoints/drain": ScopeEndpointWrite,
		"POST /v1/endpoints/uncordon": ScopeEndpointWrite,
		"GET /v1/autoscale":           ScopeAutoscaleRead, "POST /v1/autoscale/notice": ScopeAutoscaleWrite,
		"GET /v1/endpoints": ScopeEndpointRead, "GET /v1/locality": ScopeEndpointRead,
		"POST /v1/locality": ScopeEndpointWrite,
		"POST /v1/reload":   ScopeConfigReload, "GET /v1/plugins": ScopePluginRead, "POST /v1/plugins": ScopePluginPush,
		"POST /v1/plugins/{name}/activate": ScopePluginActivate, "POST /v1/plugins/{name}/rollback": ScopePluginActivate,
		"DELETE /v1/plugins/{name}/shadow": ScopePluginPush, "DELETE /v1/plugins/{name}": ScopePluginActivate,
		"GET /v1/keys": ScopeKeyRead, "POST /v1/keys": ScopeKeyIssue, "POST /v1/keys/{id}/rotate": ScopeKeyIssue,
		"POST /v1/keys/{id}/revoke": ScopeKeyRevoke,
		"GET /v1/policy":            ScopePolicyRead, "POST /v1/policy": "policy:activate",
		"POST /v1/policy/reload": ScopePolicyActivate, "POST /v1/policy/diff": ScopePolicyRead,
		"POST /v1/policy/explain": ScopePolicyRead,
		"GET /metrics":            ScopeMetrics, "GET /debug/pprof/": ScopeDebug, "GET /debug/pprof/cmdline": ScopeDebug,
		"GET /debug/pprof/profile": ScopeDebug,
		"GET /debug/pprof/symbol":  ScopeDebug, "GET /debug/pprof/trace": ScopeDebug,
	}
	for _, rt := range scopedRoutes() {
		if want[rt.pattern()] != rt.Scope {
			t.Errorf("%s takes %q, want %q", rt.pattern(), rt.Scope, want[rt.pattern()])
		}
		delete(want, rt.pattern())
		without := slices.DeleteFunc(slices.Clone(Scopes), func(sc string) bool {
			return sc == rt.Scope || rt.Scope == ScopeExplainOwn && sc == ScopeExplainAny
		})
		s.who["without"], s.who["with"], s.who["noun"] = key("w", "acme", without...), key("v", "acme", rt.Scope), key("n",
			"acme", strings.Split(rt.Scope, ":")[0]+":*")
		rq := requests()[rt.pattern()]
		body := map[string]string{
			"POST /v1/keys": `{"tenant":"acme"}`, "POST /v1/autoscale/notice": `{"pool":"p","endpoint":"e"}`,
			"POST /v1/locality": `{"weight":1}`,
			"POST /v1/policy":   "{}", "POST /v1/policy/diff": "{}",
		}[rt.pattern()]
		s.tape.take()
		if status, text := s.call(t, "without", rq[0], rq[1], body); status != 403 || !strings.Contains(text, rt.Scope) {
			t.Errorf("%s without %s: got %d %s", rt.pattern(), rt.Scope, status, text)
		}
		if list, _ := s.tape.take(); len(list) != 1 || !strings.HasPrefix(list[0], "key:w "+rt.Scope+" ") ||
			!strings.HasSuffix(list[0], " refused") {
			t.Errorf("%s: recorded %q", rt.pattern(), list)
		}
		holders := []string{"with", "noun", token}
		if rt.pattern() == "GET /debug/pprof/profile" {
			holders = holders[:1]
		}
		for _, who := range holders {
			if status, text := s.call(t, who, rq[0], rq[1], body); status == 403 || status == 401 {
				t.Errorf("%s as %.8s: got %d %s", rt.pattern(), who, status, text)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("there are no routes %v", want)
	}
}

// TestChanges: a change is recorded before and after it, and is not done if the
// first line cannot be written.
func TestChanges(t *testing.T) {
	s := newSite(t, nil)
	s.who["op"] = key("op", "ops", "plugin:*", "key:*@*", "config:reload", "debug:profile", "status:read", "infer")
	f := func(method, path, body string, want ...string) []map[string]string {
		t.Helper()
		s.tape.take()
		s.call(t, "op", method, path, body)
		got, details := s.tape.take()
		if !slices.Equal(got, want) {
			t.Errorf("%s %s: recorded %q, want %q", method, path, got, want)
		}
		return details
	}
	d := f("POST", "/v1/reload", "", "key:op config:reload config begun", "key:op config:reload config ok")
	if d[0]["revision"] != "" || d[1]["revision"] != "2" {
		t.Errorf("got %v", d)
	}
	d = f("POST", "/v1/plugins?name=x", "code", "key:op plugin:push plugin/x begun", "key:op plugin:push plugin/x ok")
	if d[0]["digest"] != "5694d08a2e53ffcae0c3103e5ad6f6076abd960eb1f8a56577040bc1028f702b" ||
		!strings.HasPrefix(d[0]["remote"], "127.0.0.1:") {
		t.Errorf("got %v", d[0]) // sha256sum of "code"
	}
	d = f("POST", "/v1/plugins/x/rollback", "", "key:op plugin:rollback plugin/x begun",
		"key:op plugin:rollback plugin/x failed")
	if !strings.Contains(d[1]["why"], "plugin x") {
		t.Errorf("got %v", d[1])
	}
	f("POST", "/v1/plugins/x/activate?digest=d", "", "key:op plugin:activate plugin/x begun",
		"key:op plugin:activate plugin/x ok")
	f("DELETE", "/v1/plugins/x", "", "key:op plugin:deactivate plugin/x begun", "key:op plugin:deactivate plugin/x ok")
	f("DELETE", "/v1/plugins/x/shadow", "", "key:op plugin:unshadow plugin/x begun",
		"key:op plugin:unshadow plugin/x failed")
	d = f("POST", "/v1/keys", `{"tenant":"acme","scopes":["plugin:push"]}`, "key:op key:issue tenant/acme begun",
		"key:op key:issue tenant/acme ok")
	if d[1]["key"] != "new" || d[1]["scopes"] != "[plugin:push]" || strings.Contains(fmt.Sprint(d), secretPart) {
		t.Errorf("got %v", d)
	}
	if got := s.keys.asked[0].Terms.Issuer; got != "key:op" {
		t.Errorf("issuer: got %q", got)
	}
	f("POST", "/v1/keys/k1/rotate?grace=1h", "", "key:op key:rotate key/k1 begun", "key:op key:rotate key/k1 ok")
	f("POST", "/v1/keys/k1/revoke", "", "key:op key:revoke key/k1 begun", "key:op key:revoke key/k1 ok")
	f("POST", "/v1/keys/none/revoke", "", "key:op key:revoke key/none failed")
	s.who["op"].Scopes = append(s.who["op"].Scopes, "policy:activate")
	if d = f("POST", "/v1/policy/reload?force=true", "", "key:op policy:activate policy begun",
		"key:op policy:activate policy ok"); d[0]["force"] != "true" {
		t.Errorf("got %v", d)
	}
	f("GET", "/debug/pprof/cmdline", "", "key:op debug:profile /debug/pprof/cmdline ok")
	f("GET", "/v1/status", "")
	f("GET", "/v1/keys", "")
	f("GET", "/nothing", "")

	s.tape.err = errors.New("disk full")
	n := len(s.keys.asked)
	if status, text := s.call(t, "op", "POST", "/v1/keys", `{"tenant":"acme"}`); status != 503 ||
		!strings.Contains(text, "Nothing was done") || len(s.keys.asked) != n {
		t.Errorf("got %d %s", status, text)
	}
	if status, _ := s.call(t, token, "GET", "/debug/pprof/cmdline", ""); status != 503 {
		t.Errorf("got %d", status)
	}
	if status, _ := s.call(t, "op", "GET", "/v1/keys", ""); status != 200 {
		t.Errorf("a read: got %d", status)
	}
}

// TestKeys_escalation: issuing keys does not give the issuer more rights.
func TestKeys_escalation(t *testing.T) {
	s := newSite(t, nil)
	s.who["clerk"], s.who["chief"] = key("c", "acme", "key:issue", "key:revoke"), key("b", "ops", "key:*@*", "plugin:*")
	f := func(who, path, body string, want int, text string) {
		t.Helper()
		if got, answer := s.call(t, who, "POST", path, body); got != want || !strings.Contains(answer, text) {
			t.Errorf("%s %s %s: got %d %s, want %d %s", who, path, body, got, answer, want, text)
		}
	}
	f("clerk", "/v1/keys", `{"tenant":"acme","scopes":["infer","site:x"]}`, 200, "kv_k2345672_")
	f("clerk", "/v1/keys", `{"tenant":"acme","scopes":["key:issue"]}`, 200, "kv_k2345672_")
	f("clerk", "/v1/keys", `{"tenant":"acme","scopes":["plugin:push"]}`, 403, "plugin:push")
	f("clerk", "/v1/keys", `{"tenant":"acme","scopes":["key:*"]}`, 403, "key:*")
	f("clerk", "/v1/keys", `{"tenant":"acme","scopes":["key:read"]}`, 403, "key:read")
	f("clerk", "/v1/keys/powerful/rotate?grace=1h", "", 403, "plugin:*")
	f("chief", "/v1/keys", `{"tenant":"acme","scopes":["plugin:*","plugin:push","key:read"]}`, 200, "kv_k2345672_")
	f("chief", "/v1/keys/powerful/rotate?grace=1h", "", 200, "kv_k2345672_")
	f(token, "/v1/keys", `{"tenant":"acme","scopes":["explain:any"]}`, 200, "kv_k2345672_")

	f("clerk", "/v1/keys", `{"tenant":"acme","scopes":["plugin:psuh"]}`, 422, "plugin:push")
	f("clerk", "/v1/keys", `{"tenant":"a b"}`, 422, "128 letters")
	f("clerk", "/v1/keys", `{"tenant":"acme","ttl":"soon"}`, 422, "720h")
	f("clerk", "/v1/keys", `{"tenant":"acme","mac":"x"}`, 422, "unknown field")
	f("clerk", "/v1/keys", `{"tenant":"acme"}{}`, 422, "unexpected text after")
	f("clerk", "/v1/keys", `{"tenant":"acme","note":"`+strings.Repeat("x", 300)+`"}`, 422, "note")
	f("clerk", "/v1/keys", `{"tenant":"acme","note":"`+strings.Repeat("x", maxObject)+`"}`, 413, "body_too_large")
	f("clerk", "/v1/keys/k1/rotate", "", 422, "grace")
	f("clerk", "/v1/keys/k1/rotate?grace=-1h", "", 422, "grace")
	f("clerk", "/v1/keys/none/rotate?grace=1h", "", 404, "none")
}

// TestExplain_tenants: another tenant's request takes explain:any and is
// recorded; without it there is no such request.
func TestExplain_tenants(t *testing.T) {
	s := newSite(t, nil)
	s.who["own"], s.who["other"], s.who["any"] = key("o", "acme", "explain:own"), key("p", "globex",
		"explain:own"), key("q", "globex", "explain:any")
	f := func(who, method, path string, want int, events ...string) string {
		t.Helper()
		s.tape.take()
		got, text := s.call(t, who, method, path, "{}")
		if list, _ := s.tape.take(); got != want || !slices.Equal(list, events) {
			t.Errorf("%s %s: got %d %s, recorded %q; want %d %q", who, path, got, text, list, want, events)
		}
		return text
	}
	f("own", "GET", "/v1/explain/known", 200)
	there := f("other", "GET", "/v1/explain/known", 404)
	absent := f("other", "GET", "/v1/explain/absent", 404)
	if strings.Contains(there, "acme") || strings.ReplaceAll(there, "known", "absent") != absent {
		t.Errorf("the answers tell that there is such a request: %s and %s", there, absent)
	}
	f("any", "GET", "/v1/explain/known", 200, "key:q explain:any request/known begun",
		"key:q explain:any request/known ok")
	f(token, "GET", "/v1/explain/known", 200, "admin_token explain:any request/known begun",
		"admin_token explain:any request/known ok")

	f("any", "GET", "/v1/explain/known?tenant=acme", 200, "key:q explain:any request/known begun",
		"key:q explain:any request/known ok")
	f("own", "GET", "/v1/explain/known?tenant=acme", 200)
	f("own", "GET", "/v1/explain/known?tenant=globex", 403, "key:o explain:any tenant/globex refused")

	// Two tenants used one request id: each has its own.
	for who, want := range map[string]string{"own": "acme", "other": "globex"} {
		if text := f(who, "GET", "/v1/explain/shared", 200); !strings.Contains(text, `"tenant":"`+want+`"`) {
			t.Errorf("%s: got %s, want the request of %s", who, text, want)
		}
	}
	text := f(token, "GET", "/v1/explain/shared", 409, "admin_token explain:any request/shared begun",
		"admin_token explain:any request/shared failed")
	if !strings.Contains(text, "acme, globex") {
		t.Errorf("the answer does not name the tenants: %s", text)
	}
	f(token, "GET", "/v1/explain/shared?tenant=globex", 200, "admin_token explain:any request/shared begun",
		"admin_token explain:any request/shared ok")

	f("own", "POST", "/v1/explain", 200)
	f("own", "POST", "/v1/explain?tenant=acme", 200)
	f("own", "POST", "/v1/explain?tenant=globex", 403, "key:o explain:any tenant/globex refused")
	f("any", "POST", "/v1/explain?tenant=acme", 200, "key:q explain:any tenant/acme begun",
		"key:q explain:any tenant/acme ok")
	f(token, "POST", "/v1/explain", 200)
}

// rule is a policy as a function.
type rule func(p *identity.Principal, verb, object string) (bool, string)

func (f rule) Authorize(q *Question) (bool, string) {
	return f(q.Principal, q.Verb, q.Object)
}

// TestAuthorizer: policy narrows what scopes allow, except for the admin token.
func TestAuthorizer(t *testing.T) {
	s := newSite(t, rule(func(p *identity.Principal, verb, object string) (bool, string) {
		return verb == ScopePluginPush && object == "plugin/mine" || verb == ScopeStatus, "not yours"
	}))
	s.who["dev"], s.who["none"] = key("d", "acme", "plugin:*", "status:read"), key("n", "acme")
	for path, want := range map[string]int{"/v1/plugins?name=mine": 200, "/v1/plugins?name=theirs": 403,
		"/v1/plugins?name=mine&activate=true": 403, "/v1/plugins/mine/activate": 403} {
		if got, text := s.call(t, "dev", "POST", path, "code"); got != want || want == 403 && !strings.Contains(text,
			"Denied by policy: not yours") {
			t.Errorf("%s: got %d %s, want %d", path, got, text, want)
		}
		if got, text := s.call(t, token, "POST", path, "code"); got != 200 {
			t.Errorf("%s as root: got %d %s", path, got, text)
		}
	}
	if got, text := s.call(t, "none", "GET", "/v1/status", ""); got != 403 {
		t.Errorf("policy granted a scope: got %d %s", got, text)
	}
}

// TestAuthorizer_keys: policy is asked once, about the tenant of the key.
func TestAuthorizer_keys(t *testing.T) {
	var asked []string
	s := newSite(t, rule(func(_ *identity.Principal, verb, object string) (bool, string) {
		asked = append(asked, verb+" "+object)
		return object == "tenant/acme", "another tenant"
	}))
	s.who["clerk"] = key("c", "ops", "key:issue@*")
	for tenant, want := range map[string]int{"acme": 200, "globex": 403} {
		asked = nil
		if got, text := s.call(t, "clerk", "POST", "/v1/keys", `{"tenant":"`+tenant+`"}`); got != want ||
			!slices.Equal(asked, []string{"key:issue tenant/" + tenant}) {
			t.Errorf("%s: got %d %s, asked %q", tenant, got, text, asked)
		}
	}
}

// TestAuthorizer_keysOfOthers: a sender that policy limits to the keys of one tenant
// can neither rotate nor revoke a key of another by its id.
func TestAuthorizer_keysOfOthers(t *testing.T) {
	var asked []string
	s := newSite(t, rule(func(_ *identity.Principal, verb, object string) (bool, string) {
		asked = append(asked, verb+" "+object)
		return !strings.HasPrefix(object, "tenant/") || object == "tenant/globex", "another tenant"
	}))
	s.who["clerk"] = key("c", "globex", "key:*@*")
	f := func(path, verb string, want int) {
		t.Helper()
		asked = nil
		got, text := s.call(t, "clerk", "POST", path, "")
		if got != want || want == 403 && (strings.Contains(text, "kv_k2345672_") ||
			!slices.Contains(asked, verb+" tenant/acme")) {
			t.Errorf("%s: got %d %s, asked %q", path, got, text, asked)
		}
	}
	f("/v1/keys/k1/rotate?grace=1h", "key:issue", 403)
	f("/v1/keys/k1/revoke", "key:revoke", 403)
	f("/v1/keys/none/revoke", "key:revoke", 404)
}

// TestStrangers: a flood of unknown credentials writes a bounded number of lines, and
// refusals of known senders are still recorded.
func TestStrangers(t *testing.T) {
	s := newSite(t, nil)
	now := time.Unix(1000*60, 0)
	s.now = func() time.Time { return now }
	h := s.Handler()
	ask := func(auth string) int {
		r := httptest.NewRequest("GET", "http://127.0.0.1/v1/status", nil)
		r.RemoteAddr = "127.0.0.1:5"
		r.Header.Set("Authorization", auth)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if auth == "Bearer flood" && w.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		return w.Code
	}
	for range 100 {
		if got := ask("Bearer wrong-credential"); got != http.StatusUnauthorized {
			t.Fatalf("got %d", got)
		}
	}
	list, details := s.tape.take()
	if len(list) != strangersPerMinute || strings.Contains(fmt.Sprint(list, details), "wrong-credential") {
		t.Errorf("recorded %d: %v", len(list), list[0])
	}
	if got := ask("Bearer flood"); got != http.StatusTooManyRequests {
		t.Errorf("got %d", got)
	}
	s.who["poor"] = key("p", "acme")
	if ask("Bearer poor"); len(s.tape.events) != 1 {
		t.Errorf("recorded %v", s.tape.events)
	}
	s.tape.take()
	now = now.Add(time.Minute)
	ask("Bearer wrong")
	if _, d := s.tape.take(); len(d) != 1 || d[0]["not_recorded_before"] != "40" {
		t.Errorf("got %v", d)
	}
}

func TestBudget_stress(t *testing.T) {
	b := budget{limit: 100}
	var wg sync.WaitGroup
	var mu sync.Mutex // guards taken
	taken := 0
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if ok, _ := b.take(time.Unix(0, 0)); ok {
					mu.Lock()
					taken++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if taken != 100 || b.dropped != 700 {
		t.Errorf("took %d, dropped %d", taken, b.dropped)
	}
}

// FuzzKeyRequest: a request that passes the check has a grant that a key file accepts.
func FuzzKeyRequest(f *testing.F) {
	f.Add([]byte(`{"tenant":"acme","user":"u","groups":["g"],"scopes":["plugin:*"],"labels":{"a":"b"},` +
		`"note":"n","ttl":"1h"}`))
	pepper := []byte("0123456789abcdef0123456789abcdef")
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(KeyRequest)
		if err := decodeObject(b, q); err != nil {
			if !errors.Is(err, ErrRefused) {
				t.Fatal(err)
			}
			return
		}
		if q.Check() != nil {
			return
		}
		var k identity.KeyFile
		if _, r, err := k.IssueOn(pepper, q.Grant, q.Terms, time.Unix(0, 0)); err == nil &&
			(r.Tenant != q.Tenant || q.Terms.TTL < 0) {
			t.Fatalf("got %+v", r)
		}
	})
}
