package proxy

import (
	"errors"
	"net"
	"runtime/debug"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Held is an error of Router.Schedule for a request that no endpoint takes yet,
// while one that will is being started. The proxy waits, and meanwhile sends signs
// of life to the client of a stream.
type Held struct {
	// Wait returns when the request is placed or refused, and soon after r.Gone was
	// closed. It is called exactly once, perhaps by another goroutine than Schedule
	// was, with the request or a copy of it, whose Limits it sets. It returns what
	// Schedule does, but no *Held.
	Wait func(r *Request) (Placement, error)
}

// Error implements error.
func (h *Held) Error() string { return "proxy: held until an endpoint is ready" }

// wait is one call of Held.Wait on a goroutine of its own. Whoever started it
// waits for its end, before the request's memory is used for another.
type wait struct {
	done chan struct{} // closed at its end; until then the rest is the goroutine's
	req  Request
	pl   Placement
	err  error
}

func (s *stream) startWait(h *Held) {
	w := &wait{done: make(chan struct{}), req: s.req}
	s.wait = w
	go w.run(s.p, h)
}

func (w *wait) run(p *Proxy, h *Held) {
	defer close(w.done)
	defer func() {
		if r := recover(); r != nil {
			p.log.Error("panic in a held request", "request_id", w.req.ID, "err", r, "stack", string(debug.Stack()))
			w.pl, w.err = nil, errCrash
		}
	}()
	w.pl, w.err = h.Wait(&w.req)
}

// endWait blocks until the wait is over and takes its result.
func (s *stream) endWait() (Placement, error) {
	w := s.wait
	<-w.done
	s.wait = nil
	s.req.Limits = w.req.Limits
	return w.pl, w.err
}

// hold waits for a placement. The client of a stream waits without a byte for one
// heartbeat; then s.wait is left set, and the stream must begin without its engine.
func (s *stream) hold(h *Held) (Placement, error) {
	if !s.req.API.Stream || s.req.API.Op.StreamFormat() == llmapi.StreamNone {
		return h.Wait(&s.req)
	}
	s.startWait(h)
	t := time.NewTimer(s.p.cfg.Heartbeat)
	defer t.Stop()
	select {
	case <-s.wait.done:
		return s.endWait()
	case <-t.C:
		return nil, nil
	}
}

// abandonWait ends a wait whose result is no longer needed.
func (s *stream) abandonWait() {
	s.stop(stopGone)
	s.pl, _ = s.endWait()
	if s.pl != nil && s.acct.end == exchange.EndUnset {
		s.acct.end = exchange.EndClientGone
	}
}

// handOverHeld begins the answer of a stream that waits, with the head that
// engines send. From here on it is as after handOver.
func (s *stream) handOverHeld(ctx *fasthttp.RequestCtx) {
	h, c := &ctx.Response.Header, &s.client
	ctx.SetStatusCode(fasthttp.StatusOK)
	h.SetContentType("text/event-stream; charset=utf-8")
	s.resp.format = s.req.API.Op.StreamFormat()
	s.setRouterHeaders(ctx)
	if ctx.Request.Header.IsHTTP11() {
		c.goDirect()
		ctx.Response.ImmediateHeaderFlush = true
		ctx.Response.SetBodyStream(s, -1)
		return
	}
	// The request to the engine is made from the client's head, which fasthttp
	// releases with a hijacked connection: so everything is done before.
	head := rawHead(h)
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
	if _, err := c.conn.Write(head); err == nil {
		s.WriteTo(c.conn)
	}
	s.Close()
}

// writeBeats sends signs of life until the wait is over, so that neither the client
// nor a proxy in between gives up. A client that does not take them has left.
func (s *stream) writeBeats() {
	beat := streamFormats[s.req.API.Op.StreamFormat()].beat
	t := time.NewTicker(s.p.cfg.Heartbeat)
	defer t.Stop()
	for {
		if _, err := s.client.w.Write(beat); err != nil {
			s.stop(stopGone)
			return
		}
		s.p.count.heartbeats.Add(1)
		select {
		case <-s.wait.done:
			return
		case <-t.C:
		}
	}
}

// awaitPlacement waits for the placement of a stream whose head went out, and for
// the engine's head. It returns false if the stream is over; the client was then
// told in an event.
func (s *stream) awaitPlacement() (ok bool) {
	defer func() {
		// fasthttp recovers as well, but would not recycle the stream.
		if r := recover(); r != nil {
			s.p.log.Error("panic in a held stream", "request_id", s.req.ID, "err", r, "stack", string(debug.Stack()))
			s.acct.end, ok = exchange.EndInternal, false
		}
	}()
	s.writeBeats()
	pl, err := s.endWait()
	s.pl = pl
	if s.stopped() {
		s.endStopped()
		return false
	}
	if err != nil || pl == nil {
		e := shown(err, errNoEndpoint)
		s.p.count.refused[e.Code].Add(1)
		s.writeErrorEvent(e)
		return false
	}
	s.p.budget.earn()
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	if err = s.roundTrip(resp); err != nil {
		s.endFailed(endOf(err))
		return false
	}
	s.out.begun = true
	return s.streams(resp)
}

// streams reports whether the answer of head resp goes on a stream whose own head the
// client has. If not, the client received an error event.
func (s *stream) streams(resp *fasthttp.Response) bool {
	switch s.acct.status = resp.StatusCode(); {
	case s.acct.status != fasthttp.StatusOK:
		s.writeEngineError(s.acct.status)
		return false
	case !s.resp.events():
		s.endFailed(exchange.EndMalformed) // not a stream, although one was requested
		return false
	}
	return true
}

// endStopped ends a stream whose client left, or that the drain cut, while it was
// held.
func (s *stream) endStopped() {
	end := s.stopEnd()
	switch {
	case s.pl != nil:
		s.acct.fail(end, statusClientGone)
	case end == exchange.EndClientGone:
		s.p.count.clientGone.Add(1)
	default:
		s.p.count.refused[errDraining.Code].Add(1)
	}
	if end == exchange.EndShutdown {
		s.writeErrorEvent(errDraining)
	}
}

// endFailed ends a stream that no engine answered, and tells the client.
func (s *stream) endFailed(end exchange.End) {
	e := upstreamError(end)
	switch {
	case end == exchange.EndClientGone:
		s.acct.fail(end, statusClientGone)
		return
	case end == exchange.EndRewrite && s.out.refusal != nil:
		e = s.out.refusal
		s.p.count.refused[e.Code].Add(1)
	}
	s.acct.fail(end, e.Status)
	s.writeErrorEvent(e)
}

// maxErrorBody bounds what is read of an engine's error to pass it on as an event;
// vLLM's longest, which list the faults of a tool's schema, are a few KB long.
const maxErrorBody = 64 << 10

// writeEngineError passes on an engine's answer with an error status. The client
// has its head already, so the error becomes an event.
func (s *stream) writeEngineError(status int) {
	c, a := &s.client, &s.acct
	w, direct, format := c.w, c.direct, s.resp.format
	body := new(boundedBuffer)
	c.w, c.direct, s.resp.format = body, nil, llmapi.StreamNone
	if s.resp.over() || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified {
		a.end = exchange.EndComplete
	} else {
		s.move()
	}
	c.w, c.direct, s.resp.format = w, direct, format
	switch {
	case body.over:
		s.endFailed(exchange.EndMalformed)
	case a.end == exchange.EndClientGone:
	case !a.complete():
		s.endFailed(a.end)
	default:
		s.writeErrorEvent(llmapi.ReadError(body.b, status))
	}
}

// boundedBuffer keeps the first maxErrorBody bytes.
type boundedBuffer struct {
	b    []byte
	over bool
}

var errLongBody = errors.New("proxy: body of an error is too long")

// Write implements io.Writer. It fails if more comes than it keeps.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.b)+len(p) > maxErrorBody {
		b.over = true
		return 0, errLongBody
	}
	b.b = append(b.b, p...)
	return len(p), nil
}

// writeErrorEvent sends e as the only event of a stream.
func (s *stream) writeErrorEvent(e *llmapi.Error) {
	s.client.w.Write(e.AppendEvent(nil, s.req.API.Op, 0, string(s.client.id)))
}
