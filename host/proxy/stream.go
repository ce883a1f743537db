package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// stream is one request and its answer. fasthttp's goroutine of the client
// connection drives it; only stop comes from elsewhere. Each part owns its own
// state: client what the client sent and gets, out the attempts at engines, resp
// the answer that is read, acct what is counted. Streams are pooled.
type stream struct {
	p *Proxy
	interrupt

	req    Request
	client client
	pl     Placement
	wait   *wait // set while the request is held and its stream has begun
	out    outbound
	resp   response
	acct   account

	now time.Time // when the last step of the request's head was over
}

func (p *Proxy) newStream(ctx *fasthttp.RequestCtx) *stream {
	s, _ := p.streams.Get().(*stream)
	if s == nil {
		s = &stream{p: p, req: Request{API: new(llmapi.Request)}}
	}
	s.client.open(ctx.Conn())
	s.req.Received = time.Now()
	s.req.s = s
	return s
}

// recycle returns s to the pool with its scratch memory.
func (s *stream) recycle() {
	s.client.reset()
	s.out.reset()
	s.resp.reset()
	*s = stream{p: s.p, req: Request{API: s.req.API}, client: s.client, out: s.out, resp: s.resp}
	s.p.streams.Put(s)
}

// handOver makes the answer ctx's. From here on fasthttp calls WriteTo and Close,
// or Close alone.
func (s *stream) handOver(ctx *fasthttp.RequestCtx) {
	s.setRouterHeaders(ctx)
	size := s.resp.size()
	if size == 0 || s.acct.status == 204 || s.acct.status == 304 {
		s.acct.end = exchange.EndComplete
		s.finish()
		return
	}
	if size < 0 && !ctx.Request.Header.IsHTTP11() {
		s.handOverRaw(ctx)
		return
	}
	if size < 0 {
		s.client.goDirect()
	}
	s.out.begun = true
	ctx.Response.ImmediateHeaderFlush = s.resp.events() && len(s.up.data()) == 0
	ctx.Response.SetBodyStream(s, size)
}

// setRouterHeaders adds the router's own fields to the head of the answer.
func (s *stream) setRouterHeaders(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	s.acct.status = h.StatusCode()
	h.SetCanonical(requestIDKey, s.client.id)
	s.setLimitHeaders(h)
	if s.req.API.Op.Family() == llmapi.FamilyAnthropic {
		h.SetCanonical(anthropicIDKey, s.client.id)
	}
	if s.resp.events() && len(h.Peek("X-Accel-Buffering")) == 0 {
		h.Set("X-Accel-Buffering", "no") // nginx in front would collect events
	}
	s.setCORS(ctx)
}

// handOverRaw answers an HTTP/1.0 client, which knows no chunks, with a body that
// ends with the connection: fasthttp has no such framing for streams.
func (s *stream) handOverRaw(ctx *fasthttp.RequestCtx) {
	head := rawHead(&ctx.Response.Header)
	s.out.moved = true // the client's head, of which the engine's is made, goes with the hijack
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(c net.Conn) {
		if _, err := c.Write(head); err == nil {
			s.WriteTo(c)
		}
		s.Close()
	})
}

// rawHead returns the head without any framing of the body.
func rawHead(h *fasthttp.ResponseHeader) []byte {
	h.SetContentLength(-2)
	h.Del("Transfer-Encoding")
	return h.AppendBytes(nil)
}

// afterFinish is how long an engine may take to end a stream after its last event.
const afterFinish = time.Second

// touch moves the deadline of the next read.
func (s *stream) touch() {
	r := &s.resp
	if r.phase != phaseWaiting {
		now := r.pieceAt
		if now.IsZero() {
			now = time.Now()
		}
		r.pieceAt = time.Time{}
		wait := s.out.timeouts.BetweenEvents
		if r.phase == phaseFinished {
			wait = min(wait, afterFinish)
		}
		s.up.by = earlier(now.Add(wait), s.out.totalBy)
	}
	s.up.arm()
}

// SupportsBodyWriteTo lets fasthttp call WriteTo instead of Read.
func (s *stream) SupportsBodyWriteTo() bool { return true }

// Read implements io.Reader; it is never called.
func (s *stream) Read([]byte) (int, error) { panic("BUG: proxy: Read of a stream") }

// errIncomplete is returned to fasthttp for an answer that was cut: it then closes
// the connection without the last chunk.
var errIncomplete = errors.New("proxy: answer is incomplete")

// WriteTo moves the answer's body to w. fasthttp sends each Write as a chunk, at
// once.
func (s *stream) WriteTo(w io.Writer) (int64, error) {
	c := &s.client
	c.w = w
	answered := s.wait == nil || s.awaitPlacement()
	if answered {
		s.move()
	}
	c.w, c.direct = nil, nil
	if answered && s.acct.complete() {
		return c.sent, nil
	}
	return c.sent, errIncomplete
}

// move passes on the body up to its end, and sets how it ended.
func (s *stream) move() {
	u := s.up
	var err error
	if len(u.data()) == 0 || !s.flush() {
		s.touch()
		if err = errClientGone; !s.stopped() {
			err = u.tr.pump()
		}
	}
	if errors.Is(err, errEjected) {
		if s.again() {
			s.move()
		}
		return
	}
	if err == nil {
		err = s.resp.frameErr
	}
	s.conclude(err)
}

// conclude sets how the body ended and sends an error event if that was early. err is
// why no more of the body is read, nil at its end.
func (s *stream) conclude(err error) {
	a, c := &s.acct, &s.client
	if !a.complete() && c.sendErr == nil {
		a.end = s.endOfBody(err)
	}
	if a.complete() && s.resp.usageOwner == usageOfRouter {
		if rest := s.resp.filter.finish(); len(rest) > 0 {
			c.put(rest)
		}
	}
	if c.sendErr != nil {
		a.end = exchange.EndClientGone
		if errors.Is(c.sendErr, os.ErrDeadlineExceeded) && s.why.Load() == stopCut {
			a.end = exchange.EndShutdown
		}
	}
	if !a.complete() && a.end != exchange.EndClientGone && s.resp.events() {
		s.writeBroken()
	}
}

// endOfBody classifies the error that ended a body before its framing did.
func (s *stream) endOfBody(err error) exchange.End {
	r := &s.resp
	switch {
	case s.stopped() && r.phase != phaseFinished:
		return s.stopEnd()
	case r.framing == framingClose && errors.Is(err, io.EOF) && (!r.events() || r.phase == phaseFinished):
		r.reusable = false
		return exchange.EndComplete
	case r.phase == phaseFinished && (s.stopped() || isBroken(err) || errors.Is(err, errTimeout)):
		// The last event came; only the framing's end is missing.
		r.reusable = false
		return exchange.EndComplete
	case errors.Is(err, errTimeout):
		return s.endOfTimeout()
	case errors.Is(err, errChunk):
		return exchange.EndMalformed
	}
	return exchange.EndDied
}

// endOfTimeout returns which limit a read deadline stood for.
func (s *stream) endOfTimeout() exchange.End {
	switch {
	case !time.Now().Before(s.out.totalBy):
		return exchange.EndTotalTimeout
	case s.resp.phase == phaseWaiting:
		return exchange.EndFirstByte
	}
	return exchange.EndBetweenEvents
}

// writeBroken sends the error event of a stream that ended early. SDKs raise it;
// other clients notice the missing last chunk.
func (s *stream) writeBroken() {
	b := make([]byte, 0, 256)
	if s.resp.midEvent(s.client.sent) {
		b = append(b, "\n\n"...)
	}
	e := brokenStream(s.acct.end)
	s.client.w.Write(e.AppendEvent(b, s.req.API.Op, s.resp.lastID+1, string(s.client.id)))
}

// flush passes on what is in the buffer. It returns true if the body is over, one
// way or the other.
func (s *stream) flush() bool {
	u, r := s.up, &s.resp
	d := u.data()
	if len(d) == 0 {
		return false
	}
	payload, n := r.unframe(d)
	if len(payload) > 0 && !s.pass(payload) || r.frameErr != nil {
		return true
	}
	if u.r += n; u.r == u.w {
		u.r, u.w = headRoom, headRoom
	}
	if r.over() {
		s.acct.end = exchange.EndComplete
	}
	return r.over()
}

// pass observes a piece of the body, which begins at u.r in the buffer, and sends
// it. It returns false if the client does not take it.
func (s *stream) pass(payload []byte) bool {
	r, c := &s.resp, &s.client
	r.pieceAt = time.Now()
	if r.phase == phaseWaiting && r.computes(payload) {
		r.phase = phaseStarted
		s.out.u.answered(s.up)
		s.freeBody()
		s.acct.ttft = r.pieceAt.Sub(s.req.Received)
		s.pl.FirstToken()
	}
	usage := r.observe(payload)
	if r.id.wanted {
		if id := r.id.feed(payload); id != "" {
			s.pl.Answered(id) // before the client knows it
		}
	}
	if r.usageOwner == usageOfRouter {
		var before []byte
		before, payload = r.filter.filter(payload, usage)
		if len(before) > 0 && !c.put(before) {
			return false
		}
		if len(payload) == 0 {
			return true
		}
	}
	if c.sent == 0 || c.direct == nil {
		return c.put(payload)
	}
	return c.putDirect(*s.up.buf, s.up.r, s.up.r+len(payload))
}

// Close is called once when the answer was sent or failed.
func (s *stream) Close() error {
	if s.acct.end == exchange.EndUnset {
		s.acct.end = exchange.EndClientGone // not even the head was sent
	}
	s.finish()
	return nil
}

// finish ends the request: it pools or closes the connection, ends the placement and
// recycles s.
func (s *stream) finish() {
	if s.wait != nil {
		s.abandonWait()
	}
	if s.client.watched != nil {
		s.client.watched.end()
	}
	if c := s.detach(); c != nil {
		s.out.u.answered(c)
		if s.acct.complete() && s.resp.reusable && !s.stopped() && len(c.data()) == 0 {
			s.out.u.put(c)
		} else {
			c.close()
		}
	}
	s.freeBody()
	if pl := s.pl; pl != nil {
		s.pl = nil
		s.report(pl)
	}
	if s.acct.admitted {
		s.acct.admitted = false
		s.p.count.inFlight.Add(-1)
	}
	s.recycle()
}
