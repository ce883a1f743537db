package scheduler

import (
	"github.com/kvasir-router/kvasir/host/blockhash"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/isolation"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
)

// cacheClaim is what of a prompt can be cached in its namespace; the zero value claims
// nothing.
type cacheClaim struct {
	isolation.Claim
	sent  bool
	class int8 // index of the block size that it was made in, -1 = it has no chain
}

// covers reports whether a claim was made in a block size.
func (c *cacheClaim) covers(class int8) bool { return c.sent && c.class == class }

// claimCached records the prompt as sent to the chosen endpoint and keeps what its
// namespace can hold of it there. Requests that need not be kept apart from others
// make no claim. It runs before the request is sent and before its chain is
// predicted; a retry in another block size claims anew.
func (p *Placement) claimCached() {
	h, c := p.st.loc.History, &p.order[p.at]
	if h == nil || !c.needsSalt || !p.target.Rewrite.SetSalt || p.claim.covers(c.class) {
		return
	}
	var chain []uint64
	if p.knows == promptExact {
		chain = p.chain()
	}
	q := isolation.Prompt{
		Namespace: blockhash.Seed(p.model, "", p.target.Rewrite.Salt), Chain: chain,
		Exact: p.knows == promptExact && c.class >= 0 && p.prompt != nil, Alone: p.scope == policy.ScopeNone,
		// The prompts of a list may share blocks with each other, as answers to one do.
		Many: p.several || p.knows != promptExact && p.op == llmapi.OpCompletions,
	}
	if q.Exact {
		q.Block = p.prompt.q.Sizes[c.class]
	}
	p.claim = cacheClaim{Claim: h.Sent(&q), sent: true, class: c.class}
}

// unexplained returns the tokens of the outcome that the endpoint reports as cached
// and that are not the request's own namespace's, and records the answer.
func (p *Placement) unexplained(o *exchange.Outcome) int {
	if !p.claim.sent || o.Status == 0 {
		return 0
	}
	h, c, now := p.st.loc.History, &p.order[p.at], p.st.now()
	excess := 0
	if o.HasCached {
		excess = h.Excess(&p.claim.Claim, o.CachedTokens, int(c.matched), c.events == endpoint.EventsLive, now)
	}
	tokens := -1
	if o.HasUsage {
		tokens = o.OutputTokens
	}
	h.Answered(&p.claim.Claim, tokens, now)
	return excess
}
