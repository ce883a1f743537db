package kvevents

import "time"

// Stats is what a Subscriber has done and where it stands. Counters grow from
// zero at New and are never reset.
type Stats struct {
	Decode DecodeStats

	Connected bool      // the publisher's socket is connected
	Joined    bool      // connected, and history was replayed as far as it can be
	Partial   bool      // some history is missing since the last Reset
	LastSeq   uint64    // newest message taken
	LastBatch time.Time // when it was taken; zero: none yet
	Since     time.Time // when Connected last changed

	Messages, Bytes       uint64 // taken, live and replayed
	Malformed, Duplicates uint64 // live messages passed over
	Connects, DialErrors  uint64 // Connects-1 is the number of reconnects
	Disconnects           uint64
	Gaps                  uint64 // holes seen in the live sequence
	Lost                  uint64 // messages that are lost for good
	Replays, ReplayErrors uint64 // requests for replay, and those that failed
	Replayed              uint64 // messages taken from replay
	Probes, TailFound     uint64 // idle probes, and messages they found

	ResetsRestart, ResetsGap, ResetsResync, ResetsOrdered uint64 // by reason
}

// Resets returns the number of resets of every reason.
func (s *Stats) Resets() uint64 {
	return s.ResetsRestart + s.ResetsGap + s.ResetsResync + s.ResetsOrdered
}

// Stats returns a copy. Safe for concurrent use.
func (s *Subscriber) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.st
}
