//go:build linux && !portable && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// clientConn is an accepted client connection. Read and Write are for one
// goroutine each, as fasthttp and crypto/tls call them; they make raw system calls
// (see sys_linux.go).
type clientConn struct {
	*net.TCPConn
	exchangeSlot
	l    *listener
	slot int32
	once sync.Once

	rc     syscall.RawConn
	want   atomic.Int64 // requested read deadline, Unix ns; 0 = none
	armed  atomic.Int64 // read deadline that is set on the socket
	closed atomic.Bool  // cut: the connection's deadlines are past for good

	readFn func(fd uintptr) bool
	in     []byte
	inN    int
	inErr  error

	writeFn func(fd uintptr) bool
	out     []byte // remaining input of writeFn
	outErr  error
	blocked bool // a write deadline is set
}

func newClientConn(tc *net.TCPConn, l *listener) (*clientConn, error) {
	rc, err := tc.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &clientConn{TCPConn: tc, l: l, rc: rc}
	c.readFn, c.writeFn = c.tryRead, c.tryWrite
	if c.slot, err = l.w.add(c, rc); err != nil {
		return nil, err
	}
	return c, nil
}

// Read implements io.Reader.
func (c *clientConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		c.in, c.inN, c.inErr = b, 0, nil
		err := c.rc.Read(c.readFn)
		c.in = nil
		if err == nil {
			return c.inN, c.inErr
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.closed.Load() {
			return 0, err
		}
		// The deadline that fired may be an older, earlier one.
		want := c.want.Load()
		if want != 0 && time.Now().UnixNano() >= want {
			return 0, err
		}
		if err := c.arm(want); err != nil {
			return 0, err
		}
	}
}

func (c *clientConn) tryRead(fd uintptr) bool {
	for {
		n, e := sysRead(fd, c.in)
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			return false
		case e != 0:
			c.inErr = e
		case n == 0:
			c.inErr = io.EOF
		default:
			c.inN = n
		}
		return true
	}
}

// SetReadDeadline keeps an earlier deadline that is already set: when it fires, Read
// checks the requested one. fasthttp sets deadlines twice per request, and each
// change of a timer costs more than a Read that wakes too early once a minute.
func (c *clientConn) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.want.Store(0)
		return nil
	}
	n := t.UnixNano()
	c.want.Store(n)
	if a := c.armed.Load(); a != 0 && a <= n {
		return nil
	}
	return c.arm(n)
}

func (c *clientConn) arm(at int64) error {
	c.armed.Store(at)
	t := time.Time{}
	if at != 0 {
		t = time.Unix(0, at)
	}
	err := c.TCPConn.SetReadDeadline(t)
	if c.closed.Load() { // after setting: see cut
		c.TCPConn.SetReadDeadline(past)
	}
	return err
}

// SetDeadline sets both deadlines.
func (c *clientConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Write implements io.Writer. It fails if the client accepts no byte for the
// listener's write timeout.
func (c *clientConn) Write(b []byte) (int, error) {
	c.out, c.outErr = b, nil
	err := c.rc.Write(c.writeFn)
	n := len(b) - len(c.out)
	c.out = nil
	if err == nil {
		err = c.outErr
	}
	if c.blocked {
		c.blocked = false
		c.TCPConn.SetWriteDeadline(time.Time{})
		if c.closed.Load() || c.departed() {
			c.TCPConn.SetWriteDeadline(past)
		}
	}
	return n, err
}

func (c *clientConn) tryWrite(fd uintptr) bool {
	for len(c.out) > 0 {
		n, e := sysWrite(fd, c.out)
		switch e {
		case 0:
			c.out = c.out[n:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			c.blocked = true
			c.TCPConn.SetWriteDeadline(time.Now().Add(c.l.writeTimeout))
			if c.closed.Load() || c.departed() { // after setting: see peerGone
				c.outErr = errClientGone
				return true
			}
			return false
		default:
			c.outErr = e
			return true
		}
	}
	return true
}

// peerGone runs on the watcher's goroutine. It sets deadlines instead of closing,
// because Close waits for a Read or Write in progress.
func (c *clientConn) peerGone() {
	c.depart()
	c.TCPConn.SetWriteDeadline(past)
}

// cut ends every wait on the connection for good. It is safe for concurrent use.
func (c *clientConn) cut() {
	c.closed.Store(true)
	c.TCPConn.SetDeadline(past)
}

// Close implements net.Conn.
func (c *clientConn) Close() error {
	c.once.Do(func() {
		c.l.w.remove(c.slot)
		c.l.forget(c)
	})
	return c.TCPConn.Close() // the kernel drops it from the epoll set
}
