package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// attemptError says how an attempt failed.
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
		reason, status := retryReasonOf(err), 0
		if err == nil {
			if status = resp.StatusCode(); status != 429 && status != 503 {
				return nil
			}
			reason = retryOverload
		}
		if tries >= s.p.cfg.MaxAttempts || !s.mayMove(reason, status, &died) {
			return err
		}
		s.retried(reason)
		s.release()
	}
}

// mayMove decides whether the request goes to the next placement. Whatever the
// reason, no byte of an answer reached the client. status is that of an
// overloaded engine, 0 otherwise.
//
// A refused connection costs nobody anything. All else draws on the retry budget.
// An engine that closed the connection without an answer may have died of this
// very request, so that happens once: a poisonous prompt takes two engines at
// most.
func (s *stream) mayMove(reason retryReason, status int, died *bool) bool {
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
		if s.refusal != nil {
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
	s.retries++
	s.p.count.retries[reason].Add(1)
}

// attempt tries the target once, and once more on a fresh connection if the
// engine closed a pooled one just as it was reused.
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
	t := s.pl.Target()
	s.timeouts = t.Timeouts.Or(&s.p.cfg.Timeouts)
	s.totalBy = s.req.Received.Add(s.timeouts.Total)
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
	c.by = earlier(sent.Add(s.timeouts.FirstByte), s.totalBy)
	c.arm()
	if s.stopped() { // after setting: see stop
		return attemptError(exchange.EndClientGone)
	}
	err := c.tr.send(s.parts, s.timeouts.Send)
	clear(s.parts)
	if err == nil || isBroken(err) {
		// An engine that refuses early closes while the body is written; its
		// answer may be there to be read.
		s.keep = err == nil
		err = s.readHead(resp, c)
	}
	if err == nil {
		s.p.count.stages[StageFirstHead].Add(time.Since(sent))
		return nil
	}
	return s.whatFailed(err, c, sent)
}

// whatFailed classifies the error of an attempt.
func (s *stream) whatFailed(err error, c *upConn, sent time.Time) error {
	end := exchange.EndNoAnswer
	switch {
	case errors.Is(err, errTimeout):
		end = exchange.EndFirstByte
		if !time.Now().Before(s.totalBy) {
			end = exchange.EndTotalTimeout
		}
	case errors.Is(err, errSendTimeout):
		end = exchange.EndSendTimeout
	case errors.Is(err, errClientGone):
		end = exchange.EndClientGone
	case !isBroken(err):
		end = exchange.EndMalformed
	case len(c.data()) > 0 || s.interim:
		end = exchange.EndDied
	case c.reused && time.Since(sent) < s.p.cfg.StaleWithin:
		return errStale
	}
	return attemptError(end)
}

// build makes the request's head and parts for t.
func (s *stream) build(t *exchange.Target) bool {
	s.refusal = nil
	api := s.req.API
	s.rewrite = t.Rewrite
	s.inject = api.AddsUsage(&s.rewrite)
	var err error
	if s.edits, err = api.AppendEdits(s.edits[:0], &s.rewrite); err != nil {
		if e, ok := errors.AsType[*llmapi.Error](err); ok {
			s.refusal = e
		}
		return false
	}
	s.head = s.fields.appendHead(s.head[:0], t, api.Op.Path(), s.req.ID, llmapi.EditedLen(s.body, s.edits))
	s.parts = append(s.parts[:0], s.head)
	s.parts = llmapi.AppendParts(s.parts, s.body, s.edits)
	return true
}

// connect attaches a connection to the target, pooled unless fresh.
func (s *stream) connect(t *exchange.Target, fresh bool, now time.Time) (*upConn, exchange.End) {
	s.u = s.p.upstreams.get(t)
	if !fresh {
		if c := s.u.reuse(now); c != nil {
			return s.attach(c), exchange.EndClientGone
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), earlier(now.Add(s.timeouts.Connect), s.totalBy))
	defer cancel()
	if !s.dialing(cancel) {
		return nil, exchange.EndClientGone
	}
	c, err := s.u.dial(ctx)
	s.dialing(nil)
	if err == nil {
		return s.attach(c), exchange.EndClientGone
	}
	if isTimeout(err) || ctx.Err() != nil {
		return nil, exchange.EndConnectTimeout
	}
	return nil, exchange.EndConnect
}

// headReader parses heads of answers.
type headReader struct {
	src bytes.Reader
	buf *bufio.Reader
}

// maxInterim bounds the interim (1xx) answers before the real one.
const maxInterim = 8

var errInterim = errors.New("proxy: too many interim answers")

// readHead reads the head of the answer into resp.
func (s *stream) readHead(resp *fasthttp.Response, c *upConn) error {
	h := &resp.Header
	s.interim = false
	for range maxInterim {
		head, err := c.head()
		if err != nil {
			return err
		}
		hop := answerFields(head)
		if err := s.parse(h, head); err != nil {
			return err
		}
		if hop.told {
			stripTold(h, head)
		}
		c.skip(len(head))
		switch code := h.StatusCode(); {
		case code == 101:
			return errInterim // nobody asked for another protocol
		case code < 200:
			s.interim = true
			continue
		}
		s.left = int64(h.ContentLength())
		s.keep = s.keep && !h.ConnectionClose() && !hop.ambiguous
		h.ResetConnectionClose()
		if hop.any {
			stripHop(h)
		}
		h.SetNoDefaultContentType(true)
		s.sse = isEventStream(h.ContentType())
		s.inject = s.inject && s.sse && h.StatusCode() == 200
		s.naming = s.req.API.Op.Stored() && !s.req.API.NoStore && h.StatusCode() == 200
		return nil
	}
	return errInterim
}

func (s *stream) parse(h *fasthttp.ResponseHeader, head []byte) error {
	r := headReaders.Get().(*headReader)
	r.src.Reset(head)
	r.buf.Reset(&r.src)
	h.Reset()
	err := h.Read(r.buf)
	r.src.Reset(nil)
	headReaders.Put(r)
	if err == nil {
		return nil
	}
	return errMalformedHead
}

var errMalformedHead = errors.New("proxy: malformed response head")

// hopFields is what answerFields found.
type hopFields struct {
	any       bool // fields of this hop only
	ambiguous bool // Content-Length together with Transfer-Encoding
	told      bool // fields that tell of the engine
}

// answerFields looks for fields that must not be passed on. Most heads have none.
func answerFields(head []byte) (f hopFields) {
	length, coding := false, false
	for {
		i := bytes.IndexByte(head, '\n')
		if i < 0 {
			f.ambiguous = length && coding
			return f
		}
		if head = head[i+1:]; len(head) == 0 {
			continue
		}
		switch head[0] | 0x20 {
		case 'a', 'c', 'e', 'f', 'h', 'k', 'l', 'o', 'p', 's', 't', 'u', 'v', 'x': // of all that is looked for
		default:
			continue
		}
		name, _, _ := bytes.Cut(head, colon)
		f.told = f.told || tells(name)
		switch {
		case fold(name, "content-length"):
			length = true
		case fold(name, "transfer-encoding"):
			coding = true
		case fold(name, "connection"), fold(name, "keep-alive"), fold(name, "proxy-connection"),
			fold(name, "te"), fold(name, "trailer"), fold(name, "upgrade"),
			fold(name, "proxy-authenticate"):
			f.any = true
		}
	}
}

var colon = []byte(":")

// fold tells whether name is low, which is in lower case.
func fold(name []byte, low string) bool {
	if len(name) != len(low) {
		return false
	}
	for i := range name {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != low[i] {
			return false
		}
	}
	return true
}

// stripHop removes the fields of the engine's hop and those its Connection names.
func stripHop(h *fasthttp.ResponseHeader) {
	for _, list := range h.PeekAll("Connection") {
		for name := range bytes.SplitSeq(append([]byte(nil), list...), []byte(",")) {
			if name = trimSpace(name); len(name) > 0 && !fold(name, "content-length") && !fold(name, "transfer-encoding") {
				h.DelBytes(name)
			}
		}
	}
	for _, k := range [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Te",
		"Trailer", "Upgrade"} {
		h.Del(k)
	}
}

func isEventStream(contentType []byte) bool {
	const sse = "text/event-stream"
	return len(contentType) >= len(sse) && fold(contentType[:len(sse)], sse)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
