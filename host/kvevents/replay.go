package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"time"
)

// endSeq is the sequence number of the message that ends a replay (-1).
const endSeq = 1<<64 - 1

// maxReplay bounds one replay. vLLM keeps 10,000 batches, which take seconds.
const maxReplay = 5 * time.Minute

var (
	errReplay      = errors.New("kvevents: replay reply is malformed")
	errReplayOrder = errors.New("kvevents: replayed sequence numbers decrease")
)

// canProbe reports whether an idle publisher can be probed for its last message.
func (s *Subscriber) canProbe() bool {
	return s.cfg.Replay != "" && s.cfg.ProbeAfter > 0 && !s.noReplay && (s.have || s.retry)
}

// probe requests the last message of an idle publisher again. If messages follow
// it, they were lost at the end of a burst and are delivered now. If there is
// another message under that number, or none, the publisher has restarted. If
// history is missing because a replay failed, all of it is requested.
func (s *Subscriber) probe(ctx context.Context, sink Sink) error {
	s.note(func(st *Stats) { st.Probes++ })
	s.probing = !s.retry
	s.replay(ctx, sink, s.retry) // an error is counted, and the next probe tries again
	s.probing = false
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.nextProbe = time.Now().Add(jitter(s.cfg.ProbeEvery))
	return nil
}

// replay requests all messages from the last one on, or all that the replay socket
// has if there is none yet or whole is set, and delivers them. The last one is
// requested again to check that it is the same: nothing else shows a publisher that
// has restarted and already counts higher than before.
//
// If it returns nil, history is as complete as the publisher can make it, or there
// is no replay socket. After an error, the messages delivered so far remain
// delivered.
func (s *Subscriber) replay(ctx context.Context, sink Sink, whole bool) error {
	if s.cfg.Replay == "" || s.noReplay {
		return nil
	}
	s.note(func(st *Stats) { st.Replays++ })
	err := s.replayOnce(ctx, sink, whole)
	if err != nil {
		s.note(func(st *Stats) { st.ReplayErrors++ })
		s.cfg.Log.Debug("cache event replay failed", "endpoint", s.cfg.Replay, "err", err)
		return err
	}
	s.failures, s.retry = 0, false
	return nil
}

func (s *Subscriber) replayOnce(ctx context.Context, sink Sink, whole bool) error {
	network, addr, err := parseAddr(s.cfg.Replay)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxReplay)
	defer cancel()
	k, err := s.dial(ctx, network, addr, "DEALER", routerTypes)
	if err != nil {
		return err
	}
	defer k.c.Close()
	defer closeWith(ctx, k.c)()

	from := uint64(0)
	if s.have && !whole {
		from = s.last
	}
	if err := k.requestReplay(from); err != nil {
		return err
	}
	for first := true; ; first = false {
		seq, payload, err := s.reply(k)
		if err != nil {
			return err
		}
		if first && whole && s.have {
			s.reset(sink, ReasonResync)
		}
		if first && s.have && s.restarted(seq, payload) {
			if seq == endSeq {
				s.emptied = s.last + 1
			}
			s.reset(sink, ReasonRestart)
			if err := k.requestReplay(0); err != nil {
				return err
			}
			if seq != endSeq {
				if err := s.drain(k); err != nil {
					return err
				}
			}
			continue
		}
		if seq == endSeq {
			return nil
		}
		if err := s.deliverReplayed(seq, payload, sink); err != nil {
			return err
		}
	}
}

// restarted reports whether the first reply to a request from the last message on
// shows another process.
func (s *Subscriber) restarted(seq uint64, payload []byte) bool {
	return seq == endSeq || seq == s.last && batchTime(payload) != s.ts
}

// drain skips the rest of a reply that is not used.
func (s *Subscriber) drain(k *conn) error {
	for {
		if seq, _, err := s.reply(k); err != nil || seq == endSeq {
			return err
		}
	}
}

// deliverReplayed delivers one replayed message, unless it is the last one again.
func (s *Subscriber) deliverReplayed(seq uint64, payload []byte, sink Sink) error {
	switch {
	case !s.have:
		s.reportLost(sink, 0, seq)
	case seq == s.last:
		return nil
	case seq < s.last:
		return errReplayOrder
	case seq > s.last+1: // the buffer begins later: the messages between are gone
		from := s.last + 1
		s.reset(sink, ReasonGap)
		s.reportLost(sink, from, seq)
	}
	s.deliver(seq, payload, true, sink)
	return nil
}

// reply reads one reply: ["", seq, payload] or, since vllm#45177, ["", topic,
// seq, payload]; REP sockets omit the empty frame.
func (s *Subscriber) reply(k *conn) (seq uint64, payload []byte, err error) {
	for {
		if err := k.c.SetReadDeadline(time.Now().Add(s.cfg.ReplayTimeout)); err != nil {
			return 0, nil, err
		}
		f, err := k.recv()
		if err != nil {
			return 0, nil, err
		}
		if len(f) == 0 {
			continue // a command
		}
		return parseReply(f)
	}
}

func parseReply(f [][]byte) (seq uint64, payload []byte, err error) {
	// A topic may be empty too, so the number of frames decides, from the end.
	switch {
	case len(f) < 2, len(f) > 4, len(f[len(f)-2]) != 8:
		return 0, nil, errReplay
	case len(f) == 4 && len(f[0]) != 0:
		return 0, nil, errReplay
	}
	return binary.BigEndian.Uint64(f[len(f)-2]), f[len(f)-1], nil
}
