package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// upstream is one address and its pool of idle connections. The pool is a stack:
// the connection used last is the least likely to be closed by the engine.
type upstream struct {
	set  *upstreams
	addr string
	tls  *tls.Config

	mu      sync.Mutex // guards what follows
	conns   []*upConn  // idle, oldest first
	waiting []*upConn  // whose request has no byte of its answer and may move
	lastUse time.Time
	closed  bool
}

type upstreamKey struct {
	addr string
	tls  *tls.Config
}

// upstreams are all engines that were dialled recently.
type upstreams struct {
	w     *watcher
	cfg   *Config
	count *counters

	mu sync.RWMutex // guards m; taken before upstream.mu
	m  map[upstreamKey]*upstream
}

// forget is how long an address without connections is kept.
const forget = time.Minute

func (us *upstreams) get(t *exchange.Target) *upstream {
	k := upstreamKey{t.Addr, t.TLS}
	us.mu.RLock()
	u := us.m[k]
	us.mu.RUnlock()
	if u != nil {
		return u
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	if u = us.m[k]; u == nil {
		u = &upstream{set: us, addr: t.Addr, tls: t.TLS, lastUse: time.Now()}
		us.m[k] = u
	}
	return u
}

func (us *upstreams) idle() (n int) {
	us.mu.RLock()
	defer us.mu.RUnlock()
	for _, u := range us.m {
		u.mu.Lock()
		n += len(u.conns)
		u.mu.Unlock()
	}
	return n
}

// sweep closes connections that were idle too long and removes unused addresses.
func (us *upstreams) sweep(now time.Time) {
	var old []*upConn
	us.mu.Lock()
	for k, u := range us.m {
		u.mu.Lock()
		n := 0
		for n < len(u.conns) && now.Sub(u.conns[n].lastUse) >= us.cfg.IdleTimeout {
			n++
		}
		old = append(old, u.conns[:n]...)
		rest := copy(u.conns, u.conns[n:])
		clear(u.conns[rest:])
		u.conns = u.conns[:rest]
		if rest == 0 && now.Sub(u.lastUse) > forget {
			u.closed = true
			delete(us.m, k)
		}
		u.mu.Unlock()
	}
	us.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// close closes all idle connections; connections that are returned later are closed
// too.
func (us *upstreams) close() {
	us.mu.Lock()
	var old []*upConn
	for k, u := range us.m {
		u.mu.Lock()
		old = append(old, u.conns...)
		u.conns, u.closed = nil, true
		u.mu.Unlock()
		delete(us.m, k)
	}
	us.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// pop returns an idle connection, nil if there is none.
func (u *upstream) pop(now time.Time) *upConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.lastUse = now
	n := len(u.conns)
	if n == 0 {
		return nil
	}
	c := u.conns[n-1]
	u.conns[n-1] = nil
	u.conns = u.conns[:n-1]
	return c
}

// reuse returns a pooled connection that is alive, nil if there is none.
func (u *upstream) reuse(now time.Time) *upConn {
	for {
		c := u.pop(now)
		if c == nil {
			return nil
		}
		if now.Sub(c.lastUse) < u.set.cfg.IdleTimeout && c.tr.alive() {
			c.reused = true
			u.set.count.reuses.Add(1)
			return c
		}
		u.set.count.stale.Add(1)
		c.close()
	}
}

// dial opens a connection. The error is that of ctx if that ended first.
func (u *upstream) dial(ctx context.Context) (*upConn, error) {
	u.set.count.dials.Add(1)
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 10 * time.Second,
		Count: 3}}
	nc, err := d.DialContext(ctx, "tcp", u.addr)
	if err != nil {
		return nil, err
	}
	if u.tls != nil {
		tc := tls.Client(nc, u.tlsConfig())
		if err := tc.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		nc = tc
	}
	c := &upConn{c: nc}
	if c.tr, err = newTransport(c, u.set.w); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (u *upstream) tlsConfig() *tls.Config {
	if u.tls.ServerName != "" || u.tls.InsecureSkipVerify {
		return u.tls
	}
	c := u.tls.Clone()
	c.ServerName, _, _ = net.SplitHostPort(u.addr)
	return c
}

// put returns a connection to the pool. Its last answer must have ended where its
// framing says.
func (u *upstream) put(c *upConn) {
	c.drop()
	c.s = nil
	c.lastUse = time.Now()
	c.tr.idle()
	u.mu.Lock()
	full := u.closed || len(u.conns) >= u.set.cfg.MaxIdlePerEndpoint
	if !full {
		u.conns = append(u.conns, c)
	}
	u.mu.Unlock()
	if full {
		c.close()
	}
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
