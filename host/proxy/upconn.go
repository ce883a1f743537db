package proxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	bufSize  = 16 << 10 // of an engine's answer read at once; also the limit of its head
	headRoom = 8        // before the data: for the client's chunk head
	tailRoom = 2        // behind them: for its CRLF
)

var bufPool = sync.Pool{New: func() any { b := make([]byte, bufSize); return &b }}

var (
	errHeadTooLarge = errors.New("proxy: engine's response head too large")
	errTimeout      = errors.New("proxy: engine deadline exceeded")
	errSendTimeout  = errors.New("proxy: engine took the request too slowly")
	crlf2           = []byte("\r\n\r\n")
)

// transport moves bytes between an upConn and its socket. It is driven by the
// goroutine that drives the upConn.
type transport interface {
	// send writes all parts. When it returns nil, answer bytes may have been
	// read on the way. A reset of the connection is not always an error: an
	// engine that refuses early has written its reason.
	send(parts [][]byte, within time.Duration) error
	// fill appends at least one byte of the answer to the buffer, or fails.
	fill() error
	// pump moves the body of an answer: it calls stream.flush with all that comes,
	// until that returns true (nil) or reading fails.
	pump() error
	// idle is called when the connection enters the pool, alive when it leaves it;
	// alive reports whether it can carry another request.
	idle()
	alive() bool
	// unread reports whether it is certain that the engine read no byte of the last
	// request, which failed with err; false if that is not known.
	unread(err error) bool
	release()
}

// upConn is one connection to an engine. One goroutine drives it; only stop of its
// stream runs on others. While it waits for bytes it holds no buffer.
type upConn struct {
	c       net.Conn
	tr      transport
	lastUse time.Time
	reused  bool
	closed  bool

	buf  *[]byte // from bufPool; nil = nothing is buffered
	r, w int     // data are buf[r:w]

	ejected atomic.Bool // set by Proxy.Eject; the goroutine that drives the connection resets it
	waiting int         // place in upstream.waiting, from 1; 0 = none; guarded by upstream.mu

	by    time.Time // deadline of reads; zero = none
	armed time.Time // deadline that is set on the socket: never later than by when a read begins
	s     *stream   // whose answer is read
}

// arm makes reads fail at u.by or before; expired handles those that fail before.
// Streams move their deadline with each event, and each change of a timer costs more
// than one early wake-up per limit.
func (u *upConn) arm() {
	if !u.armed.IsZero() && !u.armed.After(u.by) {
		return
	}
	u.setRead(u.by)
}

func (u *upConn) setRead(t time.Time) {
	u.armed = t
	u.c.SetReadDeadline(t)
}

// expired is called when a read deadline fired. It returns nil if the read goes on.
func (u *upConn) expired() error {
	if err := u.halted(); err != nil {
		return err
	}
	if !u.by.IsZero() && !time.Now().Before(u.by) {
		return errTimeout
	}
	u.setRead(u.by)
	return u.halted() // after setting: see stream.stop
}

// halted returns why the stream must not wait for this engine any longer, nil if it
// goes on: the client has left, or the request has moved to another engine.
func (u *upConn) halted() error {
	switch {
	case u.s.stopped():
		return errClientGone
	case u.ejected.Load() && u.ejected.Swap(false) && u.s.moveEjected():
		return errEjected
	}
	return nil
}

func (u *upConn) close() {
	if u.closed {
		return
	}
	u.closed = true
	u.drop()
	u.tr.release()
	u.c.Close()
}

// take makes sure that there is a buffer with room.
func (u *upConn) take() error {
	switch {
	case u.buf == nil:
		u.buf = bufPool.Get().(*[]byte)
		u.r, u.w = headRoom, headRoom
	case u.r == u.w:
		u.r, u.w = headRoom, headRoom
	case u.w == len(*u.buf)-tailRoom:
		if u.r == headRoom {
			return errHeadTooLarge
		}
		u.w = headRoom + copy((*u.buf)[headRoom:], (*u.buf)[u.r:u.w])
		u.r = headRoom
	}
	return nil
}

// room is where the next bytes go.
func (u *upConn) room() []byte { return (*u.buf)[u.w : len(*u.buf)-tailRoom] }

// drop returns the buffer to the pool and discards its contents.
func (u *upConn) drop() {
	if u.buf != nil {
		bufPool.Put(u.buf)
		u.buf = nil
		u.r, u.w = 0, 0
	}
}

func (u *upConn) data() []byte {
	if u.buf == nil {
		return nil
	}
	return (*u.buf)[u.r:u.w]
}

func (u *upConn) skip(n int) {
	if u.r += n; u.r == u.w {
		u.drop()
	}
}

// head returns the whole head of a response, which stays in the buffer.
func (u *upConn) head() ([]byte, error) {
	from := 0
	for {
		if d := u.data(); len(d) > from {
			at := max(0, from-3)
			if i := bytes.Index(d[at:], crlf2); i >= 0 {
				return d[:at+i+len(crlf2)], nil
			}
			from = len(d)
		}
		if err := u.tr.fill(); err != nil {
			return nil, err
		}
	}
}

// isBroken reports whether err is that of a connection closed by its other end.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// total is the number of bytes in parts.
func total(parts [][]byte) (n int) {
	for _, p := range parts {
		n += len(p)
	}
	return n
}
