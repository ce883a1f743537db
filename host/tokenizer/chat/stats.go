package chat

import "sync/atomic"

// counters are those of Stats that grow.
type counters struct {
	requests, approximate, tokens, promptBytes atomic.Int64
	guessed, found, decoded, decodedBytes      atomic.Int64
	nodes, newNodes, encodedBytes, evictions   atomic.Int64
	checks, checksSkipped, checkFailures       atomic.Int64
}

// Stats tells what a Model did and holds. Counters grow for ever.
type Stats struct {
	Requests    int64 // Blocks called
	Approximate int64 // of those, prompts that were not exact
	Tokens      int64 // tokens of the exact ones
	PromptBytes int64 // bytes rendered

	ValuesGuessed int64 // messages found where they were expected
	ValuesFound   int64 // values found by their bytes
	ValuesDecoded int64 // values decoded
	DecodedBytes  int64 // bytes of those
	PiecesFound   int64 // pieces of prompts whose tokens were known
	PiecesNew     int64 // pieces that were encoded
	EncodedBytes  int64 // bytes encoded, with what waited for a cut

	Bytes       int64 // memory of the memos
	BudgetBytes int64 // its bound
	Namespaces  int   // memos
	Evictions   int64 // values and nodes evicted

	Checks        int64 // requests computed whole and compared
	ChecksSkipped int64 // checks that were due while too many waited
	CheckFailures int64 // checks that differed

	// Exact is false if no chat prompt of this model can be exact, or none
	// since a check differed; Reason tells why.
	Exact  bool
	Reason string
}

// Stats returns the counters. Safe for concurrent use.
func (m *Model) Stats() Stats {
	c := &m.counters
	m.mu.RLock()
	n := len(m.memos)
	m.mu.RUnlock()
	s := Stats{
		Requests: c.requests.Load(), Approximate: c.approximate.Load(), Tokens: c.tokens.Load(), PromptBytes: c.promptBytes.Load(),
		ValuesGuessed: c.guessed.Load(), ValuesFound: c.found.Load(), ValuesDecoded: c.decoded.Load(), DecodedBytes: c.decodedBytes.Load(),
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
