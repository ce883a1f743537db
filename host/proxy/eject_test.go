package proxy

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// silentEngine returns an engine that reads a request, writes s and is silent. What its
// connection ends with comes through closed.
func silentEngine(t *testing.T, s string) (addr string, got chan struct{}, closed chan error) {
	got, closed = make(chan struct{}, 8), make(chan error, 8)
	return rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		if _, err := request(br); err != nil {
			return
		}
		io.WriteString(c, s)
		got <- struct{}{}
		_, err := br.ReadByte()
		closed <- err
	}), got, closed
}

// TestEject: a request without a byte moves once, after its connection was closed;
// one with a byte, one that no other endpoint takes, and one that has moved before wait.
func TestEject(t *testing.T) {
	const event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"
	chunk := "4\r\nok\n\n\r\n0\r\n\r\n"
	for _, tc := range []struct {
		name   string
		stream bool
		first  string // what the silent engine has sent
		other  string // answer of the other engine, "" = there is none
		moves  bool
		want   string // in the body
	}{
		{"no_head", false, "", okAnswer, true, "ok"},
		{"no_head_of_a_stream", true, "", streamHead + chunk, true, "ok"},
		{"head_of_a_stream", true, streamHead, streamHead + chunk, true, "ok"},
		{"head_and_the_other_refuses", true, streamHead,
			"HTTP/1.1 400 X\r\nContent-Type: application/json\r\n" +
				"Content-Length: 22\r\n\r\n{\"error\":{\"message\":1}}", true, `"error"`},
		{"an_event", true, streamHead + "3a\r\n" + event + "\r\n", streamHead + chunk, false, ""},
		{"no_other", false, "", "", false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, got, closed := silentEngine(t, tc.first)
			r := newRouter(a)
			if tc.other != "" {
				r.targets = append(r.targets, exchange.Target{Addr: rawEngine(t, func(c net.Conn, br *bufio.Reader) {
					if _, err := request(br); err == nil {
						select {
						case err := <-closed: // the first connection is closed first
							closed <- err
						case <-time.After(5 * time.Second):
							t.Error("sent while the first engine has the request")
						}
						io.WriteString(c, tc.other)
					}
				})})
			}
			x := start(t, r)
			c, br := dial(t, x.addr)
			body := plainBody
			if tc.stream {
				body = strings.Replace(plainBody, "{", `{"stream":true,`, 1)
			}
			io.WriteString(c, post(body))
			<-got
			if strings.Contains(tc.first, event[:20]) {
				readText(t, br, "hi")
			} else if tc.first != "" {
				readText(t, br, "\r\n\r\n")
			}
			if n := x.Eject("127.0.0.1:1"); n != 0 {
				t.Errorf("%d requests were told of another engine", n)
			}
			x.Eject(a)
			if tc.moves {
				readText(t, br, tc.want)
			} else {
				time.Sleep(50 * time.Millisecond)
				x.Eject(a)
				select {
				case err := <-closed:
					t.Errorf("the connection was closed: %v", err)
				case <-time.After(100 * time.Millisecond):
				}
			}
			if n := x.Stats().Retries["ejected"]; n != map[bool]uint64{true: 1}[tc.moves] {
				t.Errorf("%d moves", n)
			}
			c.Close()
			x.settle(t)
		})
	}
}

// TestEject_allowance: a request that has been sent as often as it may waits for the
// ejected engine.
func TestEject_allowance(t *testing.T) {
	var busy atomic.Int64
	a, got, closed := silentEngine(t, "")
	b := oneAnswer(t, &busy, "HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n", true)
	e := newEngine(t, answerOK)
	x := start(t, newRouter(b, b, a, e.addr))
	c, _ := dial(t, x.addr)
	io.WriteString(c, post(plainBody))
	<-got
	x.Eject(a)
	select {
	case err := <-closed:
		t.Errorf("the connection was closed: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if n := x.Stats().Retries["ejected"]; n != 0 || busy.Load() != 2 || e.begun.Load() != 0 {
		t.Errorf("%d moves, %d and %d requests", n, busy.Load(), e.begun.Load())
	}
	c.Close()
	x.settle(t)
}

// readText reads bytes until what came contains s.
func readText(t testing.TB, br *bufio.Reader, s string) {
	t.Helper()
	for got := []byte{}; !strings.Contains(string(got), s); {
		b, err := br.ReadByte()
		if err != nil {
			t.Fatalf("waiting for %q: %v after %q", s, err, got)
		}
		got = append(got, b)
	}
}
