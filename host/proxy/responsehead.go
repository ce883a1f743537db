package proxy

import (
	"bufio"
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// headReader is scratch memory to parse the head of an answer.
type headReader struct {
	src bytes.Reader
	buf *bufio.Reader
}

// maxInterim bounds the interim (1xx) answers before the real one.
const maxInterim = 8

var errInterim = errors.New("proxy: too many interim answers")

// readHead reads the head of the answer into resp and prepares s.resp for the body.
func (s *stream) readHead(resp *fasthttp.Response, c *upConn) error {
	h := &resp.Header
	s.out.interim = false
	for range maxInterim {
		head, err := c.head()
		if err != nil {
			return err
		}
		found := inspectHead(head)
		if err := s.p.parseHead(h, head); err != nil {
			return err
		}
		if found.disclosing {
			stripDisclosing(h, head)
		}
		c.skip(len(head))
		switch code := h.StatusCode(); {
		case code == 101:
			return errInterim // no protocol change was requested
		case code < 200:
			s.out.interim = true
			continue
		}
		s.beginBody(h, found)
		return nil
	}
	return errInterim
}

// beginBody prepares for the body of an answer with head h, from which it takes
// the fields of the engine's hop.
func (s *stream) beginBody(h *fasthttp.ResponseHeader, found headFields) {
	r, ok := &s.resp, h.StatusCode() == fasthttp.StatusOK
	r.begin(h.ContentLength())
	r.reusable = r.reusable && !h.ConnectionClose() && !found.ambiguous
	h.ResetConnectionClose()
	if found.hop {
		stripHop(h)
	}
	h.SetNoDefaultContentType(true)
	r.format = llmapi.StreamNone
	if isEventStream(h.ContentType()) {
		r.format = max(s.req.API.Op.StreamFormat(), llmapi.StreamChunks)
	}
	if !r.events() || !ok {
		r.usageOwner = usageOfClient
	}
	r.id.wanted = s.req.API.Op.Stored() && !s.req.API.NoStore && ok
}

// parseHead reads head into h. The scratch memory belongs to the proxy.
func (p *Proxy) parseHead(h *fasthttp.ResponseHeader, head []byte) error {
	r, _ := p.headReaders.Get().(*headReader)
	if r == nil {
		r = &headReader{buf: bufio.NewReaderSize(nil, bufSize)}
	}
	r.src.Reset(head)
	r.buf.Reset(&r.src)
	h.Reset()
	err := h.Read(r.buf)
	r.src.Reset(nil)
	p.headReaders.Put(r)
	if err == nil {
		return nil
	}
	return errMalformedHead
}

var errMalformedHead = errors.New("proxy: malformed response head")

// headFields is what inspectHead found in the head of an answer.
type headFields struct {
	hop        bool // fields of the engine's hop
	ambiguous  bool // Content-Length together with Transfer-Encoding
	disclosing bool // fields that disclose the engine
}

// inspectHead looks for fields that must not be passed on. Most heads have none.
func inspectHead(head []byte) (f headFields) {
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
		f.disclosing = f.disclosing || disclosing(name)
		switch {
		case fold(name, "content-length"):
			length = true
		case fold(name, "transfer-encoding"):
			coding = true
		case fold(name, "connection"), fold(name, "keep-alive"), fold(name, "proxy-connection"),
			fold(name, "te"), fold(name, "trailer"), fold(name, "upgrade"),
			fold(name, "proxy-authenticate"):
			f.hop = true
		}
	}
}

var colon = []byte(":")

// fold reports whether name equals low, which is in lower case, in any case.
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
