package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// errorOf checks the OpenAI shape of an error body and returns its code.
func errorOf(t *testing.T, body string) string {
	t.Helper()
	var e struct {
		Error *struct {
			Message, Type, Code string
			Param               *string
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error == nil || e.Error.Message == "" ||
		e.Error.Type == "" {
		t.Errorf("no error in OpenAI's shape: %q %v", body, err)
		return ""
	}
	return e.Error.Code
}

func TestRefused(t *testing.T) {
	e := newEngine(t, answerOK)
	x := start(t, newRouter(e.addr), func(c *setup) { c.MaxBodyBytes = 1 << 20 })
	const host = "Host: x\r\n"
	get := func(method, target string) string { return method + " " + target + " HTTP/1.1\r\n" + host + "\r\n" }
	gz := "Content-Encoding: gzip\r\n"
	chunk := "POST /v1/chat/completions HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n"
	many := strings.Repeat("A: b\r\n", 101)
	for _, tc := range []struct {
		name, raw string
		status    int
		code      string
		header    string // name: value
	}{
		{"unknown_path", get("POST", "/v1/embeddings"), 404, "unknown_path", ""},
		{"path_is_not_normalized", get("POST", "/v1//chat/completions"), 404, "unknown_path", ""},
		{"path_is_not_decoded", get("POST", "/v1/chat/%63ompletions"), 404, "unknown_path", ""},
		{"dots", get("POST", "/v1/../v1/chat/completions"), 404, "unknown_path", ""},
		{"metrics_are_elsewhere", get("GET", "/metrics"), 404, "unknown_path", ""},
		{"wrong_method", get("GET", "/v1/chat/completions"), 405, "method_not_allowed", "Allow: OPTIONS, POST"},
		{"delete_models", get("DELETE", "/v1/models"), 405, "method_not_allowed", "Allow: OPTIONS, GET, HEAD"},
		{"odd_method", get("BREW", "/v1/completions"), 405, "method_not_allowed", "Allow: OPTIONS, POST"},
		{"connect", "CONNECT x:443 HTTP/1.1\r\n" + host + "\r\n", 404, "unknown_path", ""},
		{"length_and_chunked", chunk + "Content-Length: 5\r\n\r\n0\r\n\r\n", 400, "ambiguous_framing", "Connection: close"},
		{"chunked_and_length", "POST /v1/chat/completions HTTP/1.1\r\n" + host +
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "ambiguous_framing", "Connection: close"},
		{"two_lengths", post(plainBody, "Content-Length: 27\r\n"), 400, "invalid_request", "Connection: close"},
		{"two_hosts", post(plainBody, "Host: y\r\n"), 400, "invalid_request", "Connection: close"},
		{"two_authorizations", post(plainBody, "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"), 400,
			"duplicate_header", "Connection: close"},
		{"two_api_keys", post(plainBody, "X-Api-Key: a\r\nx-api-key: a\r\n"), 400, "duplicate_header", ""},
		{"two_content_types", post(plainBody, "content-type: text/plain\r\n"), 400, "duplicate_header", ""},
		{"two_request_ids", post(plainBody, "X-Request-Id: a\r\nX-Request-Id: b\r\n"), 400, "duplicate_header", ""},
		{"folded_line", post(plainBody, "A: b\r\n c\r\n"), 400, "", "Connection: close"},
		{"bare_line_feed", post(plainBody, "A: b\nB: c\r\n"), 400, "", "Connection: close"},
		{"space_before_colon", post(plainBody, "A : b\r\n"), 400, "", "Connection: close"},
		{"control_in_value", post(plainBody, "A: b\x01\r\n"), 400, "", "Connection: close"},
		{"many_fields", post(plainBody, many), 431, "too_many_headers", "Connection: close"},
		{"large_head", post(plainBody, "A: "+strings.Repeat("x", 17<<10)+"\r\n"), 431, "headers_too_large",
			"Connection: close"},
		{"old_version", strings.Replace(post(plainBody), "HTTP/1.1", "HTTP/1.2", 1), 505, "http_version",
			"Connection: close"},
		{"no_host", strings.Replace(post(plainBody), "Host: x\r\n", "", 1), 400, "invalid_request", "Connection: close"},
		{"userinfo_in_host", strings.Replace(post(plainBody), "Host: x", "Host: a@x", 1), 400, "invalid_header", ""},
		{"gzip", post(plainBody, gz), 415, "unsupported_content_encoding", "Connection: close"},
		{"expect_unknown", post(plainBody, "Expect: 200-ok\r\n"), 417, "unsupported_expectation", ""},
		{"too_large_announced", "POST /v1/completions HTTP/1.1\r\n" + host + "Content-Length: 1048577\r\n\r\n{", 413,
			"body_too_large", "Connection: close"},
		{"too_large_chunked", chunk + "\r\n" + strings.Repeat(chunked(strings.Repeat("x", 64<<10)), 20), 413,
			"body_too_large", "Connection: close"},
		{"too_large_expected", "POST /v1/completions HTTP/1.1\r\n" + host +
			"Expect: 100-continue\r\nContent-Length: 1048577\r\n\r\n", 413, "body_too_large", "Connection: close"},
		{"broken_chunk", chunk + "\r\nzz\r\n", 400, "invalid_body", "Connection: close"},
		{"no_json", post("hello"), 400, "invalid_json", ""},
		{"no_body", post(""), 400, "", ""},
		{"duplicate_key", post(`{"model":"a","model":"b"}`), 400, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := do(t, x.addr, tc.raw)
			if resp.StatusCode != tc.status {
				t.Errorf("got %d %q, want %d", resp.StatusCode, body, tc.status)
			}
			if code := errorOf(t, body); tc.code != "" && code != tc.code {
				t.Errorf("code %q, want %q", code, tc.code)
			}
			if k, v, ok := strings.Cut(tc.header, ": "); ok && resp.Header.Get(k) != v && !(k == "Connection" && resp.Close) {
				t.Errorf("%s: %q, want %q", k, resp.Header.Get(k), v)
			}
			if resp.Header.Get("X-Request-Id") == "" {
				t.Error("no request id")
			}
			if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
				t.Errorf("content type %q", ct)
			}
		})
	}
	if n := e.begun.Load(); n != 0 {
		t.Errorf("the engine saw %d requests", n)
	}
	x.settle(t)
}

func TestAnswered(t *testing.T) {
	e := newEngine(t, answerOK)
	x := start(t, newRouter(e.addr), func(c *setup) { c.CORSOrigins = []string{"https://app.example"} })
	for _, tc := range []struct {
		name, raw string
		status    int
		body      string
		header    string
	}{
		{"health", "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", 200, "ok\n", ""},
		{"models", "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 200, `"id":"m"`, "Content-Type: application/json"},
		{"model", "GET /v1/models/m HTTP/1.1\r\nHost: x\r\n\r\n", 200, `{"id":"m"`, ""},
		{"model_with_escapes", "GET /v1/models/org/big%20model HTTP/1.1\r\nHost: x\r\n\r\n", 200, `"max_model_len":4096`, ""},
		{"absolute_form", "GET http://x/v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 200, `"id":"m"`, ""},
		{"unknown_model", "GET /v1/models/zz HTTP/1.1\r\nHost: x\r\n\r\n", 404, "model_not_found", ""},
		{"options", "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\n\r\n", 204, "", "Allow: OPTIONS, POST"},
		{"options_star", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 204, "", ""},
		{"cors", "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: x\r\nOrigin: https://app.example\r\n" +
			"Access-Control-Request-Headers: authorization\r\n\r\n", 204, "", "Access-Control-Allow-Headers: authorization"},
		{"cors_answer", post(plainBody, "Origin: https://app.example\r\n"), 200, "ok",
			"Access-Control-Allow-Origin: https://app.example"},
		{"cors_other_origin", post(plainBody, "Origin: https://evil.example\r\n"), 200, "ok",
			"Access-Control-Allow-Origin: "},
		{"expect", post(plainBody, "Expect: 100-continue\r\n"), 100, "", ""},
		{"chunked", "POST /v1/completions?x=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunked(plainBody) + "0\r\n\r\n", 200, "ok", ""},
		{"tokenize", strings.Replace(post(plainBody), "/v1/chat/completions", "/tokenize", 1), 200, "ok", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp, body := do(t, x.addr, tc.raw)
			if resp.StatusCode != tc.status || !strings.Contains(body, tc.body) {
				t.Errorf("got %d %q", resp.StatusCode, body)
			}
			if k, v, ok := strings.Cut(tc.header, ": "); ok && resp.Header.Get(k) != v {
				t.Errorf("%s: %q, want %q", k, resp.Header.Get(k), v)
			}
		})
	}
	c, br := dial(t, x.addr)
	io.WriteString(c, "HEAD /v1/models HTTP/1.1\r\nHost: x\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, err := http.ReadResponse(br, &http.Request{Method: "HEAD"}); err != nil || resp.StatusCode != 200 ||
		resp.ContentLength <= 0 {
		t.Error(resp, err)
	}
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
		t.Error("after HEAD:", resp, err)
	}
}

// Callers are identified before their body is read, also when they wait for
// leave to send it.
func TestIdentify(t *testing.T) {
	r := newRouter()
	var seen atomic.Pointer[identity.Credentials]
	r.auth = func(c *identity.Credentials) (*identity.Principal, error) {
		seen.Store(&identity.Credentials{Authorization: append([]byte(nil), c.Authorization...),
			APIKey: append([]byte(nil), c.APIKey...)})
		if string(c.Authorization) == "Bearer good" || string(c.APIKey) == "good" {
			return &identity.Principal{Tenant: "acme"}, nil
		}
		return nil, errors.New("secret reason")
	}
	e := newEngine(t, answerOK)
	r.targets = []exchange.Target{{Addr: e.addr}}
	x := start(t, r)
	for _, raw := range []string{
		post(plainBody), post(plainBody, "Authorization: Bearer bad\r\n"), "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\n{",
		"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
	} {
		resp, body := do(t, x.addr, raw)
		if resp.StatusCode != 401 || errorOf(t, body) != "invalid_api_key" ||
			resp.Header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(body, "secret") {
			t.Errorf("%.60q: %d %q", raw, resp.StatusCode, body)
		}
	}
	for _, h := range []string{"Authorization: Bearer good\r\n", "x-api-key: good\r\n"} {
		if resp, _ := do(t, x.addr, post(plainBody, h)); resp.StatusCode != 200 {
			t.Error(resp.StatusCode)
		}
	}
	// An underscore spelling is no credential.
	if resp, _ := do(t, x.addr, post(plainBody, "x_api_key: good\r\n")); resp.StatusCode != 401 {
		t.Error(resp.StatusCode)
	}
	if e.begun.Load() != 2 {
		t.Error(e.begun.Load())
	}
	if x.bodies.held.Load() != 0 {
		t.Error("a body was read")
	}
}

func TestScheduleErrors(t *testing.T) {
	r := newRouter("unused")
	x := start(t, r)
	for _, tc := range []struct {
		err    error
		status int
		code   string
		after  string
	}{
		{errors.New("inner detail"), 503, "no_endpoint", "1"},
		{&llmapi.Error{Status: 429, Code: llmapi.CodeRateLimit, Message: "slow down", RetryAfter: 2500 * time.Millisecond},
			429, "rate_limit_exceeded", "3"},
		{fmt.Errorf("wrapped: %w", llmapi.Refuse(llmapi.CodePolicyDenied, "no")), 403, "policy_denied", ""},
	} {
		r.set(func() { r.schedule = func(*Request) error { return tc.err } })
		resp, body := do(t, x.addr, post(plainBody))
		if resp.StatusCode != tc.status || errorOf(t, body) != tc.code || resp.Header.Get("Retry-After") != tc.after ||
			strings.Contains(body, "inner") {
			t.Errorf("%v: %d %q %v", tc.err, resp.StatusCode, body, resp.Header)
		}
	}
	x.settle(t)
}

func TestPanicsAreContained(t *testing.T) {
	e := newEngine(t, answerOK)
	r := newRouter(e.addr)
	var calm atomic.Bool
	r.schedule = func(*Request) error {
		if !calm.Load() {
			panic("router bug")
		}
		return nil
	}
	x := start(t, r)
	if resp, body := do(t, x.addr, post(plainBody)); resp.StatusCode != 500 || errorOf(t, body) != "internal_error" {
		t.Error(resp.StatusCode, body)
	}
	calm.Store(true)
	if resp, _ := do(t, x.addr, post(plainBody)); resp.StatusCode != 200 {
		t.Error(resp.StatusCode)
	}
	x.settle(t)
}

func TestAdmission(t *testing.T) {
	e := newEngine(t, prefill)
	x := start(t, newRouter(e.addr), func(c *setup) { c.MaxConcurrent = 2; c.MaxBytesInFlight = 1 << 20 })
	for range 2 {
		c, _ := dial(t, x.addr)
		io.WriteString(c, post(plainBody))
		<-e.arrived
	}
	resp, body := do(t, x.addr, post(plainBody))
	if resp.StatusCode != 429 || errorOf(t, body) != "concurrency_limit" || resp.Header.Get("Retry-After") != "1" {
		t.Error(resp.StatusCode, body)
	}
	// Bodies are refused by their announcement, before memory is taken.
	y := start(t, newRouter(e.addr), func(c *setup) { c.MaxBytesInFlight = 1 << 20 })
	resp, body = do(t, y.addr, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n{")
	if resp.StatusCode != 429 || errorOf(t, body) != "bytes_in_flight" {
		t.Error(resp.StatusCode, body)
	}
	// And while they grow.
	resp, body = do(t, y.addr, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+
		strings.Repeat(chunked(strings.Repeat(" ", 64<<10)), 40))
	if resp.StatusCode != 429 || errorOf(t, body) != "bytes_in_flight" {
		t.Error(resp.StatusCode, body)
	}
}

func TestSlowSender(t *testing.T) {
	e := newEngine(t, answerOK)
	x := start(t, newRouter(e.addr), func(c *setup) { c.BodyTimeout = 150 * time.Millisecond })
	for _, raw := range []string{"POST /v1/completions HTTP/1.1\r\nHos",
		"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"} {
		from := time.Now()
		resp, body := do(t, x.addr, raw)
		if resp.StatusCode != 408 || errorOf(t, body) != "request_timeout" || time.Since(from) > 3*time.Second {
			t.Errorf("%q: %d %q after %v", raw, resp.StatusCode, body, time.Since(from))
		}
	}
	x.settle(t)
}

// A long upload that makes progress outlives the limit.
func TestSlowSender_progress(t *testing.T) {
	e := newEngine(t, answerOK)
	x := start(t, newRouter(e.addr), func(c *setup) { c.BodyTimeout = time.Second })
	body := `{"model":"m","messages":[],"x":"` + strings.Repeat("y", 6<<20) + `"}`
	c, br := dial(t, x.addr)
	raw := post(body)
	for i := 0; i < len(raw); i += 1 << 20 {
		io.WriteString(c, raw[i:min(len(raw), i+1<<20)])
		time.Sleep(250 * time.Millisecond) // the slowness is the point
	}
	if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
}

func TestRequestID(t *testing.T) {
	var got atomic.Value
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		got.Store(r.Header.Get("X-Request-Id"))
		w.Header().Set("X-Request-Id", "the-engine's")
		io.WriteString(w, "ok")
	})
	r := newRouter(e.addr)
	var routed atomic.Value
	r.schedule = func(q *Request) error { routed.Store(q.ID); return nil }
	x := start(t, r)
	for _, tc := range []struct {
		in   string
		kept bool
	}{{"", false}, {"abc-123_X.y:z", true}, {"with space", false}, {"quote\"", false}, {strings.Repeat("a", 128), true},
		{strings.Repeat("a", 129), false}} {
		head := ""
		if tc.in != "" {
			head = "x-request-id: " + tc.in + "\r\n"
		}
		resp, _ := do(t, x.addr, post(plainBody, head))
		ids := resp.Header.Values("X-Request-Id")
		if len(ids) != 1 || (ids[0] == tc.in) != tc.kept || got.Load() != ids[0] || routed.Load() != ids[0] {
			t.Errorf("%q: out %q, engine %q, router %q", tc.in, ids, got.Load(), routed.Load())
		}
	}
}

func TestDrain(t *testing.T) {
	next := make(chan struct{})
	h := func(w http.ResponseWriter, r *http.Request, e *engine) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-next:
			io.WriteString(w, doneEvent)
		case <-r.Context().Done():
		}
	}
	t.Run("waits", func(t *testing.T) {
		e := newEngine(t, h)
		x := start(t, newRouter(e.addr), func(c *setup) { c.DrainTimeout = 20 * time.Second })
		idle, _ := dial(t, x.addr)
		io.WriteString(idle, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
		c, br := dial(t, x.addr)
		io.WriteString(c, post(streamBody))
		readUntil(t, br, "data: 1")
		x.stop()
		waitFor(t, func() bool { _, err := net.Dial("tcp", x.addr); return err != nil },
			func() string { return "still accepts" })
		next <- struct{}{}
		readUntil(t, br, "[DONE]")
		if err := <-x.end; err != nil {
			t.Error(err)
		}
		x.end <- nil
		if o := x.r.outcome(t); o.End != exchange.EndComplete {
			t.Errorf("%+v", o)
		}
	})
	t.Run("cuts", func(t *testing.T) {
		e := newEngine(t, h)
		x := start(t, newRouter(e.addr))
		c, br := dial(t, x.addr)
		io.WriteString(c, post(streamBody))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body := bufio.NewReader(resp.Body)
		readUntil(t, body, "data: 1")
		half, _ := dial(t, x.addr) // a body that never comes
		io.WriteString(half, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
		waitFor(t, func() bool { return x.count.inFlight.Load() == 2 }, func() string { return "not seen" })
		from := time.Now()
		x.stop()
		rest, err := io.ReadAll(body)
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(string(rest), `"code":"shutdown`) &&
			!strings.Contains(string(rest), `"shutting_down"`) {
			t.Errorf("%v %q", err, rest)
		}
		if err := <-x.end; err != nil {
			t.Error(err)
		}
		x.end <- nil
		if d := time.Since(from); d > 8*time.Second {
			t.Errorf("took %v", d)
		}
		if o := x.r.outcome(t); o.End != exchange.EndShutdown {
			t.Errorf("%+v", o)
		}
		x.settle(t)
	})
}

func TestTLS(t *testing.T) {
	ts := httptest.NewUnstartedServer(nil)
	ts.StartTLS()
	cert := ts.TLS.Certificates[0]
	pool := x509.NewCertPool()
	pool.AddCert(ts.Certificate())
	ts.Close()

	// The engine speaks TLS too.
	canceled := make(chan time.Time, 10)
	arrived := make(chan struct{}, 10)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if strings.Contains(string(b), "stay") {
			arrived <- struct{}{}
			<-r.Context().Done()
			canceled <- time.Now()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.StartTLS()
	defer srv.Close()

	r := newRouter(srv.Listener.Addr().String())
	r.targets[0].TLS = &tls.Config{RootCAs: pool, ServerName: "example.com"}
	x := start(t, r, func(c *setup) { c.TLS = &tls.Config{Certificates: []tls.Certificate{cert}} })
	connect := func() *tls.Conn {
		c, err := tls.Dial("tcp", x.addr, &tls.Config{RootCAs: pool, ServerName: "example.com"})
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		return c
	}
	c := connect()
	br := bufio.NewReader(c)
	for range 4 {
		io.WriteString(c, post(streamBody))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n" {
			t.Fatalf("%v %q", err, b)
		}
	}
	c.Close()
	if st := x.Stats(); st.Dials != 1 || st.Reuses != 3 {
		t.Errorf("%+v", st)
	}
	for range 20 {
		c := connect()
		io.WriteString(c, post(`{"model":"m","messages":[],"user":"stay"}`))
		<-arrived
		at := time.Now()
		c.Close()
		select {
		case end := <-canceled:
			if d := end.Sub(at); d > time.Second {
				t.Errorf("engine ran on for %v", d)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("engine runs on")
		}
	}
	x.settle(t)
}

func TestRun_twice(t *testing.T) {
	x := start(t, newRouter())
	waitFor(t, func() bool { return x.ln.Load() != nil }, func() string { return "not running" })
	if err := x.Run(context.Background(), listen(t)); err == nil {
		t.Error("ran twice")
	}
}

func TestConfig_Validate(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	bad := setup{Config{MaxAttempts: -1, IdleTimeout: -1, Timeouts: exchange.Timeouts{Total: -1}},
		EdgeConfig{MaxBodyBytes: -1, Hints: Hints{Session: "a b"}}}
	err := errors.Join(bad.Config.Validate(), bad.EdgeConfig.Validate())
	for _, want := range []string{"max_body", "max_attempts", "idle_timeout", "hints: header", "timeouts.total"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}
