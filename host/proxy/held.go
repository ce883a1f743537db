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

// Held is an error of Router.Schedule that is none yet: nobody takes the request,
// and an endpoint that will is being started. The proxy waits, and tells the
// client of a stream meanwhile that it is not forgotten.
type Held struct {
	// Wait returns when the request has its place or will have none, and soon after
	// r.Gone was closed. It is called exactly once, perhaps by another goroutine
	// than Schedule was, with the request or a copy of it, whose Limits it sets. It
	// returns what Schedule does, but no *Held.
	Wait func(r *Request) (Placement, error)
}

// Error implements error.
func (h *Held) Error() string { return "proxy: held until an endpoint is there" }

// hijacked has nothing left to do.
func hijacked(net.Conn) {}

// wait is one call of Held.Wait on a goroutine of its own. Whoever started it
// waits for its end, before the request's memory is used for another.
type wait struct {
	done chan struct{} // closed at its end; what follows is the goroutine's before
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
			p.log.Error("panic in a request that is held", "request_id", w.req.ID, "err", r, "stack", string(debug.Stack()))
			w.pl, w.err = nil, errCrash
		}
	}()
	w.pl, w.err = h.Wait(&w.req)
}

// endWait takes over what the wait came to, and blocks until it came to it.
func (s *stream) endWait() (Placement, error) {
	w := s.wait
	<-w.done
	s.wait = nil
	s.req.Limits = w.req.Limits
	return w.pl, w.err
}

// held waits for a place. A stream's client is let wait without a word for one
// heartbeat; s.wait is then left, and the stream must begin without its engine.
func (s *stream) held(h *Held) (Placement, error) {
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

// giveUpWait ends a wait that nobody has a use for any more.
func (s *stream) giveUpWait() {
	s.stop(stopGone)
	s.pl, _ = s.endWait()
	if s.pl != nil && s.end == exchange.EndUnset {
		s.end = exchange.EndClientGone
	}
}

// handOverHeld begins the answer of a stream that waits, with the head that
// engines send. From here on it is as after handOver.
func (s *stream) handOverHeld(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusOK)
	h.SetContentType("text/event-stream; charset=utf-8")
	s.sse = true
	s.dress(ctx)
	if ctx.Request.Header.IsHTTP11() {
		s.goDirect()
		ctx.Response.ImmediateHeaderFlush = true
		ctx.Response.SetBodyStream(s, -1)
		return
	}
	// What goes to the engine is taken from the client's head, which fasthttp gives
	// away with the connection: so all is done before.
	head := rawHead(h)
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(hijacked)
	if _, err := s.cc.Write(head); err == nil {
		s.WriteTo(s.cc)
	}
	s.Close()
}

// What keeps a client and what is between from giving up. Every parser of events
// drops comments; Anthropic's API has an event for it, which its clients count as
// a sign of life.
var (
	commentBeat = []byte(": waiting for the model to start\n\n")
	pingBeat    = []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")
)

// beat sends heartbeats until the wait is over. A client that does not take them
// has left.
func (s *stream) beat() {
	b := commentBeat
	if s.req.API.Op.StreamFormat() == llmapi.StreamMessages {
		b = pingBeat
	}
	t := time.NewTicker(s.p.cfg.Heartbeat)
	defer t.Stop()
	for {
		if _, err := s.w.Write(b); err != nil {
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

// endure waits for the place of a stream whose head went out, and for the engine's
// head. False: the stream is over, and what the client had to be told was said in
// an event.
func (s *stream) endure() (goes bool) {
	defer func() {
		// fasthttp catches it as well, and would not give the stream back.
		if r := recover(); r != nil {
			s.p.log.Error("panic in a stream that was held", "request_id", s.req.ID, "err", r, "stack", string(debug.Stack()))
			s.end, goes = exchange.EndInternal, false
		}
	}()
	s.beat()
	pl, err := s.endWait()
	s.pl = pl
	if s.stopped() {
		s.endStopped()
		return false
	}
	if err != nil || pl == nil {
		e := shown(err, errNoEndpoint)
		s.p.count.refused[e.Code].Add(1)
		s.say(e)
		return false
	}
	s.p.budget.earn()
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	err = s.roundTrip(resp)
	s.freeBody()
	if err != nil {
		s.endFailed(endOf(err))
		return false
	}
	switch s.status = resp.StatusCode(); {
	case s.status != fasthttp.StatusOK:
		s.sayEngineError(s.status)
		return false
	case !s.sse:
		s.endFailed(exchange.EndMalformed) // no stream, though one was asked for
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
		s.end, s.status = end, statusClientGone
	case end == exchange.EndClientGone:
		s.p.count.clientGone.Add(1)
	default:
		s.p.count.refused[errDraining.Code].Add(1)
	}
	if end == exchange.EndShutdown {
		s.say(errDraining)
	}
}

// endFailed ends a stream that no engine answered, and tells the client.
func (s *stream) endFailed(end exchange.End) {
	s.end = end
	e := upstreamError(end)
	switch {
	case end == exchange.EndClientGone:
		s.status = statusClientGone
		return
	case end == exchange.EndRewrite && s.refusal != nil:
		e = s.refusal
		s.p.count.refused[e.Code].Add(1)
	}
	s.status = e.Status
	s.say(e)
}

// maxErrorBody bounds what is read of an engine's error to pass it on as an event;
// vLLM's longest, which lists the faults of a tool's schema, are a few KB long.
const maxErrorBody = 64 << 10

// sayEngineError passes on an engine's answer with an error status. The client has
// its head already, so that the error becomes an event.
func (s *stream) sayEngineError(status int) {
	w, d := s.w, s.direct
	body := new(boundedBuffer)
	s.w, s.direct, s.sse, s.inject = body, nil, false, false
	if s.left == 0 || status == fasthttp.StatusNoContent || status == fasthttp.StatusNotModified {
		s.end = exchange.EndComplete
	} else {
		s.move()
	}
	s.w, s.direct, s.sse = w, d, true
	switch {
	case body.over:
		s.end = exchange.EndMalformed
	case s.end == exchange.EndClientGone:
		return
	}
	if s.end != exchange.EndComplete {
		s.endFailed(s.end)
		return
	}
	s.say(llmapi.ReadError(body.b, status))
}

// boundedBuffer keeps the first maxErrorBody bytes.
type boundedBuffer struct {
	b    []byte
	over bool
}

var errLongBody = errors.New("proxy: body of an error is too long")

// Write implements io.Writer. It fails where more comes than it keeps.
func (b *boundedBuffer) Write(p []byte) (int, error) {
	if len(b.b)+len(p) > maxErrorBody {
		b.over = true
		return 0, errLongBody
	}
	b.b = append(b.b, p...)
	return len(p), nil
}

// say sends e as the first and last event of a stream.
func (s *stream) say(e *llmapi.Error) {
	s.w.Write(e.AppendEvent(nil, s.req.API.Op, 0, string(s.idBuf)))
}
