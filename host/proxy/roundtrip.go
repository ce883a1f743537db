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
	moved   bool          // the request has left an ejected engine, or must not
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

// errStale is returned by stream.try for a pooled connection that the engine
// closed as it was reused.
var errStale = errors.New("proxy: engine closed the connection as it was reused")

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
	died := false
	for tries := 1; ; tries++ {
		err := s.attempt(resp)
		if end := s.stopEnd(); end != exchange.EndUnset {
			return attemptError(end)
		}
		if err == errEjected { // and the placement has moved
			s.abandonEjected()
			continue
		}
		reason, status := retryReasonOf(err), 0
		if err == nil {
			if status = resp.StatusCode(); status != 429 && status != 503 {
				return nil
			}
			reason = retryOverload
		}
		if tries >= s.p.cfg.MaxAttempts || !s.moveOn(reason, status, &died) {
			return err
		}
		s.retried(reason)
		s.release()
	}
}

// moveOn reports whether the request is sent to the next placement, which it
// selects. No byte of an answer has reached the client. status is the status of an
// overloaded engine, 0 for other reasons.
//
// A refused connection loads no engine; all other retries draw on the retry budget.
// An engine that closed the connection without an answer may have been killed by
// this request, so that is retried once: a prompt that kills engines kills two at
// most.
func (s *stream) moveOn(reason retryReason, status int, died *bool) bool {
	if reason == retryConnect || reason == retryConnectTimeout {
		return s.pl.Next(status)
	}
	if s.req.API.Op.Once() && reason != retryRewrite && reason != retryOverload {
		return false
	}
	switch reason {
	case retryNoAnswer:
		if *died {
			return false
		}
		*died = true
	case retryRewrite:
		if s.out.refusal != nil {
			return false // the client's fault
		}
	case retryOverload:
	default:
		return false
	}
	if !s.p.budget.spend() {
		return false
	}
	if !s.pl.Next(status) {
		s.p.budget.fifths.Add(retryCost)
		return false
	}
	return true
}

func (s *stream) retried(reason retryReason) {
	s.acct.retries++
	s.p.count.retries[reason].Add(1)
}

// attempt tries the target once, and again on a new connection if the engine closed
// a pooled one as it was reused.
func (s *stream) attempt(resp *fasthttp.Response) error {
	err := s.try(resp, false)
	if err == errStale && !s.req.API.Op.Once() {
		s.retried(retryStale)
		s.release()
		if s.stopped() {
			return attemptError(exchange.EndClientGone)
		}
		err = s.try(resp, true)
	}
	return err
}

// try does one attempt up to the parsed head of the answer.
func (s *stream) try(resp *fasthttp.Response, fresh bool) error {
	t, o := s.pl.Target(), &s.out
	o.timeouts = t.Timeouts.Or(&s.p.cfg.Timeouts)
	o.totalBy = s.req.Received.Add(o.timeouts.Total)
	if !s.build(t) {
		return attemptError(exchange.EndRewrite)
	}
	begin := time.Now()
	c, end := s.connect(t, fresh, begin)
	if c == nil {
		return attemptError(end)
	}
	sent := begin
	if !c.reused {
		sent = time.Now()
	}
	s.p.count.stages[StageConnect].Add(sent.Sub(begin))
	c.by = earlier(sent.Add(o.timeouts.FirstByte), o.totalBy)
	if !o.moved && !s.req.API.Op.Once() {
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
		err = s.readHead(resp, c)
	}
	if err == nil {
		s.p.count.stages[StageFirstHead].Add(time.Since(sent))
		return nil
	}
	return s.classify(err, c, sent)
}

// classify returns the attemptError, or errStale, for an error of an attempt whose
// request was sent at the given time.
func (s *stream) classify(err error, c *upConn, sent time.Time) error {
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
	case c.reused && time.Since(sent) < s.p.cfg.StaleWithin:
		return errStale
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

// connect attaches a connection to the target, pooled unless fresh. The End is
// valid if there is no connection.
func (s *stream) connect(t *exchange.Target, fresh bool, now time.Time) (*upConn, exchange.End) {
	o := &s.out
	o.u = s.p.upstreams.get(t)
	if !fresh {
		if c := o.u.reuse(now); c != nil {
			return s.attach(c), exchange.EndClientGone
		}
	}
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
