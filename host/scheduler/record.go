package scheduler

import "slices"

// Recorded is what a log keeps of a placement's decision.
type Recorded struct {
	*Explanation
	Operation string
	Adapter   string
	MaxTokens int
	BodyBytes int
	Session   uint64 // keyed hash of the client's session, 0 = none

	// Chain is the hashes of the prompt's whole blocks of ChainBlock tokens, those of
	// the target's block size; nil if they are not known.
	Chain      []uint64
	ChainBlock int
}

// Record returns the decision. It must be called before FirstToken, and returns
// false if the decision is no longer kept for explain. It costs microseconds per
// candidate.
func (p *Placement) Record(requestID string) (r Recorded, ok bool) {
	h, cands, more, ok := p.trace.copyOut()
	if !ok {
		return r, false
	}
	r = Recorded{Explanation: explain(requestID, &h, cands, &more), Operation: h.op.String(),
		Adapter: h.adapter, MaxTokens: h.maxTokens, BodyBytes: h.bytes, Session: p.session}
	p.mu.Lock()
	defer p.mu.Unlock()
	if chain := p.chain(); len(chain) > 0 {
		r.Chain, r.ChainBlock = slices.Clone(chain), p.prompt.q.Sizes[p.order[p.at].class]
	}
	return r, true
}
