package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// outbound is the engine's side of a stream up to the head of the answer: what is
// sent and within which limits. Only the goroutine that drives the stream uses it.
type outbound struct {
	timeouts exchange.Timeouts
	totalBy  time.Time
	u        *upstream // of the attempt in progress

	edits   []llmapi.Edit
	parts   [][]byte      // head and edited body, to be written in order
	head    []byte        // of the request
	refusal *llmapi.Error // why the body cannot be edited, if that is the client's fault
	interim bool          // an interim (1xx) answer came
	begun   bool          // the client has the head of an answer

	// The allowance for moving.
	attempts int  // begun, of any kind
	fresh    bool // the next attempt is on a new connection
	failed   bool // an engine answered 500
	moved    bool // the request has left an engine that began to compute it, or must not
}

// reset drops what belongs to a request and keeps scratch memory.
func (o *outbound) reset() {
	clear(o.edits)
	clear(o.parts)
	*o = outbound{edits: o.edits[:0], parts: o.parts[:0], head: o.head[:0]}
}

// attemptError is how an attempt failed.
type attemptError exchange.End

// Error implements error.
func (e attemptError) Error() string { return "proxy: attempt failed: " + exchange.End(e).String() }

// errUnread is returned by stream.try if the engine certainly read no byte of the
// request before it closed the connection.
var errUnread = errors.New("proxy: engine closed the connection before it read the request")

// endOf returns what an error of an attempt means for the request.
func endOf(err error) exchange.End {
	if e, ok := err.(attemptError); ok {
		return exchange.End(e)
	}
	return exchange.EndNoAnswer
}

// roundTrip sends the request until an engine answers. It returns nil when the
// head of an answer is parsed into resp, else the last attemptError.
func (s *stream) roundTrip(resp *fasthttp.Response) error {
	for {
		s.out.attempts++
		err := s.try(resp)
		if end := s.stopEnd(); end != exchange.EndUnset {
			return attemptError(end)
		}
		if err == errEjected { // and the placement has moved
			s.abandonEjected()
			continue
		}
		if err == nil && resp.StatusCode() < 400 {
			return nil
		}
		reason, status := s.reasonToMove(err, resp)
		if !s.moveOn(reason, status) {
			return err
		}
		s.retried(reason)
		s.release()
	}
}

// try does one attempt up to the parsed head of the answer.
func (s *stream) try(resp *fasthttp.Response) error {
	t, o := s.pl.Target(), &s.out
	o.timeouts = t.Timeouts.Or(&s.p.cfg.Timeouts)
	o.totalBy = s.req.Received.Add(o.timeouts.Total)
	if !s.build(t) {
		return attemptError(exchange.EndRewrite)
	}
	begin := time.Now()
	c, end := s.connect(t, begin)
	if c == nil {
		return attemptError(end)
	}
	sent := begin
	if !c.reused {
		sent = time.Now()
	}
	s.p.count.stages[StageConnect].Add(sent.Sub(begin))
	c.by = earlier(sent.Add(o.timeouts.FirstByte), o.totalBy)
	if s.mayMove() {
		o.u.await(c)
	}
	c.arm()
	if s.stopped() { // after setting: see stop
		return attemptError(exchange.EndClientGone)
	}
	err := c.tr.send(o.parts, o.timeouts.Send)
	clear(o.parts)
	if err == nil || isBroken(err) {
		// An engine that refuses early closes the connection while the body is
		// written; its answer may still be readable.
		s.resp.reusable = err == nil
		first := err // a read after a reset fails as one after a close does
		if err = s.readHead(resp, c); isBroken(err) && first != nil {
			err = first
		}
	}
	if err == nil {
		s.p.count.stages[StageFirstHead].Add(time.Since(sent))
		return nil
	}
	return s.classify(err, c)
}

// classify returns the attemptError, errUnread or errEjected for an error of an attempt.
func (s *stream) classify(err error, c *upConn) error {
	end := exchange.EndNoAnswer
	switch {
	case errors.Is(err, errEjected):
		return errEjected
	case errors.Is(err, errTimeout):
		end = exchange.EndFirstByte
		if !time.Now().Before(s.out.totalBy) {
			end = exchange.EndTotalTimeout
		}
	case errors.Is(err, errSendTimeout):
		end = exchange.EndSendTimeout
	case errors.Is(err, errClientGone):
		end = exchange.EndClientGone
	case !isBroken(err):
		end = exchange.EndMalformed
	case len(c.data()) > 0 || s.out.interim:
		end = exchange.EndDied
	case c.tr.unread(err):
		return errUnread
	}
	return attemptError(end)
}

// build makes the request's head and parts for t. It returns false if the body
// cannot be edited as t wants it.
func (s *stream) build(t *exchange.Target) bool {
	o, c, api := &s.out, &s.client, s.req.API
	o.refusal = nil
	s.resp.usageOwner = usageOfClient
	if api.AddsUsage(&t.Rewrite) {
		s.resp.usageOwner = usageOfRouter
	}
	var err error
	if o.edits, err = api.AppendEdits(o.edits[:0], &t.Rewrite); err != nil {
		o.refusal, _ = errors.AsType[*llmapi.Error](err)
		return false
	}
	o.head = c.fields.appendHead(o.head[:0], t, api.Op.Path(), s.req.ID, llmapi.EditedLen(c.body, o.edits))
	o.parts = append(o.parts[:0], o.head)
	o.parts = llmapi.AppendParts(o.parts, c.body, o.edits)
	return true
}

// connect attaches a connection to the target, pooled unless s.out.fresh. The End is
// valid if there is no connection.
func (s *stream) connect(t *exchange.Target, now time.Time) (*upConn, exchange.End) {
	o := &s.out
	o.u = s.p.upstreams.get(t)
	if !o.fresh {
		if c := o.u.reuse(now); c != nil {
			return s.attach(c), exchange.EndClientGone
		}
	}
	o.fresh = false
	ctx, cancel := context.WithDeadline(context.Background(), earlier(now.Add(o.timeouts.Connect), o.totalBy))
	defer cancel()
	if !s.dialing(cancel) {
		return nil, exchange.EndClientGone
	}
	c, err := o.u.dial(ctx)
	s.dialing(nil)
	if err == nil {
		return s.attach(c), exchange.EndClientGone
	}
	if isTimeout(err) || ctx.Err() != nil {
		return nil, exchange.EndConnectTimeout
	}
	return nil, exchange.EndConnect
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
