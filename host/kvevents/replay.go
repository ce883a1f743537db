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
	errReplayOrder = errors.New("kvevents: replay goes backwards")
)

// probes reports whether an idle publisher can be asked what it last said.
func (s *Subscriber) probes() bool {
	return s.cfg.Replay != "" && s.cfg.ProbeAfter > 0 && !s.noReplay && (s.have || s.retry)
}

// probe asks an idle publisher for its last message again. Nothing after it: all
// is well. More: messages at the end of a burst were lost on the way, and are
// taken here. Another message under that number, or none: it has restarted. If
// history is missing because replay failed before, all of it is asked for.
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

// replay asks the replay socket for all messages from the last one on, or for all
// it has if there is none yet or whole is set, and takes them. The last one is
// asked for again to see that it is the same: a publisher that has restarted and
// already counts higher than before is found by that and by nothing else.
//
// nil: history is as complete as the publisher can make it, or it has no replay
// socket. Otherwise the replay failed and what was taken of it stays taken.
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
		if err := s.takeReplayed(seq, payload, sink); err != nil {
			return err
		}
	}
}

// restarted judges the first reply to a request from the last message on.
func (s *Subscriber) restarted(seq uint64, payload []byte) bool {
	return seq == endSeq || seq == s.last && batchTime(payload) != s.ts
}

// drain passes over the rest of an answer that is of no use.
func (s *Subscriber) drain(k *conn) error {
	for {
		if seq, _, err := s.reply(k); err != nil || seq == endSeq {
			return err
		}
	}
}

// takeReplayed takes one replayed message, which may be the last one again.
func (s *Subscriber) takeReplayed(seq uint64, payload []byte, sink Sink) error {
	switch {
	case !s.have:
		s.lose(sink, 0, seq)
	case seq == s.last:
		return nil
	case seq < s.last:
		return errReplayOrder
	case seq > s.last+1: // the buffer begins later: what lay between is gone
		from := s.last + 1
		s.reset(sink, ReasonGap)
		s.lose(sink, from, seq)
	}
	s.deliver(seq, payload, true, sink)
	return nil
}

// reply reads one reply: ["", seq, payload] or, since vllm#45177, ["", topic,
// seq, payload]; REP sockets leave the empty frame away.
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
