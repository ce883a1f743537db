package proxy

import (
	"context"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// Why a stream was stopped from outside.
const (
	stopGone uint32 = iota + 1 // the client left
	stopCut                    // the drain is over
)

// stop ends every wait of the stream. It runs on other goroutines, while the
// stream is tied to its client connection, and sets deadlines instead of closing:
// Close waits for whoever is inside a Read or Write. Who sets a deadline on the
// engine's connection looks at stopped after it.
func (s *stream) stop(why uint32) {
	s.why.CompareAndSwap(0, why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up != nil {
		s.up.c.SetDeadline(past)
	}
	if s.cancel != nil {
		s.cancel()
	}
	if s.gone != nil {
		select {
		case <-s.gone:
		default:
			close(s.gone)
		}
	}
}

func (s *stream) stopped() bool { return s.why.Load() != 0 }

// stopEnd is the end that a stop means, EndUnset while none came.
func (s *stream) stopEnd() exchange.End {
	switch s.why.Load() {
	case stopGone:
		return exchange.EndClientGone
	case stopCut:
		return exchange.EndShutdown
	}
	return exchange.EndUnset
}

func (s *stream) goneChan() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone == nil {
		s.gone = make(chan struct{})
		if s.stopped() {
			close(s.gone)
		}
	}
	return s.gone
}

// attach puts c within reach of stop; nil if that has come.
func (s *stream) attach(c *upConn) *upConn {
	c.s = s
	s.mu.Lock()
	s.up = c
	s.mu.Unlock()
	if s.stopped() {
		return nil
	}
	return c
}

// dialing puts the cancelling of a dial within reach of stop (nil: out of it);
// false if that has come.
func (s *stream) dialing(cancel context.CancelFunc) bool {
	s.mu.Lock()
	s.cancel = cancel
	s.mu.Unlock()
	return !s.stopped()
}

// detach ends stop's reach: afterwards the connection is the caller's alone.
func (s *stream) detach() *upConn {
	s.mu.Lock()
	c := s.up
	s.up = nil
	s.mu.Unlock()
	return c
}

// release closes the connection of an attempt that failed.
func (s *stream) release() {
	if c := s.detach(); c != nil {
		c.close()
	}
}
