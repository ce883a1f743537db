package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// handle serves one request. fasthttp calls it when the head was parsed.
func (p *Proxy) handle(ctx *fasthttp.RequestCtx) {
	s := p.newStream(ctx)
	http10 := !ctx.Request.Header.IsHTTP11()
	defer func() {
		if http10 {
			// Without chunks most responses end with the connection; see handOverRaw.
			ctx.Response.Header.SetConnectionClose()
		}
		// A panic in a handler would end the process.
		if r := recover(); r != nil {
			p.log.Error("panic in handler", "request_id", s.req.ID, "err", r, "stack", string(debug.Stack()))
			s.acct.fail(exchange.EndInternal, 500)
			ctx.Response.Reset()
			ctx.Response.Header.SetConnectionClose()
			p.refuse(ctx, errCrash, errCrash)
			s.finish()
		}
	}()
	op, answered := p.head(ctx, s)
	if answered {
		s.finish()
		return
	}
	if err := p.admit(ctx, s); err != nil {
		ctx.Response.Header.SetConnectionClose() // its body stays unread
		p.refuse(ctx, err, errCrash)
		s.finish()
		return
	}
	if p.receive(ctx, s, op) && p.place(ctx, s) {
		p.forward(ctx, s)
		return
	}
	s.finish()
}

// expect is called before 100 Continue is sent: a client that is refused need not
// send its body.
func (p *Proxy) expect(ctx *fasthttp.RequestCtx) int {
	s := p.newStream(ctx)
	_, answered := p.head(ctx, s)
	if !answered {
		if announced := ctx.Request.Header.ContentLength(); int64(announced) > s.req.Edge.maxBody {
			p.refuse(ctx, tooLarge(int(s.req.Edge.maxBody)), errCrash)
			answered = true
		}
	}
	s.finish()
	if answered {
		return ctx.Response.StatusCode()
	}
	return fasthttp.StatusContinue
}

// badRequest responds to a request that fasthttp could not parse.
func (p *Proxy) badRequest(ctx *fasthttp.RequestCtx, err error) {
	e := llmapi.Refuse(llmapi.CodeInvalidRequest, "Malformed HTTP request.")
	switch {
	case isType[*fasthttp.ErrSmallBuffer](err):
		e = llmapi.Refuse(llmapi.CodeHeadersTooLarge, "The request's head exceeds 16 KiB.")
	case errors.Is(err, os.ErrDeadlineExceeded):
		e = errSlowBody
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errClientGone), isBroken(err):
		p.count.clientGone.Add(1)
	}
	ctx.Response.Reset()
	h := &ctx.Response.Header
	h.SetNoDefaultContentType(true)
	h.SetCanonical(requestIDKey, appendID(nil))
	p.refuse(ctx, e, e)
}

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

var (
	requestIDKey   = []byte("X-Request-Id")
	anthropicIDKey = []byte("Request-Id") // where Anthropic's clients read it
)

// head does everything that needs no body: it gives the request an id, routes it and
// authenticates its sender. answered reports whether ctx has the response.
func (p *Proxy) head(ctx *fasthttp.RequestCtx, s *stream) (op llmapi.Operation, answered bool) {
	h := &ctx.Request.Header
	s.client.header, s.req.Edge = h, p.router.Edge()
	bad := s.client.fields.read(h, &s.req.Edge.hints)
	s.client.setID()
	ctx.Response.Header.SetCanonical(requestIDKey, s.client.id)
	if bad == nil && !supported(h.Protocol()) {
		bad = llmapi.Refuse(llmapi.CodeHTTPVersion, "Unsupported HTTP version; use HTTP/1.0 or HTTP/1.1.")
	}
	if bad != nil {
		ctx.Response.Header.SetConnectionClose()
		p.refuse(ctx, bad, errCrash)
		return 0, true
	}
	f := &s.client.fields
	s.setCORS(ctx)
	target := path(h.RequestURI())
	op, answered = p.route(ctx, target)
	if answered {
		return op, true
	}
	if e := refusedFields(f); e != nil {
		ctx.Response.Header.SetConnectionClose()
		p.refuse(ctx, e, errCrash)
		return 0, true
	}
	if err := s.authenticate(&s.req); err != nil {
		if bad, ok := errors.AsType[*llmapi.Error](err); ok && bad.Status == 400 {
			ctx.Response.Header.SetConnectionClose()
		}
		p.refuse(ctx, err, errUnauthorized)
		return 0, true
	}
	if op == llmapi.OpModels {
		p.models(ctx, s.req.Principal, llmapi.ModelID(target))
		return op, true
	}
	return op, false
}

func supported(protocol []byte) bool {
	return string(protocol) == "HTTP/1.1" || string(protocol) == "HTTP/1.0"
}

// refusedFields refuses header fields that the data path does not support.
func refusedFields(f *fields) *llmapi.Error {
	if v := f.one[kindContentEncoding]; len(v) > 0 && !bytes.EqualFold(v, []byte("identity")) {
		return errEncoding
	}
	if v := f.one[kindExpect]; v != nil && !bytes.EqualFold(v, []byte("100-continue")) {
		return errExpect
	}
	return nil
}

// route returns the operation, or responds to a request that has none.
func (p *Proxy) route(ctx *fasthttp.RequestCtx, target []byte) (op llmapi.Operation, answered bool) {
	method := ctx.Method()
	if ctx.IsHead() {
		method = methodGet // answered without a body, by fasthttp
	}
	if string(target) == "/health" {
		switch {
		case string(method) == "GET":
			p.health(ctx)
		case ctx.IsOptions():
			p.options(ctx, "GET, HEAD")
		default:
			p.disallow(ctx, "GET, HEAD")
		}
		return 0, true
	}
	op, known, allow := llmapi.Route(method, target)
	if allow == "GET" {
		allow = "GET, HEAD"
	}
	switch {
	case known && op != llmapi.OpNone:
		p.count.requests.Add(1)
		return op, false
	case ctx.IsOptions() && (known || string(target) == "*"):
		if !known {
			allow = "GET, HEAD, POST"
		}
		p.options(ctx, allow)
	case known:
		p.disallow(ctx, allow)
	default:
		p.refuse(ctx, errNotFound, errCrash)
	}
	return 0, true
}

var methodGet = []byte("GET")

func (p *Proxy) disallow(ctx *fasthttp.RequestCtx, allow string) {
	ctx.Response.Header.Set("Allow", "OPTIONS, "+allow)
	p.refuse(ctx, wrongMethod(allow), errCrash)
}

// path returns the path and query of a request target in origin or absolute
// form. Nothing is decoded or normalized: a path is served as it is written or
// not at all.
func path(target []byte) []byte {
	if len(target) == 0 || target[0] == '/' {
		return target
	}
	i := bytes.Index(target, []byte("://"))
	if i < 0 {
		return target
	}
	rest := target[i+3:]
	if i = bytes.IndexByte(rest, '/'); i < 0 {
		return nil
	}
	return rest[i:]
}

// admit counts the request in progress, or refuses it for overload.
func (p *Proxy) admit(ctx *fasthttp.RequestCtx, s *stream) error {
	s.acct.admitted = true
	if p.count.inFlight.Add(1) > int64(s.req.Edge.maxConcurrent) {
		return errConcurrency
	}
	return nil
}

// receive reads and scans the body. If it returns false, ctx has the response.
func (p *Proxy) receive(ctx *fasthttp.RequestCtx, s *stream, op llmapi.Operation) bool {
	err := s.readBody(ctx)
	now := time.Now()
	p.count.stages[StageRead].Add(now.Sub(s.req.Received))
	if err != nil {
		p.brokenBody(ctx, err)
		return false
	}
	s.acct.bytesIn = int64(len(s.client.body))
	p.count.bytesIn.Add(uint64(s.acct.bytesIn))
	if s.client.watched != nil && !s.client.watched.begin(s) {
		s.stop(stopGone)
	}
	if err := s.req.API.Scan(op, s.client.body); err != nil {
		p.refuse(ctx, err, errBadBody)
		return false
	}
	s.now = time.Now()
	p.count.stages[StageScan].Add(s.now.Sub(now))
	return true
}

// brokenBody responds to a request whose body did not arrive.
func (p *Proxy) brokenBody(ctx *fasthttp.RequestCtx, err error) {
	ctx.Response.Header.SetConnectionClose()
	switch {
	case isType[*llmapi.Error](err):
		p.refuse(ctx, err, errBadBody)
	case isTimeout(err):
		p.refuse(ctx, errSlowBody, errSlowBody)
	case errors.Is(err, io.ErrUnexpectedEOF), isBroken(err):
		p.count.clientGone.Add(1)
		writeError(ctx, errBadBody)
	default:
		p.refuse(ctx, errBadBody, errBadBody)
	}
}

// place has the router place the request. If it returns false, ctx has the response.
// If it returns true with s.wait set, the stream begins before it is placed.
func (p *Proxy) place(ctx *fasthttp.RequestCtx, s *stream) bool {
	s.req.ID = string(s.client.id)
	from := s.now
	pl, err := p.router.Schedule(&s.req)
	s.now = time.Now()
	p.count.stages[StageSchedule].Add(s.now.Sub(from))
	if h, ok := errors.AsType[*Held](err); ok {
		if pl, err = s.hold(h); s.wait != nil {
			return true
		}
		s.now = time.Now()
	}
	switch {
	case err == nil && pl != nil:
		s.pl = pl
		return true
	case s.stopEnd() == exchange.EndShutdown:
		ctx.Response.Header.SetConnectionClose()
		p.refuse(ctx, errDraining, errDraining)
	case s.stopped():
		p.count.clientGone.Add(1)
		ctx.Response.Header.SetConnectionClose()
		ctx.SetStatusCode(statusClientGone)
	default:
		s.setLimitHeaders(&ctx.Response.Header)
		s.acct.status = p.refuse(ctx, err, errNoEndpoint)
	}
	return false
}

// statusClientGone is nginx's status for a client that left. It is only logged.
const statusClientGone = 499

// forward sends the request and hands the answer over to fasthttp.
func (p *Proxy) forward(ctx *fasthttp.RequestCtx, s *stream) {
	if s.wait != nil {
		s.handOverHeld(ctx)
		return
	}
	p.budget.earn()
	err := s.roundTrip(&ctx.Response)
	if err != nil || !s.resp.events() {
		s.freeBody()
	} // else at the first event: see stream.pass
	if err == nil {
		s.handOver(ctx)
		return
	}
	s.acct.end = endOf(err)
	ctx.Response.Reset()
	h := &ctx.Response.Header
	h.SetNoDefaultContentType(true)
	h.SetCanonical(requestIDKey, s.client.id)
	s.setLimitHeaders(h)
	s.setCORS(ctx)
	switch {
	case s.acct.end == exchange.EndClientGone:
		h.SetConnectionClose()
		ctx.SetStatusCode(statusClientGone)
		s.acct.status = statusClientGone
	case s.acct.end == exchange.EndRewrite && s.out.refusal != nil:
		s.acct.status = p.refuse(ctx, s.out.refusal, errCrash)
	default:
		e := upstreamError(s.acct.end)
		s.acct.status = e.Status
		writeError(ctx, e)
	}
	s.finish()
}

// remote returns the address of a client, the zero Addr if it has none.
func remote(c net.Conn) netip.Addr {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
