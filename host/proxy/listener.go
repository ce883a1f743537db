package proxy

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// past is a deadline that wakes waiting goroutines at once.
var past = time.Unix(1, 0)

var errClientGone = errors.New("proxy: client gone")

// exchangeSlot ties a client connection to the request in progress on it.
type exchangeSlot struct {
	gone atomic.Bool
	mu   sync.Mutex // guards cur; taken before stream.mu
	cur  *stream    // stopped when the peer leaves
}

// begin ties s to the connection. It returns false if the peer has gone.
func (e *exchangeSlot) begin(s *stream) bool {
	e.mu.Lock()
	e.cur = s
	e.mu.Unlock()
	return !e.gone.Load()
}

// end unties the stream. After it no stop of the stream runs.
func (e *exchangeSlot) end() {
	e.mu.Lock()
	e.cur = nil
	e.mu.Unlock()
}

// depart records that the peer has gone and stops the exchange in progress.
func (e *exchangeSlot) depart() {
	e.gone.Store(true)
	e.stop(stopGone)
}

func (e *exchangeSlot) stop(why stopReason) {
	e.mu.Lock()
	if e.cur != nil {
		e.cur.stop(why)
	}
	e.mu.Unlock()
}

func (e *exchangeSlot) departed() bool { return e.gone.Load() }

// listener accepts watched connections and tracks those that are open.
type listener struct {
	net.Listener
	w            *watcher
	writeTimeout time.Duration
	done         chan struct{} // closed by Close

	mu    sync.Mutex // guards what follows
	open  map[*clientConn]struct{}
	ended bool
}

func newListener(ln net.Listener, w *watcher, cfg *Config) *listener {
	return &listener{Listener: ln, w: w, writeTimeout: cfg.ClientWriteTimeout,
		done: make(chan struct{}), open: map[*clientConn]struct{}{}}
}

// Accept waits for the next connection. It waits while
// descriptors or memory are short, which ends when requests end; fasthttp would stop
// serving.
func (l *listener) Accept() (net.Conn, error) {
	wait := 5 * time.Millisecond
	for {
		nc, err := l.Listener.Accept()
		switch {
		case err == nil:
			if c, err := l.wrap(nc); err == nil {
				return c, nil
			}
			nc.Close()
		case isShortage(err):
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-l.done:
				t.Stop()
			}
			wait = min(2*wait, time.Second)
		default:
			return nil, err
		}
	}
}

func isShortage(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM,
		syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (l *listener) wrap(nc net.Conn) (*clientConn, error) {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil, errors.New("proxy: not a TCP connection")
	}
	// A client that vanished is detected in about a minute.
	tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second, Count: 3})
	c, err := newClientConn(tc, l)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.open[c] = struct{}{}
	l.mu.Unlock()
	return c, nil
}

func (l *listener) forget(c *clientConn) {
	l.mu.Lock()
	delete(l.open, c)
	l.mu.Unlock()
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.mu.Lock()
	first := !l.ended
	l.ended = true
	l.mu.Unlock()
	if first {
		close(l.done)
	}
	return l.Listener.Close()
}

// conns returns the connections that are open.
func (l *listener) conns() []*clientConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	cs := make([]*clientConn, 0, len(l.open))
	for c := range l.open {
		cs = append(cs, c)
	}
	return cs
}

// watched returns the accepted connection that c is or wraps, nil if there is none.
func watched(c net.Conn) *clientConn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok { // *tls.Conn
		c = t.NetConn()
	}
	w, _ := c.(*clientConn)
	return w
}
