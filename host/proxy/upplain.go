package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// plainTransport uses a connection's ordinary Read and Write: for TLS, and for
// systems other than Linux.
type plainTransport struct {
	u     *upConn
	probe [1]byte
	guard chan error // of the goroutine that reads an idle connection

	rc      syscall.RawConn // of the TCP connection; nil if that is not known
	ackedFn func(fd uintptr)
	acked   uint64 // result of ackedFn: bytes that the engine's system has acknowledged
	known   bool   // acked is valid
	before  uint64 // acked as the last request was sent; valid with was
	was     bool
}

func newPlain(u *upConn) *plainTransport {
	t := &plainTransport{u: u}
	t.ackedFn = func(fd uintptr) { t.acked, t.known = sysAcked(fd) }
	c := u.c
	if tc, ok := c.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		c = tc.NetConn()
	}
	if sc, ok := c.(*net.TCPConn); ok {
		t.rc, _ = sc.SyscallConn()
	}
	return t
}

// lookAcked sets acked and known.
func (t *plainTransport) lookAcked() {
	t.known = false
	if t.rc != nil {
		t.rc.Control(t.ackedFn)
	}
}

// unread implements transport; see closedFirst. The bytes of earlier requests were
// acknowledged with their answers.
func (t *plainTransport) unread(err error) bool {
	if !t.was || !closedFirst(err) {
		return false
	}
	t.lookAcked()
	return t.known && t.acked <= t.before
}

// closedFirst reports whether err says that the engine closed the connection in
// order. Its FIN acknowledges all that it had received, so what is not acknowledged then
// came after the close and was read by no one. (A socket that is reset after the FIN
// fails with EPIPE.) A reset without a FIN shows nothing: it may come before the
// acknowledgement of bytes that were read.
func closedFirst(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) }

func (t *plainTransport) release() {
	if t.guard != nil {
		t.u.c.SetReadDeadline(past)
		<-t.guard
		t.guard = nil
	}
}

func (t *plainTransport) send(parts [][]byte, within time.Duration) error {
	t.lookAcked()
	t.before, t.was = t.acked, t.known
	return writeRest(t.u, parts, 0, within)
}

// writeRest writes parts from byte n on, the ordinary way. within bounds the time
// without progress; of a TLS connection, which a timeout breaks for good, the
// whole time.
func writeRest(u *upConn, parts [][]byte, n int, within time.Duration) error {
	rest := net.Buffers(parts)
	for len(rest) > 0 && n >= len(rest[0]) {
		n -= len(rest[0])
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return nil
	}
	rest[0] = rest[0][n:]
	_, resumable := u.c.(*net.TCPConn)
	for {
		u.c.SetWriteDeadline(time.Now().Add(within))
		if err := u.halted(); err != nil { // after setting: see stream.stop
			return err
		}
		n, err := rest.WriteTo(u.c)
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		ejected := u.ejected.Load()
		if err := u.halted(); err != nil {
			return err
		}
		if n == 0 && !ejected || !resumable {
			return errSendTimeout
		}
	}
}

// read reads once into the buffer.
func (t *plainTransport) read() error {
	for {
		n, err := t.u.c.Read(t.u.room())
		t.u.w += n
		if n > 0 {
			return nil // an error comes again
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := t.u.expired(); err != nil {
			return err
		}
	}
}

func (t *plainTransport) fill() error {
	if err := t.u.take(); err != nil {
		return err
	}
	return t.read()
}

func (t *plainTransport) pump() error {
	u, s := t.u, t.u.s
	for {
		if err := u.take(); err != nil {
			return err
		}
		s.touch()
		if s.stopped() {
			return errClientGone
		}
		if err := t.read(); err != nil {
			return err
		}
		if s.flush() {
			return nil
		}
	}
}

// idle starts a read that ends when the engine closes the connection or sends
// unexpected bytes; alive ends it.
func (t *plainTransport) idle() {
	t.u.setRead(time.Time{})
	t.guard = make(chan error, 1)
	go func(c net.Conn, guard chan<- error) {
		n, err := c.Read(t.probe[:])
		if n > 0 || err == nil {
			err = io.ErrNoProgress
		}
		guard <- err
	}(t.u.c, t.guard)
}

func (t *plainTransport) alive() bool {
	t.u.setRead(past)
	err := <-t.guard
	t.guard = nil
	t.u.setRead(time.Time{})
	return errors.Is(err, os.ErrDeadlineExceeded)
}
