package kvevents

import (
	"context"
	"net"
	"sync"
)

// runListen waits for the engine to connect and follows its newest connection.
func (s *Subscriber) runListen(ctx context.Context, sink Sink) error {
	network, addr, err := parseAddr(s.cfg.Listen)
	if err != nil {
		return err
	}
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	ln, err := lc.Listen(ctx, network, addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.bound = ln.Addr()
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	conns := make(chan *conn)
	var wg sync.WaitGroup
	wg.Go(func() { s.accept(ctx, ln, conns) })
	defer func() {
		cancel()
		ln.Close()
		wg.Wait()
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.wake:
			s.handleCommand(sink)
		case k := <-conns:
			err := s.session(ctx, k, sink)
			s.cfg.Log.Debug("cache events disconnected", "endpoint", addr, "err", err)
		}
	}
}

// Addr returns the address that a listening Subscriber is bound to, nil before
// that. Safe for concurrent use.
func (s *Subscriber) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// accept completes the handshake of one peer at a time. A publisher replaces the
// previous one. A peer that does not complete its handshake changes nothing.
func (s *Subscriber) accept(ctx context.Context, ln net.Listener, out chan<- *conn) {
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	var prev *conn
	for {
		c, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			s.note(func(st *Stats) { st.DialErrors++ })
			if !sleep(ctx, s.cfg.BackoffMin) {
				return
			}
			continue
		}
		release := closeWith(ctx, c)
		k, err := handshake(c, "SUB", pubTypes, s.cfg.MaxMessageBytes, s.cfg.DialTimeout)
		release()
		if err != nil {
			c.Close()
			s.note(func(st *Stats) { st.DialErrors++ })
			continue
		}
		if prev != nil {
			prev.c.Close()
		}
		prev = k
		select {
		case out <- k:
		case <-ctx.Done():
			c.Close()
			return
		}
	}
}
