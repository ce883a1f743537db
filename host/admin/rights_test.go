package admin

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
)

// Names of holders of key scopes.
const own, acme, all = "own", "acme", "all"

// keySite is a site with holders of key scopes for their own tenant, for acme, and for
// all.
type keySite struct {
	*site
	t *testing.T
}

func newKeySite(t *testing.T) keySite {
	s := newSite(t, nil)
	s.who[own], s.who[acme], s.who[all] = key("o", "ops", "key:*"), key("a", "ops", "key:*@acme"), key("x", "ops",
		"key:*@*")
	s.who["issuer"] = key("i", "acme", "key:issue")
	return keySite{s, t}
}

// gets checks the status of the answer to a call, and that it contains text.
func (s keySite) gets(who, method, path, body string, want int, text string) {
	s.t.Helper()
	if got, answer := s.call(s.t, who, method, path, body); got != want || !strings.Contains(answer, text) {
		s.t.Errorf("%s %s %s %s: got %d %s, want %d %s", who, method, path, body, got, answer, want, text)
	}
}

// lists checks which keys are listed.
func (s keySite) lists(who string, want ...string) {
	s.t.Helper()
	_, answer := s.call(s.t, who, "GET", "/v1/keys", "")
	var got KeyList
	if err := json.Unmarshal([]byte(answer), &got); err != nil || got.Keys == nil {
		s.t.Fatalf("%v: %s", err, answer)
	}
	var ids []string
	for _, r := range got.Keys {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, want) {
		s.t.Errorf("%s: lists %q, want %q", who, ids, want)
	}
}

// recorded checks the lines of the audit log since the last call.
func (s keySite) recorded(want ...string) {
	s.t.Helper()
	if got, _ := s.tape.take(); !slices.Equal(got, want) {
		s.t.Errorf("recorded %q, want %q", got, want)
	}
}

// TestKeys_tenants: key scopes reach the holder's own tenant, unless they name
// another one or all, in issuing, listing, rotating and revoking alike.
func TestKeys_tenants(t *testing.T) {
	s := newKeySite(t)
	s.lists(own)
	s.lists(acme, "k1", "k2345672", "powerful")
	s.lists(all, "k1", "k2345672", "powerful", "other", "twin")
	s.lists(token, "k1", "k2345672", "powerful", "other", "twin")
	s.tape.take()
	s.gets(own, "POST", "/v1/keys", `{"tenant":"acme"}`, 403, "key:issue@acme or key:issue@*")
	s.recorded("key:o key:issue tenant/acme refused")
	s.gets(own, "POST", "/v1/keys", `{"tenant":"ops"}`, 200, "kv_")
	s.gets(acme, "POST", "/v1/keys", `{"tenant":"acme"}`, 200, "kv_")
	s.gets(acme, "POST", "/v1/keys", `{"tenant":"ops"}`, 403, "key:issue@ops")
	s.gets(all, "POST", "/v1/keys", `{"tenant":"globex"}`, 200, "kv_")
	for _, verb := range []string{"rotate?grace=1h", "revoke"} {
		name, _, _ := strings.Cut(verb, "?")
		s.gets(acme, "POST", "/v1/keys/k1/"+verb, "", 200, "")
		s.gets(all, "POST", "/v1/keys/other/"+verb, "", 200, "")
		s.tape.take()
		s.gets(own, "POST", "/v1/keys/k1/"+verb, "", 404, `no key \"k1\"`)
		s.gets(own, "POST", "/v1/keys/none/"+verb, "", 404, `no key \"none\"`) // in the same words
		s.recorded("key:o key:"+name+" key/k1 refused", "key:o key:"+name+" key/none failed")
	}
	s.gets(all, "POST", "/v1/keys/shared%20name/revoke", "", 422, "k1, other, twin")
	s.gets(acme, "POST", "/v1/keys/shared%20name/revoke", "", 200, `"id":"k1"`) // the one that it reaches
	s.gets("issuer", "POST", "/v1/keys/"+pasted+"/rotate?grace=1h", "", 200, "")
}

// TestKeys_scopes: the scopes of an issued key reach no further than the issuer's.
func TestKeys_scopes(t *testing.T) {
	s := newKeySite(t)
	s.gets("issuer", "POST", "/v1/keys", `{"tenant":"acme","scopes":["key:issue"]}`, 200, "kv_")
	s.gets("issuer", "POST", "/v1/keys", `{"tenant":"acme","scopes":["key:issue@acme"]}`, 200, "kv_")
	s.gets("issuer", "POST", "/v1/keys", `{"tenant":"acme","scopes":["key:issue@globex"]}`, 403, "key:issue@globex")
	s.gets("issuer", "POST", "/v1/keys", `{"tenant":"acme","scopes":["key:issue@*"]}`, 403, "key:issue@*")
	s.gets(acme, "POST", "/v1/keys", `{"tenant":"acme","scopes":["key:*@acme"]}`, 200, "kv_")
	s.gets(acme, "POST", "/v1/keys", `{"tenant":"acme","scopes":["key:*@*"]}`, 403, "key:*@*")
	s.gets(all, "POST", "/v1/keys", `{"tenant":"globex","scopes":["key:*@*","key:read"]}`, 200, "kv_")
	s.who["reader"] = key("r", "ops", "key:issue@*", "explain:own")
	s.gets("reader", "POST", "/v1/keys", `{"tenant":"ops","scopes":["explain:own"]}`, 200, "kv_")
	s.gets("reader", "POST", "/v1/keys", `{"tenant":"acme","scopes":["explain:own"]}`, 403, "explain:own")
	s.gets(token, "POST", "/v1/keys", `{"tenant":"ops","scopes":["plugin:push@acme"]}`, 422, "names a tenant")
	s.who["odd"] = key("d", "acme", "plugin:push@acme", "key:issue")
	s.gets("odd", "POST", "/v1/plugins?name=x", "code", 403, "plugin:push")
	s.gets("odd", "POST", "/v1/keys", `{"tenant":"acme","scopes":["plugin:push"]}`, 403, "plugin:push")
}

// TestAuthorizer_scopesOfTenants: a policy that compares scopes with verbs sees
// the plain form of a scope for some tenant.
func TestAuthorizer_scopesOfTenants(t *testing.T) {
	s := newSite(t, rule(func(p *identity.Principal, verb, _ string) (bool, string) {
		return slices.Contains(p.Scopes, verb), "no scope"
	}))
	s.who["clerk"] = key("c", "ops", "key:issue@acme")
	if got, text := s.call(t, "clerk", "POST", "/v1/keys", `{"tenant":"acme"}`); got != 200 {
		t.Errorf("got %d %s", got, text)
	}
	if got, text := s.call(t, "clerk", "POST", "/v1/keys/k1/revoke", ""); got != 403 {
		t.Errorf("got %d %s", got, text)
	}
}

// TestSecrets_pasted puts a key, a key of another form, a token and the admin token
// in every part of requests, and looks for them in the audit log, the log and the
// responses.
func TestSecrets_pasted(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLXBhcnQ"
	var log bytes.Buffer
	s := newSite(t, nil)
	s.cfg.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.cfg.withDefaults()
	s.who["op"] = key("op", "ops", "key:*@*", "plugin:*", "explain:own", "policy:*", "config:*")
	s.who["nothing"] = key("none", "ops")
	h := s.Handler()
	answers := ""
	send := func(who, method, path, body string, header ...string) {
		r := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:5"
		r.Header.Set("Authorization", "Bearer "+who)
		for _, name := range header[:len(header)/2] {
			r.Header.Set(name, header[1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if strings.Contains(w.Body.String(), `"code":"bad_host"`) || w.Code == http.StatusMisdirectedRequest {
			t.Fatalf("%s: %s", path, w.Body)
		}
		if !strings.Contains(w.Body.String(), `"old":"k2345672"`) { // the answer with the new key
			answers += w.Body.String()
		}
	}
	for _, sec := range []string{pasted, secretPart, foreign, jwt, token, strings.ReplaceAll(pasted, "_", "%5F")} {
		for _, who := range []string{"op", "nothing", "stranger"} {
			for _, path := range []string{
				"/v1/keys/" + sec + "/revoke", "/v1/keys/" + sec + "/rotate?grace=1h", "/v1/keys/k1/rotate?grace=" + sec,
				"/v1/keys/x" + sec + "/revoke",
				"/v1/plugins?name=" + sec, "/v1/plugins/" + sec + "/activate?digest=" + sec, "/v1/plugins/" + sec + "/rollback",
				"/v1/explain?tenant=" + sec,
				"/v1/explain?path=" + sec, "/v1/" + sec, "/v1/policy/reload?force=" + sec, "/v1/reload?" + sec,
			} {
				if sec == foreign && !strings.Contains(path, "/keys/"+sec) && !strings.Contains(path, "grace="+sec) {
					continue // a plugin may have any name, also that of a key of another form
				}
				send(who, "POST", path, "{}")
			}
			if sec == foreign {
				continue
			}
			send(who, "GET", "/v1/explain/"+sec, "")
			send(who, "DELETE", "/v1/plugins/"+sec, "")
			send(who, "GET", "/v1/status", "", "X-Request-Id", sec)
			send(who, "GET", "/v1/status", "", "X-Kvasir-Session", sec)
			for _, body := range []string{
				`{"tenant":"SEC"}`, `{"tenant":"acme","user":"SEC"}`, `{"tenant":"acme","note":"my SEC"}`,
				`{"tenant":"acme","groups":["SEC"]}`,
				`{"tenant":"acme","labels":{"SEC":"x"}}`, `{"tenant":"acme","labels":{"x":"SEC"}}`,
				`{"tenant":"acme","scopes":["key:SEC"]}`, `{"tenant":"acme","ttl":"SEC"}`, `{"SEC":1}`, `SEC`,
			} {
				if sec != token { // the admin token's holder may name a tenant so
					send(who, "POST", "/v1/keys", strings.ReplaceAll(body, "SEC", sec))
				}
			}
		}
	}
	list, details := s.tape.take()
	recorded, _ := json.Marshal([]any{list, details})
	for _, sec := range []string{secretPart, foreign, jwt, "c2lnbmF0dXJlLXBhcnQ", token} {
		for where, text := range map[string]string{"audit log": string(recorded), "log": log.String()} {
			if at := strings.Index(text, sec); at >= 0 {
				t.Errorf("the %s has %s: …%.200s", where, sec, text[max(0, at-100):])
			}
		}
		if at := strings.Index(answers, sec); at >= 0 && sec != token {
			t.Errorf("an answer has %s: …%.200s", sec, answers[max(0, at-100):])
		}
	}
	if len(list) < 100 || log.Len() == 0 {
		t.Errorf("recorded %d events, logged %d bytes", len(list), log.Len())
	}
}
