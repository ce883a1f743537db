package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

const token = "a-secret-token"

func TestServer_answers(t *testing.T) {
	h := &fake{}
	url := start(t, Config{Explainer: h, Status: h, Reloader: h, Plugins: h, Metrics: metrics, MaxBody: 100})
	f := func(method, path, body string, status int, want string) http.Header {
		t.Helper()
		got, head, text := request(t, method, url+path, "Bearer "+token, "", body)
		if got != status || !strings.Contains(text, want) {
			t.Errorf("%s %s: got %d %s, want %d %s", method, path, got, text, status, want)
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: headers %v", method, path, head)
		}
		if got >= 400 {
			var e struct {
				Error struct{ Message, Code string }
			}
			if json.Unmarshal([]byte(text), &e) != nil || e.Error.Message == "" || e.Error.Code == "" {
				t.Errorf("%s %s: error has another shape: %s", method, path, text)
			}
		}
		return head
	}
	f("GET", "/healthz", "", 200, `"ok"`)
	f("GET", "/readyz", "", 200, `"ready"`)
	f("GET", "/metrics", "", 200, "kvasir_up 1")
	f("GET", "/v1/explain/known", "", 200, `"request_id":"known"`)
	f("GET", "/v1/explain/some%2Fother", "", 404, `some/other`)
	f("GET", "/v1/explain/unrenderable", "", 500, `internal_error`)
	f("GET", "/v1/explain/panic", "", 500, `internal_error`)
	f("GET", "/v1/endpoints", "", 200, `[{"url":"a",`)
	f("GET", "/v1/status", "", 500, `index: broken`)
	f("POST", "/v1/reload", "", 200, `{"revision":2,`)
	f("POST", "/v1/explain?tenant=acme&path=/v1/completions&user=u", `{"prompt":"x"}`, 200, `"tokens":14,`)
	if d := h.lastDry; d.Tenant != "acme" || d.User != "u" || d.Path != "/v1/completions" ||
		string(d.Body) != `{"prompt":"x"}` {
		t.Errorf("got %+v", d)
	}
	f("POST", "/v1/explain", `{}`, 200, `"tokens":2,`)
	if h.lastDry.Path != "/v1/chat/completions" {
		t.Errorf("got %+v", h.lastDry)
	}
	f("POST", "/v1/explain", strings.Repeat("x", 101), 413, `body_too_large`)
	f("GET", "/v1/plugins", "", 200, `{"plugins":[{"name":"p",`)
	f("POST", "/v1/plugins?name=x&activate=true", "code", 200, `{"name":"x","digest":"","active":true,`)
	f("POST", "/v1/plugins?name=x", "code", 200, `{"name":"x","digest":"","active":false,`)
	f("POST", "/v1/plugins?name=x&shadow=true", "code", 200, `"shadow":true,"signer":"","note":"4"}`)
	f("POST", "/v1/plugins?name=x&shadow=true&activate=true", "code", 422, `either activate or shadow`)
	f("DELETE", "/v1/plugins/x/shadow", "", 404, `shadow of x`)
	f("POST", "/v1/plugins", "code", 422, `no name`)
	f("POST", "/v1/plugins?name=x", strings.Repeat("x", 101), 413, `body_too_large`)
	f("POST", "/v1/plugins/x/rollback", "", 404, `plugin x`)
	f("POST", "/v1/plugins/x/activate?digest=d", "", 200, `{"name":"x","digest":"d",`)
	f("DELETE", "/v1/plugins/x", "", 200, `"no x"`)
	if got := f("GET", "/v1/plugins/x", "", 405, `DELETE`).Get("Allow"); got != "DELETE" {
		t.Errorf("Allow: got %q", got)
	}
	f("GET", "/nothing", "", 404, `unknown_path`)
	f("DELETE", "/nothing", "", 404, `unknown_path`)
	if got := f("GET", "/v1/reload", "", 405, `POST`).Get("Allow"); got != "POST" {
		t.Errorf("Allow: got %q", got)
	}
	if got := f("POST", "/v1/status", "", 405, `GET`).Get("Allow"); got != "GET" {
		t.Errorf("Allow: got %q", got)
	}
	f("GET", "/debug/pprof/", "", 200, "goroutine")
	f("GET", "/debug/pprof/heap?debug=1", "", 200, "heap profile")

	h.ready, h.reload = errors.New("no endpoint is ready"), fmt.Errorf("%w: kvasir.yaml:3: unknown key", ErrRefused)
	f("GET", "/readyz", "", 503, "no endpoint is ready")
	f("POST", "/v1/reload", "", 422, "kvasir.yaml:3")
}

func TestServer_guard(t *testing.T) {
	h := &fake{}
	url := start(t, Config{Explainer: h, Status: h, Reloader: h, Metrics: metrics, Hosts: []string{"Kvasir.Example"}})
	port := url[strings.LastIndex(url, ":"):]
	for _, path := range []string{"/v1/explain/known", "/v1/endpoints", "/v1/status", "/metrics", "/debug/pprof/",
		"/debug/pprof/heap", "/nothing", "/"} {
		for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, token,
			"Bearer " + token + "x", "Bearer " + token[1:]} {
			if got, head, text := request(t, "GET", url+path, auth, "", ""); got != 401 || head.Get("WWW-Authenticate") == "" ||
				strings.Contains(text, token) {
				t.Errorf("%s with %q: got %d %s", path, auth, got, text)
			}
		}
	}
	if got, _, _ := request(t, "POST", url+"/v1/reload", "", "", ""); got != 401 {
		t.Errorf("reload without a token: got %d", got)
	}
	for host, want := range map[string]int{
		"": 200, "localhost": 200, "LOCALHOST" + port: 200, "localhost.": 200, "a.localhost" + port: 200,
		"127.0.0.1" + port: 200, "127.9.9.9": 200, "[::1]" + port: 200,
		"kvasir.example": 200, "KVASIR.example:443": 200,
		"evil.example": 421, "evil.example" + port: 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421,
		"kvasir.example.evil": 421,
		"192.0.2.1":           421, "10.0.0.1" + port: 421, "notlocalhost": 421,
	} {
		if got, _, text := request(t, "GET", url+"/v1/endpoints", "bearer "+token, host, ""); got != want {
			t.Errorf("host %q: got %d %s, want %d", host, got, text, want)
		}
		if got, _, _ := request(t, "GET", url+"/healthz", "", host, ""); got != 200 {
			t.Errorf("health for host %q: got %d", host, got)
		}
	}
}

func TestServer_loopbackMetrics(t *testing.T) {
	url := start(t, Config{Metrics: metrics, LoopbackMetrics: true})
	if got, _, _ := request(t, "GET", url+"/metrics", "", "", ""); got != 200 {
		t.Errorf("got %d", got)
	}
	if got, _, _ := request(t, "GET", url+"/metrics", "", "evil.example", ""); got != 421 {
		t.Errorf("rebound name: got %d", got)
	}
	if got, _, _ := request(t, "GET", url+"/debug/pprof/", "", "", ""); got != 401 {
		t.Errorf("pprof: got %d", got)
	}
	for _, path := range []string{"/v1/status", "/v1/explain/x", "/v1/reload"} {
		if got, _, _ := request(t, "GET", url+path, "Bearer "+token, "", ""); got != 404 {
			t.Errorf("%s of a server without it: got %d", path, got)
		}
	}
}

func TestServeMetrics(t *testing.T) {
	h := &fake{}
	url := run(t, func(ctx context.Context, l net.Listener) error { return ServeMetrics(ctx, l, metrics, h, nil) })
	for path, want := range map[string]int{"/metrics": 200, "/healthz": 200, "/readyz": 200, "/v1/status": 404,
		"/v1/reload": 404, "/debug/pprof/": 404} {
		if got, _, text := request(t, "GET", url+path, "", "prometheus.example", ""); got != want {
			t.Errorf("%s: got %d %s, want %d", path, got, text, want)
		}
	}
	h.ready = errors.New("starting")
	if got, _, _ := request(t, "GET", url+"/readyz", "", "", ""); got != 503 {
		t.Errorf("got %d", got)
	}
}

func TestNew_errors(t *testing.T) {
	_, err := New(Config{Token: "a b", MaxBody: -1, Hosts: []string{"", "http://x"}})
	if err == nil || strings.Count(err.Error(), "\n") != 4 {
		t.Errorf("got %v, want five faults", err)
	}
}

func TestServe_listenerFails(t *testing.T) {
	s, err := New(Config{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := s.Serve(context.Background(), l); err == nil || !strings.HasPrefix(err.Error(), "admin: ") {
		t.Errorf("got %v", err)
	}
}

// FuzzHostAllowed: a Host header passes only if it is a name or an address of this
// machine.
func FuzzHostAllowed(f *testing.F) {
	for _, s := range []string{"localhost:1", "[::1]", "evil.example", "127.0.0.1.", "::ffff:127.0.0.1", "localhost.evil",
		"[localhost]", "a:b:c", "::1%00000"} {
		f.Add(s)
	}
	g, err := NewAccess(token, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if !g.hostAllowed(&http.Request{Host: host}) {
			return
		}
		h := canonicalHost(host)
		if ip := net.ParseIP(h); h != "localhost" && !strings.HasSuffix(h, ".localhost") && (ip == nil || !ip.IsLoopback()) {
			t.Fatalf("%q passes as %q", host, h)
		}
	})
}
