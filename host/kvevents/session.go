package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"time"
)

// session subscribes on a new connection, replays history, and follows the live
// stream until the connection or ctx ends. It closes the connection.
func (s *Subscriber) session(ctx context.Context, k *conn, sink Sink) error {
	defer k.c.Close()
	defer closeWith(ctx, k.c)()
	s.mu.Lock()
	s.cur = k.c
	s.st.Connects++
	s.st.Connected, s.st.Since = true, time.Now()
	s.mu.Unlock()
	defer s.note(func(st *Stats) {
		s.cur = nil
		st.Disconnects++
		st.Connected, st.Joined, st.Since = false, false, time.Now()
	})
	if err := k.subscribe(s.cfg.Topic); err != nil {
		return err
	}
	s.replayed = 0
	s.handleCommand(sink)
	if err := s.join(ctx, sink); err != nil {
		return err
	}
	return s.follow(ctx, k, sink)
}

// joinTries is how many connections in a row are closed because their replay
// failed, before the stream is followed without it: a publisher that starts opens
// its two sockets one after the other.
const joinTries = 3

// join brings history up to date at the start of a connection.
func (s *Subscriber) join(ctx context.Context, sink Sink) error {
	if err := s.replay(ctx, sink, false); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.failures++
		if s.failures < joinTries {
			return err
		}
		s.retry = true
	}
	s.nextProbe = time.Now().Add(s.cfg.ProbeAfter)
	s.note(func(st *Stats) { st.Joined = true })
	sink.Joined()
	return nil
}

// follow reads live messages. Between them it handles commands and probes an idle
// publisher.
func (s *Subscriber) follow(ctx context.Context, k *conn, sink Sink) error {
	for {
		deadline := time.Time{}
		if s.canProbe() {
			deadline = s.nextProbe
		}
		if err := k.c.SetReadDeadline(deadline); err != nil {
			return err
		}
		// After the deadline is set, because send shortens it.
		if s.handleCommand(sink) {
			if err := s.join(ctx, sink); err != nil {
				return err
			}
		}
		if s.canProbe() && !time.Now().Before(s.nextProbe) {
			if err := s.probe(ctx, sink); err != nil {
				return err
			}
			continue
		}
		err := k.wait()
		if isTimeout(err) {
			continue
		}
		if err != nil {
			return err
		}
		frames, err := k.recv()
		if err != nil {
			return err
		}
		if err := s.message(ctx, frames, sink); err != nil {
			return err
		}
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// message handles one live message.
func (s *Subscriber) message(ctx context.Context, frames [][]byte, sink Sink) error {
	if len(frames) == 0 {
		return nil
	}
	if len(frames) != 3 || len(frames[1]) != 8 {
		s.note(func(st *Stats) { st.Malformed++ })
		return nil
	}
	if !s.retry { // a busy publisher must not delay the missing replay
		s.nextProbe = time.Now().Add(s.cfg.ProbeAfter)
	}
	return s.live(ctx, binary.BigEndian.Uint64(frames[1]), frames[2], sink)
}

// live delivers a live message in its place in the sequence.
func (s *Subscriber) live(ctx context.Context, seq uint64, payload []byte, sink Sink) error {
	switch {
	case !s.have:
		if s.emptied != 0 && seq == s.emptied {
			s.noReplay = true // it continued to count, so it did not restart
		}
		s.reportLost(sink, 0, seq)
	case seq == s.last+1:
	case seq > s.last+1:
		s.note(func(st *Stats) { st.Gaps++ })
		if err := s.repair(ctx, sink, seq); err != nil {
			return err
		}
		if s.have && seq <= s.last {
			return nil
		}
	case seq < s.replayed && batchTime(payload) <= s.ts:
		s.note(func(st *Stats) { st.Duplicates++ })
		return nil
	default: // the numbers start again: another process
		s.reset(sink, ReasonRestart)
		if err := s.join(ctx, sink); err != nil {
			return err
		}
		if s.have && seq <= s.last {
			return nil
		}
		if s.have && seq > s.last+1 {
			s.reportLost(sink, s.last+1, seq)
		}
	}
	s.deliver(seq, payload, false, sink)
	return nil
}

// repair replays the gap before seq, or resets if it cannot.
func (s *Subscriber) repair(ctx context.Context, sink Sink, seq uint64) error {
	var err error
	for range 2 {
		if err = s.replay(ctx, sink, false); err == nil || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && s.cfg.Replay != "" {
		s.retry = true
	}
	from := uint64(0)
	if s.have {
		if seq <= s.last+1 {
			return nil
		}
		from = s.last + 1
	}
	s.reset(sink, ReasonGap)
	s.reportLost(sink, from, seq)
	return nil
}
