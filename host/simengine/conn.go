package simengine

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// serveConn serves one HTTP connection. Two goroutines share it: this one
// handles requests one after another, the other owns the read side. While a
// request is handled the reader waits for the next byte, so it notices at once
// when the client closes the connection (also its sending half: uvicorn aborts
// then, too).
func (e *Engine) serveConn(ctx context.Context, c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetNoDelay(true)
	}
	r := &connReader{
		conn:     c,
		requests: make(chan *request),
		next:     make(chan struct{}),
		gone:     make(chan struct{}),
		done:     make(chan struct{}),
	}
	var wg sync.WaitGroup
	wg.Go(func() { r.run(e.cfg.MaxBodyBytes, e.cfg.Clock.Now) })
	defer wg.Wait()
	defer c.Close()
	defer close(r.done)
	var buf []byte
	for req := range r.requests {
		w := &reply{conn: c, now: e.cfg.Clock.Now, close: req.close, buf: buf, started: func() {}}
		e.handle(ctx, w, req, r.gone)
		if w.close || ctx.Err() != nil {
			return
		}
		buf = w.buf
		select {
		case r.next <- struct{}{}:
		case <-r.gone:
			return
		}
	}
}

// connReader is the read side of one connection.
type connReader struct {
	conn     net.Conn
	requests chan *request
	next     chan struct{} // the last request was answered
	gone     chan struct{} // closed when the client has left
	done     chan struct{} // closed when no more requests are read
}

func (r *connReader) run(maxBody int64, now func() time.Time) {
	defer close(r.requests)
	defer close(r.gone)
	br := bufio.NewReaderSize(r.conn, 16<<10)
	proceed := func() error {
		_, err := r.conn.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
		return err
	}
	for {
		req, err := readRequest(br, maxBody, now, proceed)
		if err != nil {
			return
		}
		select {
		case r.requests <- req:
		case <-r.done:
			return
		}
		if _, err := br.Peek(1); err != nil {
			return
		}
		select {
		case <-r.next:
		case <-r.done:
			return
		}
	}
}

// handle answers one request.
func (e *Engine) handle(ctx context.Context, w *reply, r *request, gone <-chan struct{}) {
	if r.bad != nil {
		rec := e.log.begin(e.requestID(r), r)
		w.started = func() { e.log.firstByte(rec, e.cfg.Clock.Now()) }
		w.error(r.bad)
		e.log.end(rec, e.cfg.Clock.Now(), false)
		return
	}
	if h, ok := quietRoutes[r.method+" "+r.path]; ok {
		h(e, w, r)
		return
	}
	rec := e.log.begin(e.requestID(r), r)
	w.started = func() { e.log.firstByte(rec, e.cfg.Clock.Now()) }
	aborted := e.serve(&exchange{e: e, ctx: ctx, w: w, r: r, rec: rec, gone: gone})
	e.log.end(rec, e.cfg.Clock.Now(), aborted)
}

// requestID is the caller's id for the request, or one of our own.
func (e *Engine) requestID(r *request) string {
	if id := r.header("x-request-id"); id != "" && len(id) <= 256 {
		return id
	}
	return "sim-" + uitoa(e.nextID.Add(1))
}

// quietRoutes are the requests of routers and tests themselves; they leave no
// record.
var quietRoutes map[string]func(*Engine, *reply, *request)

func init() {
	quietRoutes = map[string]func(*Engine, *reply, *request){
		"GET /health":              func(_ *Engine, w *reply, _ *request) { w.whole(http.StatusOK, "", nil) },
		"GET /ping":                func(_ *Engine, w *reply, _ *request) { w.whole(http.StatusOK, "", nil) },
		"GET /version":             func(_ *Engine, w *reply, _ *request) { w.value(map[string]string{"version": version}) },
		"GET /metrics":             (*Engine).serveMetrics,
		"GET /v1/models":           (*Engine).serveModels,
		"GET /kv_event_sources":    (*Engine).serveSources,
		"POST /reset_prefix_cache": (*Engine).serveReset,
		"GET /sim/requests":        (*Engine).serveRequests,
		"DELETE /sim/requests":     (*Engine).serveRequests,
		"GET /sim/cache":           (*Engine).serveCache,
		"GET /sim/faults":          (*Engine).serveFaults,
		"POST /sim/faults":         (*Engine).serveFaults,
		"POST /sim/restart":        (*Engine).serveRestart,
	}
}

// exchange is one recorded request and its answer.
type exchange struct {
	e    *Engine
	ctx  context.Context
	w    *reply
	r    *request
	rec  *record
	gone <-chan struct{} // closed when the client has left
}

const (
	chatPath      = "/v1/chat/completions"
	tokenizePath  = "/tokenize"
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"
	countPath     = "/v1/messages/count_tokens"
)

// serve answers a recorded request and reports whether the client left, or the
// answer was cut off, before its end.
func (e *Engine) serve(x *exchange) (aborted bool) {
	var handler func(*exchange) error
	switch x.r.path {
	case chatPath:
		handler = (*exchange).chat
	case "/v1/completions":
		handler = (*exchange).completions
	case responsesPath:
		handler = (*exchange).responses
	case messagesPath:
		handler = (*exchange).messages
	case countPath:
		handler = (*exchange).countTokens
	case tokenizePath:
		handler = (*exchange).tokenize
	default:
		if knownPath(x.r.path) {
			x.w.error(httpError(http.StatusMethodNotAllowed, "Method Not Allowed"))
		} else {
			x.w.error(httpError(http.StatusNotFound, "Not Found"))
		}
		return false
	}
	if x.r.method != http.MethodPost {
		x.w.error(httpError(http.StatusMethodNotAllowed, "Method Not Allowed"))
		return false
	}
	if status := e.faults.reject(); status != 0 {
		x.w.error(httpError(status, http.StatusText(status)))
		return false
	}
	if e.faults.hang() {
		x.hang()
		return true
	}
	err := handler(x)
	if refused, ok := errors.AsType[*apiError](err); ok {
		if (x.r.path == messagesPath || x.r.path == countPath) && refused.kind != validationKind {
			x.w.json(refused.status, refused.anthropic())
		} else {
			x.w.error(refused)
		}
		return x.w.err != nil
	}
	return err != nil || x.w.err != nil
}

// hang holds a request that gets no byte until its client leaves; it counts as
// running and, in the end, as aborted.
func (x *exchange) hang() {
	x.e.mu.Lock()
	process := x.e.model
	x.e.hung++
	x.e.mu.Unlock()
	select {
	case <-x.gone:
	case <-x.ctx.Done():
	}
	x.e.mu.Lock()
	if x.e.model == process { // not restarted meanwhile
		x.e.hung--
		x.e.count.finished["abort"]++
	}
	x.e.mu.Unlock()
	x.w.fail()
}

func knownPath(path string) bool {
	for route := range quietRoutes {
		if _, p, _ := strings.Cut(route, " "); p == path {
			return true
		}
	}
	return false
}
