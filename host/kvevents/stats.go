package kvevents

import "time"

// Stats is what a Subscriber has done, and its state. Counters grow from zero at
// New and are never reset.
type Stats struct {
	Decode DecodeStats

	Connected bool      // the publisher's socket is connected
	Joined    bool      // connected, and history was replayed as far as it can be
	Partial   bool      // some history is missing since the last Reset
	LastSeq   uint64    // newest message delivered
	LastBatch time.Time // when it was delivered; zero: none yet
	Since     time.Time // when Connected last changed

	Messages, Bytes       uint64 // delivered, live and replayed
	Malformed, Duplicates uint64 // live messages ignored
	Connects, DialErrors  uint64 // Connects-1 is the number of reconnects
	Disconnects           uint64
	Gaps                  uint64 // gaps in the live sequence
	Lost                  uint64 // messages that cannot be recovered
	Replays, ReplayErrors uint64 // requests for replay, and those that failed
	Replayed              uint64 // messages delivered from replay
	Probes, TailFound     uint64 // idle probes, and messages they found

	ResetsRestart, ResetsGap, ResetsResync, ResetsRequested uint64 // by reason
}

// Resets returns the number of resets of every reason.
func (s *Stats) Resets() uint64 {
	return s.ResetsRestart + s.ResetsGap + s.ResetsResync + s.ResetsRequested
}

// Stats returns a copy. Safe for concurrent use.
func (s *Subscriber) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}
