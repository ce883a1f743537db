package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// heldRouter holds every request until the test lets it go.
type heldRouter struct {
	*fakeRouter
	asked chan *Request
	goes  chan error // result of Wait, nil = a placement
	deaf  bool       // Wait ignores that the client left
	left  chan struct{}
}

func newHeldRouter(addrs ...string) *heldRouter {
	return &heldRouter{fakeRouter: newRouter(addrs...), asked: make(chan *Request, 1000), goes: make(chan error),
		left: make(chan struct{}, 1000)}
}

var heldLimits = Limits{Requests: Remaining{Limit: 60, Left: 59, Reset: time.Second}}

func (r *heldRouter) Schedule(q *Request) (Placement, error) {
	q.Limits = heldLimits
	return nil, fmt.Errorf("wrapped: %w", &Held{Wait: func(q *Request) (Placement, error) {
		r.asked <- q
		gone := q.Gone()
		if r.deaf {
			gone = nil
		}
		select {
		case <-gone:
			r.left <- struct{}{}
			return nil, errors.New("left")
		case err := <-r.goes:
			q.Limits.Requests.Left--
			if err != nil {
				return nil, err
			}
			return r.fakeRouter.Schedule(q)
		}
	}})
}

func startHeld(t *testing.T, r *heldRouter, beat time.Duration, mod ...func(*setup)) *running {
	t.Helper()
	x := startRouter(t, r, append(mod, func(c *setup) { c.Heartbeat = beat })...)
	x.r = r.fakeRouter
	return x
}

const (
	soon  = 5 * time.Millisecond
	never = time.Hour
)

// heldAPIs are all APIs that stream, with their heartbeats.
var heldAPIs = append([]api{{"/v1/chat/completions", streamBody,
	"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: [DONE]\n\n", "data: {\"error\":{\"message\":"},
	{"/v1/completions", `{"model":"m","prompt":"x","stream":true}`, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n",
		"data: [DONE]\n\n", "data: {\"error\":{\"message\":"}}, streamAPIs...)

func (a *api) beat() string {
	if a.path == "/v1/messages" {
		return string(streamFormats[llmapi.StreamMessages].beat)
	}
	return string(commentBeat)
}

// hold sends a request and waits until it is held and n heartbeats came.
func (a *api) hold(t *testing.T, x *running, r *heldRouter, n int, head ...string) (net.Conn, *bufio.Reader,
	*http.Response) {
	t.Helper()
	c, br := dial(t, x.addr)
	io.WriteString(c, a.post(head...))
	<-r.asked
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Repeat(a.beat(), n)
	b := make([]byte, len(all))
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != all {
		t.Fatalf("heartbeats: %v, got %q", err, b)
	}
	return c, br, resp
}

// cutBeats takes the heartbeats off the beginning.
func (a *api) cutBeats(body string) string {
	for strings.HasPrefix(body, a.beat()) {
		body = body[len(a.beat()):]
	}
	return body
}

// TestHeld_stream: a stream that waits begins with its head and heartbeats; the
// engine's stream follows as it is, and the connection serves the next request.
func TestHeld_stream(t *testing.T) {
	for _, a := range heldAPIs {
		const usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\n"
		injects := strings.HasSuffix(a.path, "completions")
		e := newEngine(t, func(w http.ResponseWriter, q *http.Request, e *engine) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, piece := range []string{a.events[:11], a.events[11:], usage, a.end} {
				if piece != usage || injects {
					io.WriteString(w, piece)
					w.(http.Flusher).Flush()
				}
			}
		})
		r := newHeldRouter(e.addr)
		r.targets[0].Rewrite.ForceUsage = true
		x := startHeld(t, r, soon)
		c, br, resp := a.hold(t, x, r, 3, "X-Request-Id: r1\r\n")
		h := resp.Header
		limit, id := "X-Ratelimit-Remaining-Requests", h.Get("X-Request-Id")
		if a.path == "/v1/messages" {
			limit, id = "Anthropic-Ratelimit-Requests-Remaining", h.Get("Request-Id")
		}
		if resp.StatusCode != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || id != "r1" ||
			h.Get(limit) != "59" || h.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%s: %d %v", a.path, resp.StatusCode, h)
		}
		if e.begun.Load() != 0 {
			t.Fatalf("%s: the engine has the request already", a.path)
		}
		r.goes <- nil
		b, err := io.ReadAll(resp.Body)
		if got := a.cutBeats(string(b)); err != nil || got != a.events+a.end {
			t.Fatalf("%s: %v, got %q", a.path, err, b)
		}
		o := r.outcome(t)
		if o.End != exchange.EndComplete || o.Status != 200 || !o.HasUsage || o.TTFT < 3*soon {
			t.Errorf("%s: %+v", a.path, o)
		}
		io.WriteString(c, a.post())
		<-r.asked
		r.goes <- nil
		if resp, err = http.ReadResponse(br, nil); err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(resp.Body); err != nil || a.cutBeats(string(b)) != a.events+a.end {
			t.Errorf("%s: the next request: %v %q", a.path, err, b)
		}
		x.settle(t)
		if st := x.Stats(); st.Heartbeats < 3 || st.Completed != 2 || st.Reuses != 1 {
			t.Errorf("%s: %+v", a.path, st)
		}
	}
}

// TestHeld_short: a client that waits for less than a heartbeat gets the engine's
// answer as if it had not waited; so does a request without stream, however long.
func TestHeld_short(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, q *http.Request, e *engine) {
		w.Header().Set("X-Engine", "e1")
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "short")
	})
	for body, beat := range map[string]time.Duration{streamBody: never, plainBody: time.Nanosecond} {
		r := newHeldRouter(e.addr)
		x := startHeld(t, r, beat)
		c, br := dial(t, x.addr)
		io.WriteString(c, post(body))
		<-r.asked
		r.goes <- nil
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusTeapot || resp.Header.Get("X-Engine") != "e1" || string(b) != "short" ||
			resp.Header.Get("X-Ratelimit-Remaining-Requests") != "58" {
			t.Errorf("%s: %d %v %q", body, resp.StatusCode, resp.Header, b)
		}
		if n := x.Stats().Heartbeats; n != 0 {
			t.Errorf("%s: %d heartbeats", body, n)
		}
	}
	// A refusal after a short wait is an answer with a status.
	for _, body := range []string{streamBody, plainBody} {
		r := newHeldRouter(e.addr)
		x := startHeld(t, r, never)
		c, br := dial(t, x.addr)
		io.WriteString(c, post(body))
		<-r.asked
		r.goes <- &llmapi.Error{Status: 503, Code: llmapi.CodeModelNotStarted, Message: "m", RetryAfter: 90 * time.Second}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 503 || errorOf(t, string(b)) != "model_not_started" || resp.Header.Get("Retry-After") != "90" {
			t.Errorf("%s: %d %v %q", body, resp.StatusCode, resp.Header, b)
		}
	}
}

// badEnds are the ways a stream that was held comes to nothing.
var badEnds = map[string]struct {
	err    error
	engine func(c net.Conn, br *bufio.Reader) // nil = none listens
	want   string                             // in the event
	status int                                // of the outcome, 0 = none
	kind   exchange.End
}{
	"refused":  {err: llmapi.Refuse(llmapi.CodeModelNotStarted, "it came too late"), want: "it came too late"},
	"internal": {err: errors.New("secret"), want: errNoEndpoint.Message},
	"api":      {err: &llmapi.Error{Status: 404, Code: llmapi.CodeModelNotFound, Message: "gone"}, want: `gone`},
	"connect":  {want: "not reachable", status: 502, kind: exchange.EndConnect},
	"dies": {engine: func(c net.Conn, br *bufio.Reader) { request(br) }, want: "failed before it answered",
		status: 502, kind: exchange.EndNoAnswer},
	"no_stream": {engine: says("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
		want: "failed before it answered", status: 502, kind: exchange.EndMalformed},
	"engine_400": {engine: says("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n" +
		chunked(`{"error":{"message":"too \"long\"",`) + chunked(`"type":"BadRequestError","param":null,"code":400}}`) +
		"0\r\n\r\n"), want: `too \"long\"`, status: 400, kind: exchange.EndComplete},
	"engine_empty": {engine: says("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), want: "with status 500", status: 500,
		kind: exchange.EndComplete},
	"engine_close": {engine: says("HTTP/1.1 500 Oops\r\n\r\n{\"error\":\"no memory\"}"), want: "no memory", status: 500,
		kind: exchange.EndComplete},
	"engine_short": {engine: says("HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\n{\"error\":\"no"),
		want: "failed before it answered", status: 502, kind: exchange.EndDied},
	"engine_long": {engine: says("HTTP/1.1 500 Oops\r\nContent-Length: 70000\r\n\r\n" + strings.Repeat("x", 70000)),
		want:   "failed before it answered",
		status: 502, kind: exchange.EndMalformed},
	"engine_sse": {engine: says("HTTP/1.1 422 No\r\nContent-Type: text/event-stream\r\nContent-Length: 16\r\n\r\n" +
		"{\"error\":\"what\"}"), want: "what", status: 422, kind: exchange.EndComplete},
}

// says returns an engine that answers one request with raw and closes.
func says(raw string) func(c net.Conn, br *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		if _, err := request(br); err == nil {
			io.WriteString(c, raw)
		}
	}
}

// TestHeld_error: an error after the head was sent becomes one whole event of the
// API, without [DONE] and without the body's last chunk.
func TestHeld_error(t *testing.T) {
	for name, b := range badEnds {
		for _, a := range heldAPIs {
			addr := "127.0.0.1:1"
			if b.engine != nil {
				addr = rawEngine(t, b.engine)
			}
			r := newHeldRouter(addr)
			x := startHeld(t, r, soon)
			_, _, resp := a.hold(t, x, r, 1)
			r.goes <- b.err
			body, err := io.ReadAll(resp.Body)
			got := a.cutBeats(string(body))
			sick := strings.Replace(strings.Replace(a.sick, "upstream_died", "", 1), `"sequence_number":6,"code":"","message":`,
				`"sequence_number":0,"code":"`, 1)
			if i := strings.Index(sick, `"error":{"type":`); i > 0 {
				sick = sick[:i]
			}
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(got, sick) || !strings.HasSuffix(got, "}\n\n") ||
				strings.Count(got, "\n\n") != 1 ||
				!strings.Contains(got, b.want) || strings.Contains(got, "[DONE]") || strings.Contains(got, "secret") {
				t.Errorf("%s %s: %v, got %q, want %q… and %q", name, a.path, err, got, sick, b.want)
			}
			if b.status != 0 {
				if o := r.outcome(t); o.Status != b.status || o.End != b.kind {
					t.Errorf("%s %s: %+v", name, a.path, o)
				}
			}
			x.settle(t)
			if n := len(r.ended); n != 0 {
				t.Errorf("%s %s: %d outcomes more", name, a.path, n)
			}
		}
	}
}

// TestHeld_panic: a Wait that panics is an error of the router, not its end.
func TestHeld_panic(t *testing.T) {
	a := heldAPIs[0]
	r := newHeldRouter("127.0.0.1:1")
	x := startHeld(t, r, soon)
	_, _, resp := a.hold(t, x, r, 1)
	r.fakeRouter.set(func() { r.fakeRouter.schedule = func(*Request) error { panic("of the test") } })
	r.goes <- nil
	b, _ := io.ReadAll(resp.Body)
	if !strings.Contains(string(b), `"internal_error"`) {
		t.Errorf("got %q", b)
	}
	x.settle(t)
}

// TestHeld_gone: a client that leaves is noticed at once, before the head and
// after it; a place that comes nevertheless is given back.
func TestHeld_gone(t *testing.T) {
	for _, beat := range []time.Duration{never, soon, 300 * time.Millisecond} {
		for _, body := range []string{streamBody, plainBody} {
			r := newHeldRouter("127.0.0.1:1")
			x := startHeld(t, r, beat)
			c, br := dial(t, x.addr)
			io.WriteString(c, post(body))
			<-r.asked
			if beat != never && body == streamBody {
				readUntil(t, br, "waiting for the model")
			}
			at := time.Now()
			c.Close()
			select {
			case <-r.left:
			case <-time.After(5 * time.Second):
				t.Fatal("not told")
			}
			if d := time.Since(at); d > time.Second {
				t.Errorf("told after %v", d)
			}
			x.settle(t)
			if st := x.Stats(); st.ClientGone != 1 || len(r.ended) != 0 {
				t.Errorf("%s: %+v", body, st)
			}
		}
	}
	r := newHeldRouter("127.0.0.1:1")
	r.deaf = true
	x := startHeld(t, r, soon)
	c, _, _ := heldAPIs[0].hold(t, x, r, 1)
	c.Close()
	waitFor(t, func() bool { return x.ln.Load().conns()[0].departed() },
		func() string { return "the departure was not seen" })
	r.goes <- nil
	if o := r.outcome(t); o.End != exchange.EndClientGone || o.Status != 499 {
		t.Errorf("%+v", o)
	}
	x.settle(t)
}

// TestHeld_shutdown: the end of the drain ends held streams with an error event.
func TestHeld_shutdown(t *testing.T) {
	for _, a := range heldAPIs {
		r := newHeldRouter("127.0.0.1:1")
		x := startHeld(t, r, soon)
		_, _, resp := a.hold(t, x, r, 1)
		c, br := dial(t, x.addr)
		io.WriteString(c, post(plainBody))
		<-r.asked
		x.stop()
		b, err := io.ReadAll(resp.Body)
		if got := a.cutBeats(string(b)); err == nil || !strings.Contains(got, errDraining.Message) ||
			strings.Count(got, "\n\n") != 1 {
			t.Errorf("%s: %v, got %q", a.path, err, b)
		}
		plain, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := io.ReadAll(plain.Body); plain.StatusCode != 503 || errorOf(t, string(b)) != "shutting_down" {
			t.Errorf("%d %q", plain.StatusCode, b)
		}
		x.settle(t)
	}
}

// TestHeld_http10: a client that knows no chunks gets the same bytes until the
// connection ends.
func TestHeld_http10(t *testing.T) {
	a := heldAPIs[0]
	addr := rawEngine(t, says(sseHead+"Transfer-Encoding: chunked\r\n\r\n"+chunked(a.events+a.end)+"0\r\n\r\n"))
	for _, bad := range []error{nil, errors.New("no")} {
		r := newHeldRouter(addr)
		x := startHeld(t, r, soon)
		c, br := dial(t, x.addr)
		io.WriteString(c, strings.Replace(a.post(), "HTTP/1.1", "HTTP/1.0", 1))
		<-r.asked
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.Header.Get("Transfer-Encoding") != "" || len(resp.TransferEncoding) != 0 ||
			resp.ContentLength != -1 {
			t.Fatal(err, resp)
		}
		b := make([]byte, len(commentBeat))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != a.beat() {
			t.Fatal(err, string(b))
		}
		r.goes <- bad
		rest, err := io.ReadAll(resp.Body)
		got := a.cutBeats(string(rest))
		if ok := got == a.events+a.end; err != nil || ok != (bad == nil) || bad != nil && !strings.HasPrefix(got, a.sick) {
			t.Errorf("%v: %v, got %q", bad, err, rest)
		}
		x.settle(t)
	}
}

// TestHeld_bytes: the body of a held request counts until the engine has it.
func TestHeld_bytes(t *testing.T) {
	r := newHeldRouter("127.0.0.1:1")
	x := startHeld(t, r, soon, func(c *setup) { c.MaxBytesInFlight = 100 << 10 })
	a := heldAPIs[0]
	a.body = strings.Replace(a.body, "[]", `["`+strings.Repeat("x", 60<<10)+`"]`, 1)
	_, _, resp := a.hold(t, x, r, 1)
	if st := x.Stats(); st.BodyBytesHeld < 60<<10 || st.InFlight != 1 {
		t.Errorf("%+v", st)
	}
	second, b := do(t, x.addr, a.post())
	if second.StatusCode != 429 || errorOf(t, b) != "bytes_in_flight" {
		t.Errorf("%d %q", second.StatusCode, b)
	}
	r.goes <- errors.New("no")
	io.Copy(io.Discard, resp.Body)
	x.settle(t)
}

// TestHeld_tls: behind TLS the same, and the departure is seen.
func TestHeld_tls(t *testing.T) {
	a := heldAPIs[0]
	addr := rawEngine(t, says(sseHead+"Transfer-Encoding: chunked\r\n\r\n"+chunked(a.events)+chunked(a.end)+"0\r\n\r\n"))
	r := newHeldRouter(addr)
	ca := newAuthority(t)
	x := startHeld(t, r, soon, func(c *setup) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, "router.example")}}
	})
	for _, leaves := range []bool{false, true} {
		c, err := tls.Dial("tcp", x.addr, &tls.Config{RootCAs: ca.pool, ServerName: "router.example"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		br := bufio.NewReader(c)
		io.WriteString(c, a.post())
		<-r.asked
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 3*len(commentBeat))
		if _, err := io.ReadFull(resp.Body, b); err != nil {
			t.Fatal(err)
		}
		if leaves {
			c.Close()
			<-r.left
			continue
		}
		r.goes <- nil
		if b, err = io.ReadAll(resp.Body); err != nil || a.cutBeats(string(b)) != a.events+a.end {
			t.Errorf("%v %q", err, b)
		}
	}
	x.settle(t)
}
