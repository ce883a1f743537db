package scheduler

import (
	"math"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// Explained is a scorer that can return the parts of its scores.
type Explained interface {
	// Explain scores b as Score does and returns the parts: terms is
	// [len(names) × b.N], name by name, NaN = unknown. It is called for an
	// operator, without locks, and may take its time.
	Explain(b *Batch) (names []string, terms []float32, err error)
}

// Explain is State.Explain with the terms of plugins: the plugins of s score the
// recorded decision again. Their terms are part of the result if the scores are
// identical to the bit.
func (s *Scheduler) Explain(tenant, requestID string) (*Explanation, bool) {
	hash := s.st.hashID(requestID)
	h, cands, more, ok := s.st.trace.of(hash).copyOut(tenant, requestID, hash)
	if !ok {
		return nil, false
	}
	e := explain(requestID, &h, cands, &more)
	s.fillTerms(e, &h, cands, &more)
	return e, true
}

// ExplainCounterfactual is Explain with what other profiles and baselines would have
// chosen: the scorers of every profile score the recorded decision.
func (s *Scheduler) ExplainCounterfactual(tenant, requestID string) (*Explanation, bool) {
	hash := s.st.hashID(requestID)
	h, cands, more, ok := s.st.trace.of(hash).copyOut(tenant, requestID, hash)
	if !ok {
		return nil, false
	}
	e := explain(requestID, &h, cands, &more)
	s.fillTerms(e, &h, cands, &more)
	e.Counterfactual = s.counterfactual(&h, cands, &more)
	return e, true
}

// fillTerms adds the terms of scorers that are plugins to e.
func (s *Scheduler) fillTerms(e *Explanation, h *traceHead, cands []candTrace, more *[abi.NumColumns][]float32) {
	p := s.profiles[h.profile]
	if p == nil || h.source == sourceBuiltin || h.chosen < 0 || len(p.Scorers) != h.scorers {
		return
	}
	for k := range p.Scorers {
		x, ok := p.Scorers[k].Scorer.(Explained)
		if !ok || p.extensions[k] != h.extensions[k] || h.faultOf(k) != "" {
			continue
		}
		b, at := s.rebuildBatch(h, cands)
		b.More = *more
		names, terms, err := x.Explain(b)
		if err != nil || !sameScores(b, at, cands, k) {
			continue
		}
		for i, c := range at {
			known := e.Candidates[c].Scores[h.extensions[k].Name].Terms
			for t, name := range names {
				if v := terms[t*b.N+i]; v-v == 0 {
					known[name] = v
				}
			}
		}
	}
}

// rebuildBatch returns the batch of a recorded decision; at is the candidate of each
// column.
func (s *Scheduler) rebuildBatch(h *traceHead, cands []candTrace) (b *Batch, at []int) {
	for i := range cands {
		if cands[i].state != candFiltered {
			at = append(at, i)
		}
	}
	b = new(Batch)
	b.resize(len(at))
	b.PromptTokens, b.MaxTokens, b.Seed, b.NowMS = uint32(h.tokens), uint32(h.maxTokens), h.hash, millis(h.at)
	b.Op, b.BodyBytes, b.Session, b.Model, b.Tenant = h.op, h.bytes, h.session, h.model, s.st.hashID(h.tenant)
	b.Affinity, b.Adapter, b.Priority, b.Capped = h.affinity, h.adapter, h.priority, h.capped
	for i, n := range at {
		c := &cands[n]
		b.Endpoints[i], b.Infos[i] = c.info.ID, c.info
		b.Matched[i], b.Uncached[i] = c.matchedTokens(), c.uncached
		b.Outstanding[i], b.Inflight[i] = c.outstanding, c.inflight
		b.KVActive[i], b.Speed[i], b.Running[i], b.Waiting[i] = c.kvActive, c.speed, float32(c.running), float32(c.waiting)
		b.KVUsage[i], b.Trust[i], b.Rates[i], b.Prefer[i] = c.kvUsage, c.trust, c.rate, c.prefer
		b.Delay[i] = c.delay
		b.AgeMS[i] = endpoint.AgeMS(c.scraped, h.at)
		for t, n := range c.tiers {
			b.Tiers[t][i] = float32(n)
		}
	}
	return b, at
}

// sameScores reports whether b has the recorded scores of scorer k.
func sameScores(b *Batch, at []int, cands []candTrace, k int) bool {
	for i, c := range at {
		if math.Float32bits(b.Scores[i]) != math.Float32bits(cands[c].parts[k]) {
			return false
		}
	}
	return true
}
