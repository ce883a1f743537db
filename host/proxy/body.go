package proxy

import (
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// progressBytes is how much a client must send within each BodyTimeout.
const progressBytes = 1 << 20

// readBody reads the whole body of the request into s.client. io.EOF
// means that the client left before its end; a *llmapi.Error is for the client.
func (s *stream) readBody(ctx *fasthttp.RequestCtx) error {
	src := ctx.Request.BodyStream()
	if src == nil {
		return nil
	}
	p := s.p
	limit, announced := int(s.req.Edge.maxBody), ctx.Request.Header.ContentLength()
	first := firstChunked
	if announced >= 0 {
		first = min(firstMapped, announced)
	}
	if announced > limit {
		return tooLarge(limit)
	}
	if p.bodies.held.Load()+int64(max(announced, first)) > s.req.Edge.maxBytes {
		return errBytesInFlight
	}
	b, n, mark := p.bodies.get(first), 0, progressBytes
	for {
		m, err := src.Read((*b)[n:])
		n += m
		switch {
		case n > limit:
			p.bodies.put(b)
			return tooLarge(limit)
		case err == io.EOF && announced >= 0 && n != announced:
			p.bodies.put(b)
			return io.ErrUnexpectedEOF
		case err == io.EOF || err == nil && n == announced:
			s.client.bodyBuf, s.client.body = b, (*b)[:n]
			return nil
		case err != nil:
			p.bodies.put(b)
			return err
		}
		if n >= mark {
			mark = n + progressBytes
			s.client.conn.SetReadDeadline(time.Now().Add(p.cfg.BodyTimeout))
		}
		if n < len(*b) {
			continue
		}
		want := 4 * n // the sender has sent a quarter of it
		if announced >= 0 {
			want = min(want, announced)
		}
		want = max(min(want, limit+1), n+1)
		if p.bodies.held.Load()+int64(want) > s.req.Edge.maxBytes {
			p.bodies.put(b)
			return errBytesInFlight
		}
		nb := p.bodies.get(want)
		copy(*nb, *b)
		p.bodies.put(b)
		b = nb
	}
}

// freeBody returns the body's buffer to the pool. No reference to the body may be
// used afterwards.
func (s *stream) freeBody() {
	if c := &s.client; c.bodyBuf != nil {
		s.p.bodies.put(c.bodyBuf)
		c.bodyBuf, c.body = nil, nil
	}
}

var errBytesInFlight = llmapi.Refuse(llmapi.CodeBytesInFlight,
	"The router is at its limit of memory for request bodies; try again shortly.")
