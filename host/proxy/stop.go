package proxy

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// stopReason is why a stream was stopped from outside.
type stopReason = uint32

const (
	stopNone stopReason = iota
	stopGone            // the client left
	stopCut             // the drain is over
)

// interrupt is how a stream is stopped from outside. It holds what a stop reaches:
// every wait of the stream.
type interrupt struct {
	why    atomic.Uint32 // a stopReason
	mu     sync.Mutex    // guards what stop reaches; taken after exchangeSlot.mu
	up     *upConn       // written by the driving goroutine only, which reads it without mu
	cancel context.CancelFunc
	gone   chan struct{} // made on demand, closed by stop
}

// stop ends every wait of the stream. It runs on other goroutines, while the
// stream is tied to its client connection, and sets deadlines instead of closing:
// Close waits for a Read or Write in progress. Code that sets a deadline on the
// engine's connection must check stopped after it.
func (i *interrupt) stop(why stopReason) {
	i.why.CompareAndSwap(stopNone, why)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.up != nil {
		i.up.c.SetDeadline(past)
	}
	if i.cancel != nil {
		i.cancel()
	}
	if i.gone != nil {
		select {
		case <-i.gone:
		default:
			close(i.gone)
		}
	}
}

func (i *interrupt) stopped() bool { return i.why.Load() != stopNone }

// stopEnd returns the end that a stop means, EndUnset while none came.
func (i *interrupt) stopEnd() exchange.End {
	switch i.why.Load() {
	case stopGone:
		return exchange.EndClientGone
	case stopCut:
		return exchange.EndShutdown
	}
	return exchange.EndUnset
}

// goneChan returns a channel that is closed at the stop.
func (i *interrupt) goneChan() <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.gone == nil {
		i.gone = make(chan struct{})
		if i.stopped() {
			close(i.gone)
		}
	}
	return i.gone
}

// attach puts c within reach of stop. It returns nil if the stop has come.
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

// dialing puts the cancelling of a dial within reach of stop, or takes it out with
// nil. It returns false if the stop has come.
func (i *interrupt) dialing(cancel context.CancelFunc) bool {
	i.mu.Lock()
	i.cancel = cancel
	i.mu.Unlock()
	return !i.stopped()
}

// detach ends the reach of stop and returns the connection, which is the caller's
// alone.
func (i *interrupt) detach() *upConn {
	i.mu.Lock()
	c := i.up
	i.up = nil
	i.mu.Unlock()
	return c
}

// release closes the connection of an attempt that failed.
func (s *stream) release() {
	if c := s.detach(); c != nil {
		s.out.u.answered(c)
		c.close()
	}
}
