package proxy

import (
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Body buffers come in powers of two from 16 KB to 1 GB. A body grows with what
// has arrived, never with what Content-Length merely announces.
const (
	minClass     = 14
	maxClass     = 30
	maxBodyLimit = 1 << maxClass

	// mapClass is the class from which buffers are mapped, outside Go's heap:
	// pages that nothing was written to cost nothing, so such a buffer may have
	// the announced size at once.
	mapClass = 16 - minClass

	firstMapped  = 1 << 20  // the most that an announcement is believed
	firstChunked = 64 << 10 // of a body without an announcement
)

var (
	bodyPools [mapClass]sync.Pool
	bodyMaps  [maxClass - minClass + 1]mapPool
	bodyBytes atomic.Int64 // held by requests, in buffer sizes
)

func class(n int) int { return max(bits.Len(uint(max(n, 1)-1)), minClass) - minClass }

// getBody returns a buffer of at least n bytes.
func getBody(n int) *[]byte {
	c := class(n)
	size := 1 << (c + minClass)
	bodyBytes.Add(int64(size))
	if c >= mapClass {
		return bodyMaps[c].get(size)
	}
	if v := bodyPools[c].Get(); v != nil {
		return v.(*[]byte)
	}
	b := make([]byte, size)
	return &b
}

func putBody(b *[]byte) {
	c := class(len(*b))
	bodyBytes.Add(-int64(len(*b)))
	if c >= mapClass {
		bodyMaps[c].put(b)
		return
	}
	bodyPools[c].Put(b)
}

// trimPeriod is how long a mapped buffer must have been of no use to be given
// back to the system: what a burst needed is gone after two of them.
const trimPeriod = time.Second

// mapPool keeps mapped buffers of one size.
type mapPool struct {
	mu    sync.Mutex // guards what follows
	free  []*[]byte
	low   int  // fewest free ones in this period
	timer bool // trim will run
}

func (p *mapPool) get(size int) *[]byte {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		b := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		p.low = min(p.low, n-1)
		p.mu.Unlock()
		return b
	}
	p.mu.Unlock()
	b := mapBytes(size)
	return &b
}

func (p *mapPool) put(b *[]byte) {
	p.mu.Lock()
	p.free = append(p.free, b)
	arm := !p.timer
	p.timer = true
	p.mu.Unlock()
	if arm {
		time.AfterFunc(trimPeriod, p.trim)
	}
}

// trim unmaps the buffers that nobody needed in the last period.
func (p *mapPool) trim() {
	p.mu.Lock()
	n := min(p.low, len(p.free))
	old := append([]*[]byte(nil), p.free[:n]...)
	rest := copy(p.free, p.free[n:])
	clear(p.free[rest:])
	p.free = p.free[:rest]
	p.low = rest
	p.timer = rest > 0
	again := p.timer
	p.mu.Unlock()
	for _, b := range old {
		unmapBytes(*b)
	}
	if again {
		time.AfterFunc(trimPeriod, p.trim)
	}
}

// progressBytes is what a client must send within each BodyTimeout.
const progressBytes = 1 << 20

// readBody reads the whole body of the request into s.body. io.EOF means that
// the client left in the middle; a *llmapi.Error is for the client.
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
	if bodyBytes.Load()+int64(max(announced, first)) > s.req.Edge.maxBytes {
		return errBytesInFlight
	}
	b, n, mark := getBody(first), 0, progressBytes
	for {
		m, err := src.Read((*b)[n:])
		n += m
		switch {
		case n > limit:
			putBody(b)
			return tooLarge(limit)
		case err == io.EOF && announced >= 0 && n != announced:
			putBody(b)
			return io.ErrUnexpectedEOF
		case err == io.EOF || err == nil && n == announced:
			s.bodyBuf, s.body = b, (*b)[:n]
			return nil
		case err != nil:
			putBody(b)
			return err
		}
		if n >= mark {
			mark = n + progressBytes
			s.cc.SetReadDeadline(time.Now().Add(p.cfg.BodyTimeout))
		}
		if n < len(*b) {
			continue
		}
		want := 4 * n // the sender has proven a quarter of it
		if announced >= 0 {
			want = min(want, announced)
		}
		want = max(min(want, limit+1), n+1)
		if bodyBytes.Load()+int64(want) > s.req.Edge.maxBytes {
			putBody(b)
			return errBytesInFlight
		}
		nb := getBody(want)
		copy(*nb, *b)
		putBody(b)
		b = nb
	}
}

// freeBody gives the body back. Nothing that refers to it may be used after.
func (s *stream) freeBody() {
	if s.bodyBuf != nil {
		putBody(s.bodyBuf)
		s.bodyBuf, s.body = nil, nil
	}
}

var errBytesInFlight = llmapi.Refuse(llmapi.CodeBytesInFlight, "The router holds as many bytes of requests as it may; try again shortly.")
