//go:build linux && !portable && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// newTransport returns the transport of a plain TCP connection.
func newTransport(u *upConn, w *watcher) (transport, error) {
	tc, ok := u.c.(*net.TCPConn)
	if !ok {
		return newPlain(u), nil
	}
	rc, err := tc.SyscallConn()
	if err != nil {
		return nil, err
	}
	t := &rawTransport{u: u, rc: rc, w: w}
	t.sendFn, t.fillFn, t.pumpFn = t.trySend, t.tryFill, t.tryPump
	t.aliveFn = func(fd uintptr) { t.quiet = sysPeek(fd) == syscall.EAGAIN }
	if t.slot, err = w.add(t, rc); err != nil {
		return nil, err
	}
	return t, nil
}

// rawTransport reads and writes inside readiness callbacks of the netpoller.
//
// The netpoller is edge-triggered, which saves two reads that would only return
// EAGAIN: one after the request was written (the edge of its answer comes later)
// and one after each read that did not fill the buffer (the next bytes make
// an edge). A close that came together with the last bytes makes no further edge,
// so the connection is in the watcher's set too.
type rawTransport struct {
	u    *upConn
	rc   syscall.RawConn
	w    *watcher
	slot int32
	hup  atomic.Bool // the engine closed or reset: reads no longer block

	sendFn, fillFn, pumpFn func(fd uintptr) bool
	aliveFn                func(fd uintptr)

	iov   []syscall.Iovec
	total uint64 // bytes of all requests on the connection
	last  uint64 // of these, of the last request
	sent  bool
	wrote int
	wErr  error
	n     int   // bytes that fillFn read; -1 from sendFn: not all was written
	err   error // of the read
	quiet bool  // there is nothing to read
}

// peerGone runs on the watcher's goroutine.
func (t *rawTransport) peerGone() {
	t.hup.Store(true)
	t.u.c.SetReadDeadline(past) // wakes a waiting read: see wait
}

func (t *rawTransport) release() { t.w.remove(t.slot) }

// wait runs f until it returns true. A deadline that fired is not always an error:
// it may be an old one, and a close by the engine sets one too, while bytes that it
// sent before can still be read.
func (t *rawTransport) wait(f func(fd uintptr) bool) error {
	for {
		err := t.rc.Read(f)
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if !t.hup.Load() {
			if err := t.u.expired(); err != nil {
				return err
			}
		}
		if t.hup.Load() {
			if t.u.s.stopped() {
				return errClientGone
			}
			t.u.setRead(time.Time{})
		}
	}
}

func (t *rawTransport) send(parts [][]byte, within time.Duration) error {
	t.iov = t.iov[:0]
	for _, p := range parts {
		if len(p) > 0 {
			v := syscall.Iovec{Base: &p[0]}
			v.SetLen(len(p))
			t.iov = append(t.iov, v)
		}
	}
	t.sent, t.wrote, t.wErr, t.n, t.err = false, total(parts), nil, 0, nil
	t.last = uint64(t.wrote)
	t.total += t.last
	err := t.wait(t.sendFn)
	clear(t.iov)
	switch {
	case err != nil:
		return err
	case t.n >= 0: // an answer, or the end of the connection
		t.u.w += t.n
		return t.err
	case t.wErr != nil:
		return t.wErr
	}
	return writeRest(t.u, parts, t.wrote, within)
}

// trySend writes, then waits for the answer.
func (t *rawTransport) trySend(fd uintptr) bool {
	if t.sent {
		return t.tryFill(fd)
	}
	t.sent = true
	n, e := sysWritev(fd, t.iov)
	if e == 0 && n == t.wrote {
		return t.hup.Load() && t.tryFill(fd)
	}
	if e != 0 && e != syscall.EAGAIN && e != syscall.EINTR {
		t.wErr = e
	}
	t.wrote, t.n = n, -1
	return true
}

func (t *rawTransport) fill() error {
	if err := t.u.take(); err != nil {
		return err
	}
	t.n, t.err = 0, nil
	if err := t.wait(t.fillFn); err != nil {
		return err
	}
	t.u.w += t.n
	return t.err
}

func (t *rawTransport) tryFill(fd uintptr) bool {
	u := t.u
	if u.buf == nil {
		u.take() // an empty one always fits
	}
	for {
		n, e := sysRead(fd, u.room())
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			if u.r == u.w {
				u.drop() // no buffer is held while waiting
			}
			return false
		case e != 0:
			t.n, t.err = 0, e
		case n == 0:
			t.n, t.err = 0, io.EOF
		default:
			t.n, t.err = n, nil
		}
		return true
	}
}

func (t *rawTransport) pump() error {
	t.err = nil
	if err := t.wait(t.pumpFn); err != nil {
		return err
	}
	return t.err
}

// tryPump reads until the socket is empty or the buffer full, passes all of that on
// as one write, and waits. So a single token is sent at once, and those of a fast
// engine are coalesced.
func (t *rawTransport) tryPump(fd uintptr) bool {
	u, s := t.u, t.u.s
	for {
		if u.buf == nil {
			u.take()
		}
		if len(u.room()) == 0 {
			if s.flush() {
				return true
			}
			continue
		}
		room := len(u.room())
		n, e := sysRead(fd, u.room())
		switch {
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			if s.flush() {
				return true
			}
		case e != 0 || n == 0:
			if s.flush() {
				return true
			}
			if t.err = io.EOF; e != 0 {
				t.err = e
			}
			return true
		default:
			u.w += n
			if n == room || t.hup.Load() {
				continue
			}
			if s.flush() {
				return true
			}
		}
		// The socket is empty.
		u.drop()
		s.touch()
		switch {
		case s.stopped():
			t.err = errClientGone
			return true
		case !t.hup.Load():
			return false
		}
	}
}

// idle implements transport: nothing to do, the watcher sees a close.
func (t *rawTransport) idle() {}

// alive peeks: a connection with anything to read (FIN, RST, unexpected bytes) cannot
// carry a request.
func (t *rawTransport) alive() bool {
	t.quiet = false
	return !t.hup.Load() && t.rc.Control(t.aliveFn) == nil && t.quiet
}

// unread implements transport; see closedFirst.
func (t *rawTransport) unread(err error) (yes bool) {
	if !closedFirst(err) {
		return false
	}
	t.rc.Control(func(fd uintptr) {
		n, ok := sysAcked(fd)
		yes = ok && n <= 1+t.total-t.last // the SYN, and earlier requests
	})
	return yes
}
