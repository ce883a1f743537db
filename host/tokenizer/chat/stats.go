package chat

import "sync/atomic"

// counters are the fields of Stats that only increase.
type counters struct {
	requests, approximate, tokens, promptBytes atomic.Int64
	guessed, found, decoded, decodedBytes      atomic.Int64
	nodes, newNodes, encodedBytes, evictions   atomic.Int64
	checks, checksSkipped, checkFailures       atomic.Int64
}

// Stats describes the work and the memory of a Model. Counters never decrease.
type Stats struct {
	Requests    int64 // calls of Blocks
	Approximate int64 // calls whose prompt was not exact
	Tokens      int64 // tokens of the exact prompts
	PromptBytes int64 // bytes rendered

	ValuesGuessed int64 // messages found by a guess
	ValuesFound   int64 // values found by their bytes
	ValuesDecoded int64 // values decoded
	DecodedBytes  int64 // bytes of the decoded values
	PiecesFound   int64 // pieces of prompts whose tokens were known
	PiecesNew     int64 // pieces that were encoded
	EncodedBytes  int64 // bytes encoded, including those that waited for a cut

	Bytes       int64 // memory of the memos
	BudgetBytes int64 // limit of Bytes
	Namespaces  int   // number of memos
	Evictions   int64 // values and nodes evicted

	Checks        int64 // requests computed whole and compared
	ChecksSkipped int64 // checks that were due while too many were waiting
	CheckFailures int64 // checks that found a difference

	// Exact is false if no chat prompt of this model can be exact, or if a check
	// has found a difference. Reason has the cause.
	Exact  bool
	Reason string
}

// Stats returns the counters. It is safe for concurrent use.
func (m *Model) Stats() Stats {
	c := &m.counters
	m.mu.RLock()
	n := len(m.memos)
	m.mu.RUnlock()
	s := Stats{
		Requests: c.requests.Load(), Approximate: c.approximate.Load(), Tokens: c.tokens.Load(),
		PromptBytes:   c.promptBytes.Load(),
		ValuesGuessed: c.guessed.Load(), ValuesFound: c.found.Load(),
		ValuesDecoded: c.decoded.Load(), DecodedBytes: c.decodedBytes.Load(),
		PiecesFound: c.nodes.Load(), PiecesNew: c.newNodes.Load(), EncodedBytes: c.encodedBytes.Load(),
		Bytes: m.bytes.Load(), BudgetBytes: m.cfg.BudgetBytes, Namespaces: n, Evictions: c.evictions.Load(),
		Checks: c.checks.Load(), ChecksSkipped: c.checksSkipped.Load(), CheckFailures: c.checkFailures.Load(),
		Exact: m.why == "", Reason: m.why,
	}
	if m.distrusted.Load() {
		s.Exact, s.Reason = false, reasonDistrusted
	}
	return s
}
