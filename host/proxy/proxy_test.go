package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// engine is an engine on net/http. It signals when its request was cancelled.
type engine struct {
	addr     string
	srv      *http.Server
	conns    atomic.Int64
	begun    atomic.Int64   // requests whose body was read
	arrived  chan struct{}  // one per request
	canceled chan time.Time // one per request whose client left
	lastBody atomic.Pointer[[]byte]
}

func newEngine(t *testing.T, h func(http.ResponseWriter, *http.Request, *engine), idle ...time.Duration) *engine {
	t.Helper()
	ln := listen(t)
	e := &engine{addr: ln.Addr().String(), arrived: make(chan struct{}, 10000), canceled: make(chan time.Time, 10000)}
	e.srv = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			e.lastBody.Store(&b)
			e.begun.Add(1)
			e.arrived <- struct{}{}
			h(w, r, e)
		}),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew {
				e.conns.Add(1)
			}
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	if len(idle) > 0 {
		e.srv.IdleTimeout = idle[0]
	}
	done := make(chan struct{})
	go func() { defer close(done); e.srv.Serve(ln) }()
	t.Cleanup(func() { e.srv.Close(); <-done })
	return e
}

// rawEngine answers each connection with f, which gets the parsed requests'
// connection.
func rawEngine(t *testing.T, f func(c net.Conn, br *bufio.Reader)) string {
	t.Helper()
	ln := listen(t)
	var wg sync.WaitGroup
	var open sync.Map // net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			wg.Go(func() {
				defer c.Close()
				f(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
	return ln.Addr().String()
}

// request reads one request of a rawEngine, body included.
func request(br *bufio.Reader) ([]byte, error) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r.Body)
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// fakeRouter places every request on its targets in order.
type fakeRouter struct {
	targets  []exchange.Target
	auth     func(c *identity.Credentials) (*identity.Principal, error)
	schedule func(r *Request) error

	mu     sync.Mutex // guards what a test changes while the proxy runs
	ended  chan exchange.Outcome
	firsts atomic.Int64

	answered []string // ids of responses; guarded by mu
}

// set changes r between requests. The race detector does not know that an
// answer comes after its request.
func (r *fakeRouter) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func newRouter(addrs ...string) *fakeRouter {
	r := &fakeRouter{ended: make(chan exchange.Outcome, 10000)}
	for _, a := range addrs {
		r.targets = append(r.targets, exchange.Target{Addr: a})
	}
	return r
}

func (r *fakeRouter) Authenticate(c *identity.Credentials) (*identity.Principal, error) {
	if r.auth != nil {
		return r.auth(c)
	}
	return &identity.Principal{Tenant: "acme"}, nil
}

func (r *fakeRouter) Schedule(q *Request) (Placement, error) {
	r.mu.Lock()
	f, targets := r.schedule, r.targets
	r.mu.Unlock()
	if f != nil {
		if err := f(q); err != nil {
			return nil, err
		}
	}
	return &fakePlacement{r: r, targets: targets}, nil
}

func (r *fakeRouter) Models(*identity.Principal) []llmapi.Model {
	return []llmapi.Model{{ID: "m"}, {ID: "org/big model", MaxModelLen: 4096}}
}

type fakePlacement struct {
	r       *fakeRouter
	targets []exchange.Target
	at      int
	done    bool
}

func (p *fakePlacement) Target() *exchange.Target { return &p.targets[p.at] }

func (p *fakePlacement) Next(int) bool {
	if p.at+1 >= len(p.targets) {
		return false
	}
	p.at++
	return true
}

func (p *fakePlacement) FirstToken() { p.r.firsts.Add(1) }

func (p *fakePlacement) Answered(id string) {
	p.r.set(func() { p.r.answered = append(p.r.answered, id) })
}

func (p *fakePlacement) Done(o *exchange.Outcome) {
	if p.done {
		panic("Done called twice")
	}
	p.done = true
	select {
	case p.r.ended <- *o:
	default:
	}
}

// outcome waits for the next request's end.
func (r *fakeRouter) outcome(t *testing.T) exchange.Outcome {
	t.Helper()
	select {
	case o := <-r.ended:
		return o
	case <-time.After(10 * time.Second):
		t.Fatal("no outcome")
	}
	panic("unreachable")
}

type running struct {
	*Proxy
	addr   string
	r      *fakeRouter
	router *edged
	stop   context.CancelFunc
	end    chan error
}

// start runs a proxy before the targets of r until the test ends.
func start(t testing.TB, r *fakeRouter, mod ...func(*setup)) *running {
	t.Helper()
	x := startRouter(t, r, mod...)
	x.r = r
	return x
}

// setup is what a test may change before a proxy starts.
type setup struct {
	Config
	EdgeConfig
}

// inside is a Router without its edge.
type inside interface {
	Authenticator
	Schedule(r *Request) (Placement, error)
	Models(p *identity.Principal) []llmapi.Model
}

// edged is a Router whose edge a test may replace.
type edged struct {
	inside
	edge atomic.Pointer[Edge]
}

func (e *edged) Edge() *Edge { return e.edge.Load() }

func startRouter(t testing.TB, r inside, mod ...func(*setup)) *running {
	t.Helper()
	cfg := setup{Config: Config{IdleTimeout: time.Minute, DrainTimeout: 50 * time.Millisecond,
		Timeouts: exchange.Timeouts{FirstByte: 20 * time.Second, BetweenEvents: 10 * time.Second}}}
	for _, m := range mod {
		m(&cfg)
	}
	edge, err := NewEdge(cfg.EdgeConfig, r)
	if err != nil {
		t.Fatal(err)
	}
	router := &edged{inside: r}
	router.edge.Store(edge)
	p, err := New(cfg.Config, router, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	x := &running{Proxy: p, router: router, addr: ln.Addr().String(), stop: cancel, end: make(chan error, 1)}
	go func() { x.end <- p.Run(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-x.end; err != nil {
			t.Error(err)
		}
	})
	return x
}

// settle waits until nothing is in progress and nothing is held.
func (x *running) settle(t *testing.T) {
	t.Helper()
	waitFor(t, func() bool { return x.count.inFlight.Load() == 0 && x.bodies.held.Load() == 0 }, func() string {
		return fmt.Sprintf("left behind: in flight %d, body bytes %d", x.count.inFlight.Load(), x.bodies.held.Load())
	})
}

// waitFor polls for a state that no event signals.
func waitFor(t *testing.T, ok func() bool, what func() string) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal(what())
		}
		time.Sleep(time.Millisecond)
	}
}

func dial(t testing.TB, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c, bufio.NewReader(c)
}

// post is a request on the wire; head lines are put before its body.
func post(body string, head ...string) string {
	return fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
		"%sContent-Length: %d\r\n\r\n%s",
		strings.Join(head, ""), len(body), body)
}

const (
	streamBody = `{"model":"m","stream":true,"messages":[]}`
	plainBody  = `{"model":"m","messages":[]}`
)

// do sends raw bytes and reads one answer.
func do(t testing.TB, addr, raw string) (*http.Response, string) {
	t.Helper()
	c, br := dial(t, addr)
	defer c.Close()
	io.WriteString(c, raw)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatalf("no answer to %.80q: %v", raw, err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("answer to %.80q: %v after %q", raw, err, b)
	}
	return resp, string(b)
}

// silent waits in its prefill until the client leaves.
func prefill(w http.ResponseWriter, r *http.Request, e *engine) {
	<-r.Context().Done()
	e.canceled <- time.Now()
}

// oneThenSilent sends a head and an event, then waits until the client leaves.
func oneThenSilent(w http.ResponseWriter, r *http.Request, e *engine) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, "data: {\"n\":0}\n\n")
	w.(http.Flusher).Flush()
	prefill(w, r, e)
}

func answerOK(w http.ResponseWriter, r *http.Request, e *engine) { io.WriteString(w, "ok") }

// readUntil reads lines until one holds s.
func readUntil(t testing.TB, br *bufio.Reader, s string) {
	t.Helper()
	for {
		l, err := br.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting for %q: %v", s, err)
		}
		if strings.Contains(l, s) {
			return
		}
	}
}
