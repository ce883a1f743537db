package proxy

import (
	"errors"
	"net"

	"github.com/valyala/fasthttp"
)

// errEjected ends a wait for an engine whose health check failed: the request's
// placement has moved to another one.
var errEjected = errors.New("proxy: engine was ejected")

// Eject notifies the requests that wait at addr for the first byte of their answer that
// the engine's health check fails: it is stopped or unreachable, not merely slow. Each
// moves to another endpoint, once, if there is one that can take it; the others wait on.
// It returns the number of these requests. While the check fails it is called again and again, so
// that a request which was sent meanwhile is notified as well.
//
// It is safe for concurrent use and does not block.
func (p *Proxy) Eject(addr string) (n int) {
	for _, u := range p.upstreams.at(addr) {
		u.mu.Lock()
		for _, c := range u.waiting {
			c.ejected.Store(true)
			c.c.SetDeadline(past) // the goroutine that waits looks why: see upConn.halted
		}
		n += len(u.waiting)
		u.mu.Unlock()
	}
	return n
}

// at returns the upstreams of an address, with every TLS configuration.
func (us *upstreams) at(addr string) (out []*upstream) {
	us.mu.RLock()
	defer us.mu.RUnlock()
	for k, u := range us.m {
		if k.addr == addr {
			out = append(out, u)
		}
	}
	return out
}

// await lists a connection whose request is without a byte of its answer.
func (u *upstream) await(c *upConn) {
	u.mu.Lock()
	u.waiting = append(u.waiting, c)
	c.waiting = len(u.waiting)
	u.mu.Unlock()
}

// answered takes a connection off the list; Eject does not reach it any longer. It
// does nothing if the connection is not listed.
func (u *upstream) answered(c *upConn) {
	u.mu.Lock()
	if i := c.waiting; i > 0 {
		last := len(u.waiting) - 1
		u.waiting[i-1] = u.waiting[last]
		u.waiting[i-1].waiting = i
		u.waiting[last] = nil
		u.waiting = u.waiting[:last]
		c.waiting = 0
	}
	u.mu.Unlock()
	c.ejected.Store(false)
}

// moveEjected moves the placement of a request whose engine was ejected. It returns
// false, and the request waits on, if no other endpoint can take it, if the client has
// a byte of the body, or if the request's allowance is used up. A move draws on no
// budget: what the engine had to compute is lost, so that it loads the fleet only once.
func (s *stream) moveEjected() bool {
	o, r := &s.out, &s.resp
	if !s.mayMove() || r.phase != phaseWaiting || s.client.sent > 0 {
		return false
	}
	if o.begun && (!r.events() || r.size() >= 0) {
		return false // the client's head has the length of this answer
	}
	if !s.pl.Next(0) {
		return false
	}
	o.moved = true
	return true
}

// abandonEjected closes the connection to an ejected engine, before the request is
// sent to another: with a reset, so that an engine that runs again does not even read
// a request which still is in its socket.
func (s *stream) abandonEjected() {
	s.retried(retryEjected)
	if c := s.up; c != nil {
		if tc, ok := c.c.(*net.TCPConn); ok {
			tc.SetLinger(0)
		}
	}
	s.release()
}

// again sends a request whose client has the head of a stream to the engine that the
// placement has moved to. It returns false if the stream is over; the client was then
// notified by an event.
func (s *stream) again() bool {
	s.abandonEjected()
	s.resp.reset()
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	if err := s.roundTrip(resp); err != nil {
		s.endFailed(endOf(err))
		return false
	}
	return s.streams(resp)
}
