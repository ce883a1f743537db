package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

const sseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

func chunked(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// vllmStream is what vLLM sends when usage is requested.
const (
	vllmEvents = "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\"," +
		"\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"größe \\\"usage\\\": {x}\"}}]}\n\n" +
		"data: {\"id\":\"c-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	vllmUsage = "data: {\"id\":\"c-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\"," +
		"\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"total_tokens\":127,\"completion_tokens\":7," +
		"\"prompt_tokens_details\":{\"cached_tokens\":96}}}\n\n"
	doneEvent = "data: [DONE]\n\n"
)

// scripted answers each request with the pieces, pausing between them; an empty
// piece makes no pause of its own.
func scripted(t *testing.T, pieces func() []string) string {
	return rawEngine(t, func(c net.Conn, br *bufio.Reader) {
		for {
			if _, err := request(br); err != nil {
				return
			}
			for _, p := range pieces() {
				if _, err := io.WriteString(c, p); err != nil {
					return
				}
			}
		}
	})
}

func TestStream_oneByteAtATime(t *testing.T) {
	body := vllmEvents + vllmUsage + doneEvent
	var raw strings.Builder
	for i := range len(body) {
		raw.WriteString(chunked(body[i : i+1]))
	}
	wire := sseHead + "Transfer-Encoding: chunked\r\n\r\n" + raw.String() + "0\r\n\r\n"
	for _, inject := range []bool{false, true} {
		t.Run(fmt.Sprintf("inject=%v", inject), func(t *testing.T) {
			addr := scripted(t, func() []string { return strings.Split(wire, "") })
			r := newRouter(addr)
			r.targets[0].Rewrite.ForceUsage = inject
			x := start(t, r)
			want := body
			if inject {
				want = vllmEvents + doneEvent
			}
			for range 3 { // the connection is reused after it
				_, got := do(t, x.addr, post(streamBody))
				if got != want {
					t.Fatalf("got  %q\nwant %q", got, want)
				}
				o := r.outcome(t)
				if o.End != exchange.EndComplete || !o.HasUsage || !o.HasCached || o.PromptTokens != 120 || o.OutputTokens != 7 ||
					o.CachedTokens != 96 || o.TTFT <= 0 || o.E2E < o.TTFT || o.BytesOut != int64(len(body)) {
					t.Fatalf("%+v", o)
				}
			}
			if n := r.firsts.Load(); n != 3 {
				t.Errorf("FirstToken called %d times", n)
			}
			if st := x.Stats(); st.Dials != 1 || st.Reuses != 2 || st.UsageRemoved != map[bool]uint64{true: 3}[inject] {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestStream_eventsAreNotHeldAndConnectionsReused(t *testing.T) {
	next := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for i := range 10 {
			<-next
			fmt.Fprintf(w, "data: {\"choices\":[{\"i\":%d}]}\n\n", i)
			w.(http.Flusher).Flush()
		}
		io.WriteString(w, doneEvent)
	})
	for _, inject := range []bool{false, true} {
		r := newRouter(e.addr)
		r.targets[0].Rewrite.ForceUsage = inject
		x := start(t, r)
		conns := e.conns.Load()
		c, br := dial(t, x.addr)
		for range 5 { // one client connection for all
			io.WriteString(c, post(streamBody))
			resp, err := http.ReadResponse(br, nil) // the head comes before the first event
			if err != nil {
				t.Fatal(err)
			}
			body := bufio.NewReader(resp.Body)
			for i := range 10 {
				// The engine sends no event before the last one is here, so one
				// that is held back anywhere ends in a timeout.
				next <- struct{}{}
				readUntil(t, body, fmt.Sprintf(`"i":%d`, i))
			}
			rest, err := io.ReadAll(body)
			if err != nil || !strings.HasSuffix(string(rest), doneEvent) {
				t.Fatal(err, string(rest))
			}
		}
		if st := x.Stats(); st.Dials != 1 || st.Reuses != 4 || e.conns.Load() != conns+1 {
			t.Errorf("upstream connection not reused: %+v", st)
		}
	}
}

func TestStream_engineDies(t *testing.T) {
	dies := func(pieces ...string) func(net.Conn, *bufio.Reader) {
		return func(c net.Conn, br *bufio.Reader) {
			if _, err := request(br); err == nil {
				for _, p := range pieces {
					io.WriteString(c, p)
				}
			}
		}
	}
	head := sseHead + "Transfer-Encoding: chunked\r\n\r\n"
	for _, tc := range []struct {
		name   string
		f      func(net.Conn, *bufio.Reader)
		inject bool
		want   string // before the error event
		kind   exchange.End
	}{
		{"between_events", dies(head, chunked("data: 1\n\n")), false, "data: 1\n\n", exchange.EndDied},
		{"in_an_event", dies(head, chunked("data: 1\n\ndata: {\"a")), false, "data: 1\n\ndata: {\"a\n\n", exchange.EndDied},
		{"in_a_held_event", dies(head, chunked("data: 1\n\ndata: {\"a")), true, "data: 1\n\n", exchange.EndDied},
		{"in_a_passing_event", dies(head, chunked("data: {\"choices\":[{\"a")), true, "data: {\"choices\":[{\"a\n\n",
			exchange.EndDied},
		{"in_the_usage_event", dies(head, chunked("data: 1\n\n"+vllmUsage[:len(vllmUsage)-9])), true, "data: 1\n\n",
			exchange.EndDied},
		{"in_a_chunk", dies(head, "ff\r\ndata: 1\n\n"), false, "data: 1\n\n", exchange.EndDied},
		{"before_the_first_event", dies(head), false, "", exchange.EndDied},
		{"without_framing", dies(sseHead, "\r\ndata: 1\n\n"), false, "data: 1\n\n", exchange.EndDied},
		{"without_framing_in_an_event", dies(sseHead, "\r\ndata: 1\n\ndata: {\"a"), false, "data: 1\n\ndata: {\"a\n\n",
			exchange.EndDied},
		{"malformed_chunk", dies(head, chunked("data: 1\n\n"), "zz\r\n"), false, "data: 1\n\n", exchange.EndMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRouter(rawEngine(t, tc.f), rawEngine(t, tc.f))
			for i := range r.targets {
				r.targets[i].Rewrite.ForceUsage = tc.inject
			}
			x := start(t, r)
			c, br := dial(t, x.addr)
			io.WriteString(c, post(streamBody))
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("client saw a clean end: %v %q", err, b)
			}
			got, event, ok := strings.Cut(string(b), `data: {"error":`)
			if got != tc.want || !ok || !strings.HasSuffix(event, "}\n\n") || !strings.Contains(event, tc.kind.String()) ||
				strings.Contains(string(b), "[DONE]") {
				t.Errorf("got %q and event %q, want %q", got, event, tc.want)
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Errorf("connection stays open: %v", err)
			}
			if o := r.outcome(t); o.End != tc.kind || o.Retries != 0 || o.Status != 200 {
				t.Errorf("%+v", o)
			}
			x.settle(t)
			if st := x.Stats(); st.Failed[tc.kind.String()] != 1 || st.ClientGone != 0 || st.IdleConns != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A stream whose engine closes after [DONE] without the framing's end is whole.
func TestStream_closeAfterDone(t *testing.T) {
	for _, hang := range []bool{false, true} {
		addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
			request(br)
			io.WriteString(c, sseHead+"Transfer-Encoding: chunked\r\n\r\n"+chunked("data: 1\n\n"+doneEvent))
			if hang {
				c.Read(make([]byte, 1)) // until the proxy closes
			}
		})
		x := start(t, newRouter(addr))
		_, got := do(t, x.addr, post(streamBody))
		if got != "data: 1\n\n"+doneEvent {
			t.Errorf("%q", got)
		}
		if o := x.r.outcome(t); o.End != exchange.EndComplete {
			t.Errorf("%+v", o)
		}
		x.settle(t)
		if st := x.Stats(); st.Completed != 1 || st.IdleConns != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// The pump does not read again after a short read. A close or reset that comes
// together with the last bytes makes no further edge: hanging is the failure.
func TestStream_closeTogetherWithData(t *testing.T) {
	for _, mode := range []string{"fin", "rst", "until_close", "one_packet"} {
		t.Run(mode, func(t *testing.T) {
			addr := rawEngine(t, func(c net.Conn, br *bufio.Reader) {
				if _, err := request(br); err != nil {
					return
				}
				if mode == "until_close" {
					io.WriteString(c, sseHead+"Connection: close\r\n\r\ndata: 1\n\n")
					time.Sleep(time.Millisecond)
					io.WriteString(c, "data: 2\n\ndata: [DONE]\n\n")
					return
				}
				io.WriteString(c, sseHead+"Transfer-Encoding: chunked\r\n\r\n")
				if mode != "one_packet" {
					io.WriteString(c, chunked("data: 1\n\n"))
					time.Sleep(time.Millisecond)
				}
				io.WriteString(c, chunked("data: 2\n\n"))
				if mode == "rst" {
					c.(*net.TCPConn).SetLinger(0)
				}
			})
			x := start(t, newRouter(addr))
			var wg sync.WaitGroup
			for range 16 {
				wg.Go(func() {
					for range 40 {
						if !closeTogether(t, x.addr, mode) {
							return
						}
					}
				})
			}
			wg.Wait()
			x.settle(t)
		})
	}
}

func closeTogether(t *testing.T, addr, mode string) bool {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Error(err)
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(8 * time.Second))
	io.WriteString(c, post(streamBody))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Error(err)
		return false
	}
	b, err := io.ReadAll(resp.Body)
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Errorf("hangs after %q", b)
		return false
	}
	switch {
	case mode == "until_close":
		if err != nil || string(b) != "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n" {
			t.Errorf("%v %q", err, b)
		}
	case err == nil: // a reset may overtake data, a missing end may not
		t.Errorf("clean end after %q", b)
	case mode != "rst" && (!strings.Contains(string(b), "data: 2") || !strings.Contains(string(b), `"error"`)):
		t.Errorf("%v %q", err, b)
	}
	return true
}

func TestStream_slowClientIsCut(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		w.Header().Set("Content-Type", "text/event-stream")
		blob := bytes.Repeat([]byte("x"), 64<<10)
		for {
			if _, err := w.Write(blob); err != nil {
				e.canceled <- time.Now()
				return
			}
		}
	})
	x := start(t, newRouter(e.addr), func(c *setup) { c.ClientWriteTimeout = 200 * time.Millisecond })
	c, _ := dial(t, x.addr)
	io.WriteString(c, post(streamBody)) // and reads nothing
	select {
	case <-e.canceled:
	case <-time.After(10 * time.Second):
		t.Fatal("held for ever")
	}
	if o := x.r.outcome(t); o.End != exchange.EndClientGone {
		t.Errorf("%+v", o)
	}
	x.settle(t)
}

// A client that reads slowly, but reads, gets everything.
func TestStream_slowReader(t *testing.T) {
	const size = 8 << 20
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		w.Header().Set("Content-Type", "text/event-stream")
		blob := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
		for n := 0; n < size; n += len(blob) {
			w.Write(blob)
		}
	})
	x := start(t, newRouter(e.addr), func(c *setup) { c.ClientWriteTimeout = 500 * time.Millisecond })
	c, br := dial(t, x.addr)
	io.WriteString(c, post(streamBody))
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, buf := 0, make([]byte, 256<<10)
	for i := 0; ; i++ {
		n, err := resp.Body.Read(buf)
		for j := range n {
			if buf[j] != "0123456789abcdef"[(got+j)%16] {
				t.Fatalf("wrong byte at %d", got+j)
			}
		}
		if got += n; err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if i%64 == 0 {
			time.Sleep(20 * time.Millisecond) // the slowness is the point
		}
	}
	if got != size {
		t.Errorf("got %d bytes of %d", got, size)
	}
}

// Many streams, some cut at odd moments: no client gets another's bytes.
func TestStream_stress(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		id := r.Header.Get("X-Id")
		w.Header().Set("Content-Type", "text/event-stream")
		for range 20 {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", id); err != nil {
				return
			}
			w.(http.Flusher).Flush()
		}
	})
	x := start(t, newRouter(e.addr))
	var wg sync.WaitGroup
	var whole atomic.Int64
	for k := range 32 {
		wg.Go(func() {
			for j := range 20 {
				id := fmt.Sprintf("id-%d-%d", k, j)
				c, err := net.Dial("tcp", x.addr)
				if err != nil {
					t.Error(err)
					return
				}
				c.SetDeadline(time.Now().Add(20 * time.Second))
				io.WriteString(c, post(streamBody, "X-Id: "+id+"\r\n"))
				if (k+j)%3 == 0 {
					time.Sleep(time.Duration((k*7+j*13)%2500) * time.Microsecond)
					c.Close()
					continue
				}
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Error(err)
					c.Close()
					continue
				}
				b, err := io.ReadAll(resp.Body)
				if want := strings.Repeat("data: "+id+"\n\n", 20); err != nil || string(b) != want {
					t.Errorf("%s: %v %.200q", id, err, b)
				} else {
					whole.Add(1)
				}
				c.Close()
			}
		})
	}
	wg.Wait()
	x.settle(t)
	if whole.Load() == 0 {
		t.Error("none came through")
	}
}

// Requests behind a stream on the same connection are kept.
func TestPipelined(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) { w.Write(*e.lastBody.Load()) })
	x := start(t, newRouter(e.addr))
	c, br := dial(t, x.addr)
	var all string
	for i := range 5 {
		all += post(fmt.Sprintf(`{"model":"m","messages":[],"seed":%d}`, i))
	}
	io.WriteString(c, all)
	for i := range 5 {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		if want := fmt.Sprintf(`{"model":"m","messages":[],"seed":%d}`, i); string(b) != want {
			t.Fatalf("got %q want %q", b, want)
		}
	}
}

func TestHTTP10(t *testing.T) {
	var plain atomic.Bool
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request, e *engine) {
		if !plain.Load() {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 5 {
				fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			}
			return
		}
		io.WriteString(w, `{"a":1}`)
	})
	x := start(t, newRouter(e.addr))
	for _, stream := range []bool{true, false} {
		plain.Store(!stream)
		c, br := dial(t, x.addr)
		io.WriteString(c, strings.Replace(post(streamBody), "HTTP/1.1", "HTTP/1.0", 1))
		b, err := io.ReadAll(br)
		head, body, _ := strings.Cut(string(b), "\r\n\r\n")
		want := `{"a":1}`
		if stream {
			want = "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n"
		}
		if err != nil || body != want || strings.Contains(strings.ToLower(head), "transfer-encoding") ||
			!strings.Contains(head, "X-Request-Id") {
			t.Errorf("%v %q", err, b)
		}
		if o := x.r.outcome(t); o.End != exchange.EndComplete || o.Status != 200 {
			t.Errorf("%+v", o)
		}
	}
	x.settle(t)
}
