package proxy

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// deadAddr returns an address where connections are refused as long as the test
// runs: a port that is bound, so that no other process gets it, and not listened on.
func deadAddr(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", sa.(*syscall.SockaddrInet4).Port)
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\nok"

// oneAnswer answers every request with s, then closes unless keep.
func oneAnswer(t *testing.T, n *atomic.Int64, s string, keep bool) string {
	return rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		for {
			if _, err := request(br); err != nil {
				return
			}
			n.Add(1)
			io.WriteString(c, s)
			if !keep {
				return
			}
		}
	})
}

func TestRetry_table(t *testing.T) {
	overload := func(code string) string {
		return "HTTP/1.1 " + code + " X\r\nContent-Type: application/json\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"
	}
	const dead, ok = "dead", okAnswer
	for _, tc := range []struct {
		name    string
		engines []string // what each answers; dead = refuses
		status  int
		body    string // must be in it
		seen    string // requests per engine
		kind    exchange.End
		retries string
	}{
		{"refused", []string{dead, ok}, 200, "ok", "01", exchange.EndComplete, "connect:1"},
		{"refused_twice", []string{dead, dead, ok}, 200, "ok", "001", exchange.EndComplete, "connect:2"},
		{"attempts_are_bounded", []string{dead, dead, dead, ok}, 502, `"code":"connect"`, "0000", exchange.EndConnect,
			"connect:2"},
		{"refused_and_no_other", []string{dead}, 502, `"code":"connect"`, "0", exchange.EndConnect, ""},
		{"closed_without_a_byte", []string{"", ok}, 502, "upstream_no_answer", "10", exchange.EndNoAnswer, ""},
		{"refused_then_closed", []string{dead, "", ok}, 502, "upstream_no_answer", "010", exchange.EndNoAnswer,
			"connect:1"},
		{"closed_in_the_head", []string{"HTTP/1.1 200 OK\r\nConte", ok}, 502, "upstream_died", "10", exchange.EndDied, ""},
		{"closed_after_an_interim_answer", []string{"HTTP/1.1 103 X\r\n\r\n", ok}, 502, "upstream_died", "10",
			exchange.EndDied, ""},
		{"not_http", []string{"SSH-2.0-OpenSSH\r\n\r\n", ok}, 502, "upstream_malformed", "10", exchange.EndMalformed, ""},
		{"head_too_large", []string{"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", ok}, 502,
			"upstream_malformed", "10", exchange.EndMalformed, ""},
		{"protocol_switch", []string{"HTTP/1.1 101 X\r\n\r\n", ok}, 502, "upstream_malformed", "10", exchange.EndMalformed,
			""},
		{"429", []string{overload("429"), ok}, 200, "ok", "11", exchange.EndComplete, "overload:1"},
		{"503", []string{overload("503"), ok}, 200, "ok", "11", exchange.EndComplete, "overload:1"},
		{"503_everywhere", []string{overload("503"), overload("429")}, 429, "busy", "11", exchange.EndComplete, "overload:1"},
		{"503_and_no_other", []string{overload("503")}, 503, "busy", "1", exchange.EndComplete, ""},
		{"503_then_refused", []string{overload("503"), dead, ok}, 200, "ok", "101", exchange.EndComplete,
			"connect:1 overload:1"},
		{"one_allowance", []string{dead, overload("503"), overload("502"), ok}, 502, "busy", "0110", exchange.EndComplete,
			"connect:1 overload:1"},
		{"500", []string{overload("500"), ok}, 200, "ok", "11", exchange.EndComplete, "failed:1"},
		{"500_twice_is_passed_on", []string{overload("500"), overload("500"), ok}, 500, "busy", "110",
			exchange.EndComplete, "failed:1"},
		{"500_and_no_other", []string{overload("500")}, 500, "busy", "1", exchange.EndComplete, ""},
		{"502_504", []string{overload("502"), overload("504"), ok}, 200, "ok", "111", exchange.EndComplete, "gateway:2"},
		{"501_is_passed_on", []string{overload("501"), ok}, 501, "busy", "10", exchange.EndComplete, ""},
		{"400_is_passed_on", []string{overload("400"), ok}, 400, "busy", "10", exchange.EndComplete, ""},
		{"404_is_passed_on", []string{overload("404"), ok}, 404, "busy", "10", exchange.EndComplete, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			seen := make([]atomic.Int64, len(tc.engines))
			r := newRouter()
			for i, a := range tc.engines {
				addr := ""
				if a == dead {
					addr = deadAddr(t)
				} else {
					addr = oneAnswer(t, &seen[i], a, a == ok)
				}
				r.targets = append(r.targets, exchange.Target{Addr: addr})
			}
			x := start(t, r)
			resp, body := do(t, x.addr, post(plainBody))
			got := ""
			for i := range seen {
				got += fmt.Sprint(seen[i].Load())
			}
			if resp.StatusCode != tc.status || !strings.Contains(body, tc.body) || got != tc.seen {
				t.Errorf("got %d %q, engines saw %s; want %d %q %s", resp.StatusCode, body, got, tc.status, tc.body, tc.seen)
			}
			if resp.StatusCode == 429 || resp.StatusCode == 503 {
				if ra := resp.Header.Get("Retry-After"); ra != "7" {
					t.Errorf("the engine's Retry-After became %q", ra)
				}
			}
			if o := r.outcome(t); o.End != tc.kind || o.Status != tc.status {
				t.Errorf("%+v", o)
			}
			if got := words(x.Stats().Retries); got != tc.retries {
				t.Errorf("retries %q, want %q", got, tc.retries)
			}
			x.settle(t)
		})
	}
}

func words(m map[string]uint64) (s string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s += fmt.Sprintf(" %s:%d", k, m[k])
	}
	return strings.TrimSpace(s)
}

// The body is sent again whole.
func TestRetry_largeBody(t *testing.T) {
	var n atomic.Int64
	e := newEngine(t, answerOK)
	x := start(t, newRouter(oneAnswer(t, &n, "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", true), e.addr))
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("0123456789", 300_000) + `"}]}`
	if resp, got := do(t, x.addr, post(body)); resp.StatusCode != 200 || got != "ok" {
		t.Fatal(resp.StatusCode, got)
	}
	if got := *e.lastBody.Load(); string(got) != body {
		t.Errorf("got %d bytes of %d", len(got), len(body))
	}
}

func TestRetry_budget(t *testing.T) {
	var busy, n atomic.Int64
	x := start(t, newRouter(
		oneAnswer(t, &busy, "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", true), oneAnswer(t, &n, okAnswer, true)))
	const total = 200
	ok := 0
	c, br := dial(t, x.addr)
	for range total {
		io.WriteString(c, post(plainBody))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		if resp.StatusCode == 200 {
			ok++
		}
	}
	// The burst, and a fifth of the requests; all else is passed on as it is.
	if want := retryBurst + total/retryCost; ok < want-2 || ok > want+2 || n.Load() != int64(ok) || busy.Load() != total {
		t.Errorf("%d retried, want about %d; engines saw %d and %d", ok, want, busy.Load(), n.Load())
	}
}

// The engine's idle limit runs out just as its connection is reused. A request that the
// engine's system took, although the engine closed without reading it, is not sent again:
// it looks like one that was read.
func TestRetry_keepAliveRace(t *testing.T) {
	e := newEngine(t, answerOK, 20*time.Millisecond)
	x := start(t, newRouter(e.addr))
	c, br := dial(t, x.addr)
	const total = 60
	ok := 0
	for i := range total {
		io.WriteString(c, post(plainBody))
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch b, _ := io.ReadAll(resp.Body); {
		case resp.StatusCode == 200 && string(b) == "ok":
			ok++
		case resp.StatusCode != 502:
			t.Fatalf("request %d: %d %q", i, resp.StatusCode, b)
		}
		time.Sleep(18*time.Millisecond + time.Duration(i%8)*500*time.Microsecond) // around the limit
	}
	if n := e.begun.Load(); n != int64(ok) || ok == 0 {
		t.Errorf("%d generations for %d answers", n, ok)
	}
	st := x.Stats()
	t.Logf("%d answers, dials %d reuses %d found dead %d raced %d", ok, st.Dials, st.Reuses, st.Stale,
		st.Retries[retryUnread.String()])
}

// blind reports a dead connection as alive, as if it died after the look.
type blind struct{ transport }

func (blind) alive() bool { return true }

// A pooled connection that the engine closed before the request came is replaced by
// another one to the same engine, which has the prefix.
func TestRetry_unread(t *testing.T) {
	first := make(chan net.Conn, 1)
	var conns, requests atomic.Int64
	addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		n := conns.Add(1)
		for {
			if _, err := request(br); err != nil {
				return
			}
			requests.Add(1)
			io.WriteString(c, okAnswer)
			if n == 1 {
				first <- c
			}
		}
	})
	other := newEngine(t, answerOK)
	x := start(t, newRouter(addr, other.addr))
	if resp, body := do(t, x.addr, post(plainBody)); resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode, body)
	}
	waitFor(t, func() bool { return x.Stats().IdleConns == 1 }, func() string { return "the connection is not pooled" })
	(<-first).Close()
	u := x.upstreams.at(addr)[0]
	waitFor(t, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return !u.conns[0].tr.alive()
	}, func() string { return "the close does not arrive" })
	u.mu.Lock()
	u.conns[0].tr = blind{u.conns[0].tr}
	u.mu.Unlock()
	if resp, body := do(t, x.addr, post(plainBody)); resp.StatusCode != 200 || body != "ok" {
		t.Fatal(resp.StatusCode, body)
	}
	if got := words(x.Stats().Retries); got != "unread:1" || requests.Load() != 2 || other.begun.Load() != 0 {
		t.Errorf("retries %q, %d requests read, %d elsewhere", got, requests.Load(), other.begun.Load())
	}
}

// A request that the engine has read is sent to no engine again, whether its connection
// is closed or reset, new or reused, at once or after a while.
func TestRetry_readIsNotSentAgain(t *testing.T) {
	for _, tc := range []struct {
		name   string
		after  time.Duration
		reset  bool
		reused int
	}{
		{"closed", 0, false, 0},
		{"reset", 0, true, 0},
		{"closed_reused", 0, false, 1},
		{"reset_reused", 0, true, 1},
		{"closed_later", 300 * time.Millisecond, false, 1},
		{"reset_later", 300 * time.Millisecond, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got atomic.Int64
			addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
				for i := 0; ; i++ {
					if _, err := request(br); err != nil {
						return
					}
					got.Add(1)
					if i == tc.reused {
						time.Sleep(tc.after) // computing
						if tc.reset {
							c.(*net.TCPConn).SetLinger(0)
						}
						return
					}
					io.WriteString(c, okAnswer)
				}
			})
			other := newEngine(t, answerOK)
			x := start(t, newRouter(addr, other.addr))
			for i := range tc.reused + 1 {
				want := 200
				if i == tc.reused {
					want = 502
				}
				if resp, body := do(t, x.addr, post(plainBody)); resp.StatusCode != want || got.Load() != int64(i+1) {
					t.Fatal(i, resp.StatusCode, body, got.Load())
				}
			}
			if n := other.begun.Load(); n != 0 || words(x.Stats().Retries) != "" {
				t.Errorf("%d requests elsewhere, retries %q", n, words(x.Stats().Retries))
			}
		})
	}
}

// dyingEngine reads one request and ends, as a process does: its listener first.
func dyingEngine(t *testing.T, n *atomic.Int64) string {
	t.Helper()
	ln := listen(t)
	done := make(chan struct{})
	t.Cleanup(func() { ln.Close(); <-done })
	go func() {
		defer close(done)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := request(bufio.NewReader(c)); err == nil {
			n.Add(1)
			ln.Close()
		}
	}()
	return ln.Addr().String()
}

// An engine whose process ends gives up its request, as one that was ejected does: once.
func TestRetry_engineGone(t *testing.T) {
	var a, b atomic.Int64
	e := newEngine(t, answerOK)
	r := newRouter(dyingEngine(t, &a), e.addr)
	x := start(t, r)
	if resp, body := do(t, x.addr, post(plainBody)); resp.StatusCode != 200 || body != "ok" {
		t.Fatal(resp.StatusCode, body)
	}
	if got := words(x.Stats().Retries); got != "gone:1" || a.Load() != 1 || e.begun.Load() != 1 {
		t.Errorf("retries %q, %d and %d requests", got, a.Load(), e.begun.Load())
	}
	r.set(func() { r.targets = newRouter(dyingEngine(t, &a), dyingEngine(t, &b), e.addr).targets })
	if resp, body := do(t, x.addr, post(plainBody)); resp.StatusCode != 502 || !strings.Contains(body, "no_answer") {
		t.Error(resp.StatusCode, body)
	}
	if a.Load() != 2 || b.Load() != 1 || e.begun.Load() != 1 {
		t.Errorf("%d, %d and %d requests", a.Load(), b.Load(), e.begun.Load())
	}
}

// A refusal that comes while the body is still being sent is passed on.
func TestEarlyAnswer(t *testing.T) {
	addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := http.ReadRequest(br); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 413 X\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge")
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, br)
	})
	x := start(t, newRouter(addr))
	body := `{"model":"m","messages":[],"x":"` + strings.Repeat("y", 8<<20) + `"}`
	if resp, got := do(t, x.addr, post(body)); resp.StatusCode != 413 || got != "large" {
		t.Fatal(resp.StatusCode, got)
	}
	x.settle(t)
	if st := x.Stats(); st.IdleConns != 0 {
		t.Errorf("%+v", st)
	}
}

func TestTimeouts(t *testing.T) {
	hang := func(pieces ...string) func(c net.Conn, br *bufio.Reader) {
		return func(c net.Conn, br *bufio.Reader) {
			request(br)
			for _, p := range pieces {
				io.WriteString(c, p)
			}
			c.Read(make([]byte, 1))
		}
	}
	head := sseHead + "Transfer-Encoding: chunked\r\n\r\n"
	big := `{"model":"m","messages":[],"x":"` + strings.Repeat("y", 32<<20) + `"}`
	const d = 80 * time.Millisecond
	for _, tc := range []struct {
		name   string
		f      func(c net.Conn, br *bufio.Reader)
		set    exchange.Timeouts
		body   string
		status int
		kind   exchange.End
	}{
		{"first_byte", hang(), exchange.Timeouts{FirstByte: d}, plainBody, 504, exchange.EndFirstByte},
		{"first_byte_after_the_head", hang(head), exchange.Timeouts{FirstByte: d}, streamBody, 200, exchange.EndFirstByte},
		{"comments_are_no_first_byte", hang(head, chunked(": ping\n\n")), exchange.Timeouts{FirstByte: d}, streamBody, 200,
			exchange.EndFirstByte},
		{"between_events", hang(head, chunked("data: 1\n\n")), exchange.Timeouts{BetweenEvents: d}, streamBody, 200,
			exchange.EndBetweenEvents},
		{"total_before_the_head", hang(), exchange.Timeouts{Total: d}, plainBody, 504, exchange.EndTotalTimeout},
		{"total_in_a_stream", hang(head, chunked("data: 1\n\n")), exchange.Timeouts{Total: d}, streamBody, 200,
			exchange.EndTotalTimeout},
		{"send", func(c net.Conn, br *bufio.Reader) {
			br.Peek(1)
			waitClosed(c)
		}, exchange.Timeouts{Send: d}, big, 504, exchange.EndSendTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRouter(rawEngine(t, tc.f), rawEngine(t, tc.f))
			for i := range r.targets {
				r.targets[i].Timeouts = tc.set
			}
			x := start(t, r)
			c, br := dial(t, x.addr)
			from := time.Now()
			io.WriteString(c, post(tc.body))
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			took := time.Since(from)
			if resp.StatusCode != tc.status || !strings.Contains(string(b), `"code":"`+tc.kind.String()) ||
				(err == nil) != (tc.status == 504) {
				t.Errorf("got %d %q %v", resp.StatusCode, b, err)
			}
			if took < d || took > d+3*time.Second {
				t.Errorf("took %v", took)
			}
			if o := r.outcome(t); o.End != tc.kind || o.Retries != 0 {
				t.Errorf("%+v", o)
			}
			x.settle(t)
		})
	}
}

// waitClosed returns when the peer closed c, reading nothing of what it sent.
func waitClosed(c net.Conn) {
	one := make([]byte, 1)
	for {
		c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := c.Write(one[:0]); err != nil {
			return
		}
		// A byte that is never read causes the reset.
		if _, err := c.Write(one); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Events that come in time keep a stream alive beyond each single limit.
func TestTimeouts_streamsMoveTheDeadline(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 13 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
			time.Sleep(100 * time.Millisecond)
		}
		io.WriteString(w, doneEvent)
	})
	r := newRouter(e.addr)
	r.targets[0].Timeouts = exchange.Timeouts{FirstByte: time.Second, BetweenEvents: time.Second}
	x := start(t, r)
	for range 2 { // the second one on a connection whose timer is old
		if _, got := do(t, x.addr, post(streamBody)); !strings.HasSuffix(got, doneEvent) {
			t.Fatalf("%q", got)
		}
		if o := r.outcome(t); o.End != exchange.EndComplete {
			t.Fatalf("%+v", o)
		}
	}
}
