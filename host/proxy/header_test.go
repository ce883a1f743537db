package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// recorder keeps the exact bytes of each request it gets.
func recorder(t *testing.T) (addr string, captured chan []byte) {
	captured = make(chan []byte, 1000)
	addr = rawEngine(t, func(c net.Conn, _ *bufio.Reader) {
		for {
			var raw bytes.Buffer
			br := bufio.NewReader(io.TeeReader(c, &raw))
			if _, err := request(br); err != nil {
				if raw.Len() > 0 {
					captured <- raw.Bytes()
				}
				return
			}
			captured <- raw.Bytes()
			if _, err := io.WriteString(c, okAnswer); err != nil {
				return
			}
		}
	})
	return addr, captured
}

// What reaches an engine, read from the bytes it got.
func TestHeaders_towardsTheEngine(t *testing.T) {
	addr, captured := recorder(t)
	r := newRouter(addr)
	r.targets[0].Authorization = "Bearer pool-secret"
	r.targets[0].Host = "engine.internal"
	x := start(t, r)

	never := []string{
		"Authorization: Bearer client-SECRET", "X-Api-Key: SECRET", "Api-Key: SECRET", "x-goog-api-key: SECRET",
		"Cookie: a=SECRET", "Proxy-Authorization: Basic SECRET", "X-Auth-Token: SECRET", "Ocp-Apim-Subscription-Key: SECRET",
		"X-Tenant-Id: SECRET", "x-tenant-ID: SECRET", "x_tenant_id: SECRET", "X-Cache-Salt: SECRET", "x_cache_salt: SECRET",
		"X-Gateway-Destination-Endpoint: SECRET", "X-Kvasir-Session: SECRET", "X-Kvasir-Priority: SECRET",
		"x_kvasir_debug: SECRET",
		"X-data-parallel-rank: SECRET", "X-Data-Parallel-Host-Port: SECRET", "X-Prefiller-Host-Port: SECRET",
		"X-SMG-Routing-Key: SECRET",
		"X-Forwarded-For: SECRET", "Forwarded: for=SECRET", "X-Real-IP: SECRET", "Via: SECRET",
		"Accept-Encoding: gzip, SECRET", "TE: trailers, SECRET", "Trailer: SECRET", "Upgrade: SECRET", "Keep-Alive: SECRET",
		"Proxy-Connection: SECRET", "HTTP2-Settings: SECRET", "Connection: X-Listed, X-Also", "X-Listed: SECRET",
		"X-ALSO: SECRET",
		"Expect: 100-continue", "Content_Length: 3", "transfer_encoding: chunked",
	}
	pass := []string{
		"User-Agent: OpenAI/Python 1.2", "Accept: text/event-stream",
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"OpenAI-Organization: org", "X-Stainless-Lang: python", "X-Custom_Name: v", "Empty:", "X-Utf8: größe",
	}
	check := func(name string, lines ...string) {
		t.Helper()
		c, br := dial(t, x.addr)
		io.WriteString(c, post(plainBody, strings.Join(lines, "\r\n")+"\r\n"))
		for {
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			io.Copy(io.Discard, resp.Body)
			if resp.StatusCode == 200 {
				break
			}
			if resp.StatusCode != 100 {
				t.Fatalf("%s: %d", name, resp.StatusCode)
			}
		}
		raw := string(<-captured)
		head, body, _ := strings.Cut(raw, "\r\n\r\n")
		if body != plainBody {
			t.Errorf("%s: body %q", name, body)
		}
		if strings.Contains(raw, "SECRET") || strings.Contains(strings.ToLower(head), "kvasir") {
			t.Errorf("%s: leaked in\n%s", name, head)
		}
		hs := strings.Split(head, "\r\n")
		count := map[string]int{}
		for _, h := range hs[1:] {
			n, _, _ := strings.Cut(h, ":")
			count[strings.ToLower(n)]++
		}
		for _, once := range []string{"host", "authorization", "content-length", "accept-encoding", "x-request-id",
			"content-type"} {
			if count[once] != 1 {
				t.Errorf("%s: %s occurs %d times in\n%s", name, once, count[once], head)
			}
		}
		for _, none := range []string{"expect", "connection", "transfer-encoding", "te", "trailer", "cookie", "x-api-key"} {
			if count[none] != 0 {
				t.Errorf("%s: %s in\n%s", name, none, head)
			}
		}
		for _, want := range []string{"Host: engine.internal", "Authorization: Bearer pool-secret",
			"Accept-Encoding: identity",
			fmt.Sprintf("Content-Length: %d", len(plainBody))} {
			if !strings.Contains(head+"\r\n", "\r\n"+want+"\r\n") {
				t.Errorf("%s: no %q in\n%s", name, want, head)
			}
		}
		for _, l := range lines {
			for _, p := range pass {
				if n, v, _ := strings.Cut(p, ":"); l == p && !strings.Contains(head+"\r\n",
					"\r\n"+n+": "+strings.TrimSpace(v)+"\r\n") {
					t.Errorf("%s: %q did not pass\n%s", name, p, head)
				}
			}
		}
	}
	for _, n := range never {
		if name, _, _ := strings.Cut(n, ":"); strings.HasPrefix(name, "X-Listed") || strings.HasPrefix(name, "X-ALSO") {
			continue // pass unless listed
		}
		check(n, n)
		check(strings.ToUpper(n[:1])+n[1:]+" with others", append([]string{n}, pass...)...)
	}
	check("all", append(append([]string{}, never...), pass...)...)
	check("none", pass...)
}

// The query and the spelling of the target stay with the router.
func TestHeaders_target(t *testing.T) {
	addr, captured := recorder(t)
	r := newRouter(addr)
	x := start(t, r)
	for _, target := range []string{"/v1/chat/completions?api_key=SECRET", "http://other/v1/chat/completions"} {
		do(t, x.addr, strings.Replace(post(plainBody), "/v1/chat/completions", target, 1))
		raw := string(<-captured)
		if line, _, _ := strings.Cut(raw, "\r\n"); line != "POST /v1/chat/completions HTTP/1.1" ||
			strings.Contains(raw, "SECRET") {
			t.Errorf("%s became %q", target, line)
		}
	}
}

// The body is edited, not written anew.
func TestBodyEdits(t *testing.T) {
	addr, captured := recorder(t)
	r := newRouter(addr)
	r.targets[0].Rewrite = llmapi.Rewrite{ForceUsage: true, Model: "Qwen/Q", SetSalt: true, Salt: "s", Dialect: "vllm"}
	x := start(t, r)
	in := "{ \"x\" : 1.0e+2,\t\"model\":\"m\" , \"cache_salt\":\"mine\",\"stream\":true," +
		"\"messages\":[{\"role\":\"user\",\"content\":\"\\ud83d\\ude00 } {\\u00e9\"}] }\n"
	do(t, x.addr, post(in))
	raw := <-captured
	_, body, _ := bytes.Cut(raw, crlf2)
	var api llmapi.Request
	if err := api.Scan(llmapi.OpChat, body); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	salt, _ := api.Value("cache_salt")
	if api.Model != "Qwen/Q" || !api.IncludeUsage || string(salt) != `"s"` ||
		bytes.Count(body, []byte("cache_salt")) != 1 ||
		!bytes.Contains(body, []byte("{ \"x\" : 1.0e+2,\t\"model\":")) ||
		!bytes.Contains(body, []byte("\"content\":\"\\ud83d\\ude00 } {\\u00e9\"}]")) {
		t.Errorf("%s", body)
	}
}

// What of an engine's head reaches the client.
func TestHeaders_towardsTheClient(t *testing.T) {
	addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		for {
			if _, err := request(br); err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nServer: uvicorn\r\nConnection: keep-alive, X-Hop\r\n"+
				"Keep-Alive: timeout=5\r\nX-Hop: SECRET\r\n"+
				"Proxy-Authenticate: SECRET\r\nUpgrade: SECRET\r\nTrailer: X-Late\r\nX-Keep: yes\r\nx-request-id: theirs\r\n"+
				"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked("data: 1\n\n")+
				"0\r\nX-Late: SECRET\r\n\r\n")
		}
	})
	x := start(t, newRouter(addr))
	for range 2 {
		c, br := dial(t, x.addr)
		io.WriteString(c, post(streamBody, "x-request-id: mine\r\n")+
			"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		b, err := io.ReadAll(br)
		if err != nil {
			t.Fatal(err)
		}
		if s := string(b); strings.Contains(s, "SECRET") || strings.Contains(s, "X-Late") || strings.Contains(s, "theirs") ||
			!strings.Contains(s, "X-Keep: yes") || !strings.Contains(s, "X-Request-Id: mine") ||
			!strings.Contains(s, "X-Accel-Buffering: no") ||
			strings.Count(s, "HTTP/1.1 200 OK") != 2 {
			t.Errorf("%s", s)
		}
	}
	if st := x.Stats(); st.Dials != 1 {
		t.Errorf("not reused: %+v", st)
	}
}

// Header fields that disclose the engine stay with the router.
func TestHeaders_disclosing(t *testing.T) {
	secret := []string{"Server-Timing: cache;dur=SECRET", "Set-Cookie: route=SECRET", "set-cookie: b=SECRET",
		"Alt-Svc: h2=\"SECRET:1\"", "Location: http://SECRET/",
		"Via: 1.1 SECRET", "X-Envoy-Upstream-Service-Time: SECRET", "x-data-parallel-rank: SECRET", "X_Worker_Id: SECRET",
		"X-Kvasir-Endpoint: SECRET",
		"X-Served-By: SECRET", "x-backend-server: SECRET", "X-UPSTREAM-ADDR: SECRET", "x-inference-pod: SECRET",
		"X-Cache-Hit: SECRET", "x-cache: SECRET",
		"endpoint-load-metrics: SECRET", "X-Tenant-Id: SECRET", "x-sglang-worker: SECRET"}
	pass := []string{"X-Ratelimit-Limit-Requests: 5", "Openai-Processing-Ms: 7", "X-Keep: yes", "Retry-After: 3",
		"Cache-Control: no-store", "Server: uvicorn"}
	for _, lines := range [][]string{append(append([]string{}, secret...), pass...), secret[:1], secret[1:2],
		secret[8:9]} {
		addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
			for {
				if _, err := request(br); err != nil {
					return
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+strings.Join(lines, "\r\n")+
					"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			}
		})
		x := start(t, newRouter(addr))
		c, br := dial(t, x.addr)
		io.WriteString(c, post(plainBody, "Connection: close\r\n"))
		b, err := io.ReadAll(br)
		if err != nil {
			t.Fatal(err)
		}
		s := string(b)
		if strings.Contains(s, "SECRET") || !strings.HasSuffix(s, "\r\n\r\n{}") {
			t.Errorf("told a client:\n%s", s)
		}
		for _, l := range lines[min(len(secret), len(lines)):] {
			if !strings.Contains(strings.ToLower(s), strings.ToLower(l)+"\r\n") {
				t.Errorf("%q did not pass:\n%s", l, s)
			}
		}
	}
}

// An answer with two framings is passed on by the chunks and its connection not
// used again.
func TestAmbiguousAnswer(t *testing.T) {
	addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := request(br); err == nil {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"+chunked("hello")+
				"0\r\n\r\n")
			c.Read(make([]byte, 1))
		}
	})
	x := start(t, newRouter(addr))
	resp, body := do(t, x.addr, post(plainBody))
	x.settle(t)
	if body != "hello" || resp.ContentLength != -1 || x.Stats().IdleConns != 0 {
		t.Errorf("%q %d %+v", body, resp.ContentLength, x.Stats())
	}
}

// Bytes behind an answer belong to no request.
func TestBytesBehindAnAnswer(t *testing.T) {
	addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		for {
			b, err := request(br)
			if err != nil {
				return
			}
			io.WriteString(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\n"+
				"Content-Length: 6\r\n\r\nSECRET", len(b), b))
		}
	})
	x := start(t, newRouter(addr))
	c, br := dial(t, x.addr)
	for i := range 20 {
		want := fmt.Sprintf(`{"model":"m","messages":[],"seed":%d}`, i)
		io.WriteString(c, post(want))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != want {
			t.Fatalf("got %q want %q", b, want)
		}
	}
	if st := x.Stats(); st.Reuses != 0 {
		t.Errorf("a connection that says more than it was asked is used again: %+v", st)
	}
}
