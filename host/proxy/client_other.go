//go:build !linux || portable || !(amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// watcher does nothing on systems other than Linux: there a client is watched by
// reading ahead while its request is in progress, as net/http does.
type watcher struct{ done chan struct{} }

func newWatcher() (*watcher, error) { return &watcher{done: make(chan struct{})}, nil }

func (w *watcher) run()   { <-w.done }
func (w *watcher) close() { close(w.done) }

// maxAhead bounds what is read ahead: the closing alert of TLS, and small pipelined
// requests.
const maxAhead = 512

// clientConn is an accepted client connection. Read and Write are for one
// goroutine each. A client that pipelines more than maxAhead bytes is not watched
// until they are read.
type clientConn struct {
	*net.TCPConn
	exchangeSlot
	l      *listener
	once   sync.Once
	closed atomic.Bool

	// Used by the goroutine that reads requests, and by the watching one between
	// begin and end.
	readBy   time.Time
	ahead    [maxAhead]byte
	aheadR   int // ahead[aheadR:aheadW] waits to be read
	aheadW   int
	aheadErr error
	idle     chan struct{} // closed when the watching goroutine has ended; nil = none runs

	writeBy time.Time
}

func newClientConn(tc *net.TCPConn, l *listener) (*clientConn, error) {
	return &clientConn{TCPConn: tc, l: l}, nil
}

// begin ties s to the connection and watches it. It returns false if the peer has
// gone.
func (c *clientConn) begin(s *stream) bool {
	if !c.exchangeSlot.begin(s) {
		return false
	}
	if c.aheadErr != nil {
		return true
	}
	c.TCPConn.SetReadDeadline(time.Time{})
	c.idle = make(chan struct{})
	go c.watch(c.idle)
	return true
}

func (c *clientConn) watch(idle chan struct{}) {
	defer close(idle)
	for c.aheadW < len(c.ahead) {
		n, err := c.TCPConn.Read(c.ahead[c.aheadW:])
		c.aheadW += n
		if os.IsTimeout(err) {
			return
		}
		if err != nil {
			c.aheadErr = err
			c.depart()
			c.TCPConn.SetWriteDeadline(past)
			return
		}
	}
}

// end returns when no other goroutine will use the stream.
func (c *clientConn) end() {
	c.exchangeSlot.end()
	if c.idle == nil {
		return
	}
	c.TCPConn.SetReadDeadline(past)
	<-c.idle
	c.idle = nil
	c.TCPConn.SetReadDeadline(c.readBy)
	if c.closed.Load() {
		c.TCPConn.SetDeadline(past)
	}
}

// Read implements io.Reader.
func (c *clientConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if c.aheadR < c.aheadW {
		n := copy(b, c.ahead[c.aheadR:c.aheadW])
		if c.aheadR += n; c.aheadR == c.aheadW {
			c.aheadR, c.aheadW = 0, 0
		}
		return n, nil
	}
	if c.aheadErr != nil {
		return 0, c.aheadErr
	}
	return c.TCPConn.Read(b)
}

// SetReadDeadline implements net.Conn.
func (c *clientConn) SetReadDeadline(t time.Time) error {
	c.readBy = t
	err := c.TCPConn.SetReadDeadline(t)
	if c.closed.Load() {
		c.TCPConn.SetReadDeadline(past)
	}
	return err
}

// SetDeadline implements net.Conn.
func (c *clientConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Write implements io.Writer. It fails if the client accepts no byte for the
// listener's write timeout.
func (c *clientConn) Write(b []byte) (int, error) {
	sent := 0
	for {
		if now := time.Now(); c.writeBy.Sub(now) < c.l.writeTimeout/2 {
			c.writeBy = now.Add(c.l.writeTimeout)
			c.TCPConn.SetWriteDeadline(c.writeBy)
			if c.closed.Load() || c.departed() { // after setting: see watch
				c.TCPConn.SetWriteDeadline(past)
			}
		}
		n, err := c.TCPConn.Write(b[sent:])
		sent += n
		if err == nil || n == 0 || !os.IsTimeout(err) || c.closed.Load() || c.departed() {
			return sent, err
		}
		c.writeBy = time.Time{} // it accepted some bytes: continue
	}
}

// cut ends every wait on the connection for good. It is safe for concurrent use.
func (c *clientConn) cut() {
	c.closed.Store(true)
	c.TCPConn.SetDeadline(past)
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	c.once.Do(func() { c.l.forget(c) })
	return c.TCPConn.Close()
}
