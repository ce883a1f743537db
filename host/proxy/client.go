package proxy

import (
	"io"
	"net"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/identity"
)

// client is the client's side of a stream: its connection, what it sent, and
// where the answer goes. Only the goroutine that drives the stream uses it.
type client struct {
	conn    net.Conn
	watched *clientConn // the same connection; nil if it is none of the listener's

	header *fasthttp.RequestHeader
	fields fields
	cred   identity.Credentials
	id     []byte // of the request

	body    []byte // prefix of *bodyBuf; nil once the engine has it
	bodyBuf *[]byte

	w       io.Writer // fasthttp's; each Write is one chunk
	direct  io.Writer // the connection, for chunks without a copy; nil = use w
	sent    int64     // bytes of the answer's body that were written
	sendErr error     // of a write: the client does not take the answer
}

// open ties the side to the connection of ctx.
func (c *client) open(conn net.Conn) {
	c.conn, c.watched = conn, watched(conn)
}

// goDirect lets chunks go to the connection without a copy, if that is plain TCP.
func (c *client) goDirect() {
	c.direct = nil
	if c.watched != nil && c.conn == net.Conn(c.watched) {
		c.direct = c.watched
	}
}

// setID gives the request its id: the one the client sent, if it is well-formed.
func (c *client) setID() {
	c.id = c.id[:0]
	if id := c.fields.one[kindRequestID]; validID(id) {
		c.id = append(c.id, id...)
		return
	}
	c.id = appendID(c.id)
}

// put writes a piece of the body through fasthttp, which sends the response head
// with the first one. It returns false if the client does not take it.
func (c *client) put(b []byte) bool {
	n, err := c.w.Write(b)
	c.sent += int64(n)
	c.sendErr = err
	return err == nil
}

// putDirect writes buf[from:end] as one chunk without a copy. The chunk's head goes
// into the headRoom bytes before from, its CRLF over the two bytes at end, which
// are restored.
func (c *client) putDirect(buf []byte, from, end int) bool {
	const hex = "0123456789abcdef"
	i := from - 1
	buf[i], buf[i-1] = '\n', '\r'
	i -= 2
	for n := end - from; ; i-- {
		buf[i] = hex[n&15]
		if n >>= 4; n == 0 {
			break
		}
	}
	a, z := buf[end], buf[end+1]
	buf[end], buf[end+1] = '\r', '\n'
	_, err := c.direct.Write(buf[i : end+2])
	buf[end], buf[end+1] = a, z
	if c.sendErr = err; err == nil {
		c.sent += int64(end - from)
	}
	return err == nil
}

// reset drops what belongs to a request and keeps scratch memory.
func (c *client) reset() {
	clear(c.fields.all)
	*c = client{fields: fields{all: c.fields.all[:0]}, id: c.id[:0]}
}
