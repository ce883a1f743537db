package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// stream is one request and its answer. fasthttp's goroutine of the client
// connection drives it; only stop comes from elsewhere. Streams are pooled.
type stream struct {
	p  *Proxy
	cc net.Conn    // the client
	wc *clientConn // the same, watched; nil if it is none of ours

	header  *fasthttp.RequestHeader // of the request, until the answer's end
	fields  fields
	cred    identity.Credentials
	req     Request
	idBuf   []byte
	counted bool // in inFlight
	body    []byte
	bodyBuf *[]byte
	bytesIn int64

	pl       Placement
	timeouts exchange.Timeouts
	totalBy  time.Time
	rewrite  llmapi.Rewrite
	edits    []llmapi.Edit
	parts    [][]byte
	head     []byte
	refusal  *llmapi.Error
	retries  int
	u        *upstream

	why    atomic.Uint32 // a stop constant, 0 = runs
	mu     sync.Mutex    // guards what stop reaches; taken after exchangeSlot.mu
	up     *upConn       // written by the driving goroutine only, which reads it without mu
	cancel context.CancelFunc
	gone   chan struct{} // made on demand, closed by stop

	// The answer.
	status  int
	interim bool // an interim answer came
	left    int64
	dec     chunkDecoder
	sse     bool
	inject  bool // its usage event is ours and must go
	keep    bool // the engine allows reuse
	started bool // bytes of the body came
	done    bool // [DONE] came, or what ends a stream of the API
	naming  bool // the answer's id was not seen yet and is wanted
	opening []byte
	events  int // number of the last event of a stream of responses
	usage   usageScanner
	filter  usageFilter
	tail    streamTail
	w       io.Writer // fasthttp's
	direct  io.Writer // the client connection, once fasthttp's writer is empty
	werr    error
	uerr    error
	sent    int64        // bytes of the body passed on
	got     int64        // bytes of the body received
	end     exchange.End // EndComplete = the body ended where its framing says
	now     time.Time
	ttft    time.Duration
	wait    *wait            // set while the request is held and its stream goes on meanwhile
	outcome exchange.Outcome // here, since what an interface gets would be allocated
}

var (
	streamPool  = sync.Pool{New: func() any { return &stream{req: Request{API: new(llmapi.Request)}} }}
	headReaders = sync.Pool{New: func() any { return &headReader{buf: bufio.NewReaderSize(nil, bufSize)} }}
)

func newStream(p *Proxy, ctx *fasthttp.RequestCtx) *stream {
	s := streamPool.Get().(*stream)
	s.p, s.cc = p, ctx.Conn()
	s.wc = watched(s.cc)
	s.req.Received = time.Now()
	s.req.s = s
	return s
}

// recycle gives s back with its scratch memory.
func (s *stream) recycle() {
	clear(s.fields.all)
	clear(s.edits)
	clear(s.parts)
	s.usage.reset()
	s.filter.reset()
	*s = stream{
		fields: fields{all: s.fields.all[:0]}, req: Request{API: s.req.API}, idBuf: s.idBuf[:0],
		edits: s.edits[:0], parts: s.parts[:0], head: s.head[:0], usage: s.usage, filter: s.filter, opening: s.opening[:0],
	}
	streamPool.Put(s)
}

// handOver makes the answer ctx's. From here on fasthttp calls WriteTo and Close,
// or Close alone.
func (s *stream) handOver(ctx *fasthttp.RequestCtx) {
	s.dress(ctx)
	size := int(s.left)
	if size < 0 || s.inject {
		size = -1
	}
	if size == 0 || s.status == 204 || s.status == 304 {
		s.end = exchange.EndComplete
		s.finish()
		return
	}
	if size < 0 && !ctx.Request.Header.IsHTTP11() {
		s.handOverRaw(ctx)
		return
	}
	if size < 0 {
		s.goDirect()
	}
	ctx.Response.ImmediateHeaderFlush = s.sse && len(s.up.data()) == 0
	ctx.Response.SetBodyStream(s, size)
}

// dress adds to the head of the answer what the router has to say.
func (s *stream) dress(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	s.status = h.StatusCode()
	h.SetCanonical(requestIDKey, s.idBuf)
	s.tellLimits(h)
	if s.req.API.Op.Family() == llmapi.FamilyAnthropic {
		h.SetCanonical(anthropicIDKey, s.idBuf)
	}
	if s.sse && len(h.Peek("X-Accel-Buffering")) == 0 {
		h.Set("X-Accel-Buffering", "no") // nginx in front would collect events
	}
	if o := s.fields.one[kindOrigin]; o != nil && len(s.p.cfg.CORSOrigins) > 0 {
		s.p.cors(ctx, o)
	}
}

// goDirect lets chunks go to the client connection without a copy.
func (s *stream) goDirect() {
	s.direct, _ = s.cc.(io.Writer)
	if s.wc == nil || s.cc != net.Conn(s.wc) {
		s.direct = nil // behind TLS, or no connection of ours
	}
}

// handOverRaw answers an HTTP/1.0 client, which knows no chunks, with a body that
// ends with the connection: fasthttp has no such framing for streams.
func (s *stream) handOverRaw(ctx *fasthttp.RequestCtx) {
	head := rawHead(&ctx.Response.Header)
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(c net.Conn) {
		if _, err := c.Write(head); err == nil {
			s.WriteTo(c)
		}
		s.Close()
	})
}

// rawHead is a head without any framing of the body.
func rawHead(h *fasthttp.ResponseHeader) []byte {
	h.SetContentLength(-2)
	h.Del("Transfer-Encoding")
	return h.AppendBytes(nil)
}

// touch moves the deadline of the next read.
func (s *stream) touch() {
	u := s.up
	if s.started {
		now := s.now
		if now.IsZero() {
			now = time.Now()
		}
		s.now = time.Time{}
		wait := s.timeouts.BetweenEvents
		if s.done {
			wait = min(wait, afterDone)
		}
		u.by = earlier(now.Add(wait), s.totalBy)
	}
	u.arm()
}

// afterDone is how long an engine may take to end a stream after its [DONE].
const afterDone = time.Second

// SupportsBodyWriteTo lets fasthttp call WriteTo instead of Read.
func (s *stream) SupportsBodyWriteTo() bool { return true }

// Read implements io.Reader; it is never called.
func (s *stream) Read([]byte) (int, error) { panic("BUG: proxy: Read of a stream") }

// WriteTo moves the answer's body to w, of which fasthttp sends each Write as a
// chunk, at once. An error makes fasthttp close the client's connection without
// the last chunk.
func (s *stream) WriteTo(w io.Writer) (int64, error) {
	s.w = w
	goes := s.wait == nil || s.endure()
	if goes {
		s.move()
	}
	s.w, s.direct = nil, nil
	if !goes {
		return s.sent, errBroken
	}
	if s.end == exchange.EndComplete {
		return s.sent, nil
	}
	return s.sent, errBroken
}

// move passes on the body up to its end, and says how that came.
func (s *stream) move() {
	u := s.up
	var err error
	if len(u.data()) == 0 || !s.flush() {
		s.touch()
		if err = errClientGone; !s.stopped() {
			err = u.tr.pump()
		}
	}
	if err == nil {
		err = s.uerr
	}
	s.conclude(err)
}

var errBroken = errors.New("proxy: answer is not whole")

// conclude decides how the body ended.
func (s *stream) conclude(err error) {
	switch {
	case s.end == exchange.EndComplete || s.werr != nil:
	case s.stopped() && !s.done:
		s.end = s.stopEnd()
	case s.left == -2 && errors.Is(err, io.EOF):
		s.end, s.keep = exchange.EndComplete, false
	case s.done && (s.stopped() || isBroken(err) || errors.Is(err, errTimeout)):
		// All was said; only the framing's end is missing.
		s.end, s.keep = exchange.EndComplete, false
	case errors.Is(err, errTimeout):
		switch {
		case !time.Now().Before(s.totalBy):
			s.end = exchange.EndTotalTimeout
		case !s.started:
			s.end = exchange.EndFirstByte
		default:
			s.end = exchange.EndBetweenEvents
		}
	case errors.Is(err, errChunk):
		s.end = exchange.EndMalformed
	default:
		s.end = exchange.EndDied
	}
	if s.end == exchange.EndComplete && s.inject {
		if rest := s.filter.finish(); len(rest) > 0 {
			s.put(rest)
		}
	}
	if s.werr != nil {
		s.end = exchange.EndClientGone
		if errors.Is(s.werr, os.ErrDeadlineExceeded) && s.why.Load() == stopCut {
			s.end = exchange.EndShutdown
		}
	}
	if s.end != exchange.EndComplete && s.end != exchange.EndClientGone && s.sse {
		s.tell()
	}
}

// tell sends the error event. SDKs raise it; the missing last chunk tells
// everybody else.
func (s *stream) tell() {
	e := brokenStream(s.end)
	b := make([]byte, 0, 256)
	if s.midEvent() {
		b = append(b, "\n\n"...)
	}
	s.w.Write(e.AppendEvent(b, s.req.API.Op, s.events+1, string(s.idBuf)))
}

// midEvent tells whether the client has a part of an event.
func (s *stream) midEvent() bool {
	if s.inject {
		return s.filter.inEvent && s.filter.passing
	}
	return s.sent > 0 && !s.tail.ended()
}

// flush passes on what is in the buffer; true means that the body is over, one
// way or the other.
func (s *stream) flush() bool {
	u := s.up
	d := u.data()
	if len(d) == 0 {
		return false
	}
	payload, n := d, len(d)
	switch {
	case s.left == -1:
		payload, n, s.uerr = s.dec.decode(d)
	case s.left >= 0:
		n = int(min(int64(n), s.left))
		payload = d[:n]
		s.left -= int64(n)
	}
	if len(payload) > 0 && !s.pass(payload) || s.uerr != nil {
		return true
	}
	if u.r += n; u.r == u.w {
		u.r, u.w = headRoom, headRoom
	}
	over := s.dec.done || s.left == 0
	if over {
		s.end = exchange.EndComplete
	}
	return over
}

// pass looks at a piece of the body, which lies in the buffer at u.r, and sends
// it; false if the client does not take it.
func (s *stream) pass(payload []byte) bool {
	s.now = time.Now()
	if !s.started && s.computes(payload) {
		s.started = true
		s.ttft = s.now.Sub(s.req.Received)
		s.pl.FirstToken()
	}
	s.got += int64(len(payload))
	keyed := s.usage.feed(payload)
	if s.sse {
		s.done = s.ends(payload)
	}
	if s.naming {
		s.name(payload)
	}
	if s.inject {
		var before []byte
		before, payload = s.filter.filter(payload, keyed)
		if len(before) > 0 && !s.put(before) {
			return false
		}
		if len(payload) == 0 {
			return true
		}
	}
	if s.sent == 0 || s.direct == nil {
		return s.put(payload)
	}
	return s.putDirect(payload)
}

// put hands a piece to fasthttp, which sends the response head with the first
// one.
func (s *stream) put(b []byte) bool {
	n, err := s.w.Write(b)
	s.sent += int64(n)
	s.werr = err
	return err == nil
}

// putDirect frames a chunk where it lies, at u.r, and sends it without a copy.
func (s *stream) putDirect(payload []byte) bool {
	const hex = "0123456789abcdef"
	u := s.up
	b, i := *u.buf, u.r-1
	b[i], b[i-1] = '\n', '\r'
	i -= 2
	for n := len(payload); ; i-- {
		b[i] = hex[n&15]
		if n >>= 4; n == 0 {
			break
		}
	}
	end := u.r + len(payload)
	// The bytes after the payload may be the engine's next ones.
	a, z := b[end], b[end+1]
	b[end], b[end+1] = '\r', '\n'
	_, err := s.direct.Write(b[i : end+2])
	b[end], b[end+1] = a, z
	if s.werr = err; err == nil {
		s.sent += int64(len(payload))
	}
	return err == nil
}

// Close is called once when the answer was sent or failed.
func (s *stream) Close() error {
	if s.end == exchange.EndUnset {
		s.end = exchange.EndClientGone // not even the head went out
	}
	s.finish()
	return nil
}

// finish ends the request: the connection goes back or is closed, the router is
// told, s is given back.
func (s *stream) finish() {
	p := s.p
	if s.wait != nil {
		s.giveUpWait()
	}
	if s.wc != nil {
		s.wc.end()
	}
	if c := s.detach(); c != nil {
		if s.end == exchange.EndComplete && s.keep && !s.stopped() && len(c.data()) == 0 {
			s.u.put(c)
		} else {
			c.close()
		}
	}
	s.freeBody()
	if pl := s.pl; pl != nil {
		s.pl = nil
		s.report(pl)
	}
	if s.counted {
		s.counted = false
		p.count.inFlight.Add(-1)
	}
	s.recycle()
}

// report counts the outcome and tells the router.
func (s *stream) report(pl Placement) {
	c := &s.p.count
	switch s.end {
	case exchange.EndComplete:
		c.completed.Add(1)
	case exchange.EndClientGone:
		c.clientGone.Add(1)
	default:
		c.failed[s.end].Add(1)
	}
	c.bytesOut.Add(uint64(s.got))
	c.usageRemoved.Add(uint64(s.filter.removed))
	u := &s.usage.usage
	s.outcome = exchange.Outcome{Status: s.status, End: s.end, Retries: s.retries, TTFT: s.ttft, E2E: time.Since(s.req.Received),
		PromptTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, CachedTokens: u.CachedTokens,
		HasUsage: s.usage.found, HasCached: u.HasCached, BytesIn: s.bytesIn, BytesOut: s.got}
	pl.Done(&s.outcome)
}
