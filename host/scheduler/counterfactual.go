package scheduler

import (
	"maps"
	"slices"

	"github.com/kvasir-router/kvasir/abi"
)

// Alternative is the endpoint that another way of placing would have chosen for a
// recorded decision, from its candidates and columns.
type Alternative struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"` // profile or baseline
	Endpoint string `json:"endpoint"`
	Same     bool   `json:"same"` // as the decision

	MatchedTokens  float32 `json:"matched_tokens"`
	UncachedTokens float32 `json:"uncached_tokens"`
	Inflight       float32 `json:"inflight"`

	Note string `json:"note,omitempty"` // what is left out
}

// baseline chooses by columns alone. cost is what it minimizes.
type baseline struct {
	name string
	cost func(b *Batch, i int) float64
}

// baselines are ways of placing that need nothing but the columns of one decision.
// Those that depend on earlier decisions (round robin, sticky sessions) or on chance
// have no answer for a single request; kvasir replay has them.
var baselines = []baseline{
	{"least in flight", func(b *Batch, i int) float64 { return float64(b.Inflight[i]) }},
	{"least work", func(b *Batch, i int) float64 { return float64(b.Outstanding[i]) + 1e-3*float64(b.Inflight[i]) }},
	{"longest prefix", func(b *Batch, i int) float64 { return 1e-4*float64(b.Inflight[i]) - float64(b.Matched[i]) }},
	{"our implementation of LMETRIC", func(b *Batch, i int) float64 {
		return LMetricCost(float64(b.Outstanding[i]), float64(b.Uncached[i]), float64(b.Inflight[i]))
	}},
	{"our implementation of Dynamo's KV router", func(b *Batch, i int) float64 {
		return DynamoCost(float64(b.Outstanding[i])+float64(b.Uncached[i]), float64(b.KVActive[i]))
	}},
}

// LMetricCost is the cost that LMETRIC (arXiv 2603.15202) minimizes: prefill tokens, of
// the requests before this one and of its own, times the requests of the batch with it.
func LMetricCost(queued, uncached, inflight float64) float64 {
	return (queued + uncached) * (inflight + 1)
}

// DynamoCost is the cost that Dynamo's KV router minimizes (ai-dynamo/dynamo,
// lib/llm/src/kv_router/scheduler.rs): tokens to prefill, of the requests before this one
// and of its own, and KV tokens in decoding, both with weight 1. The request's own KV
// tokens are the same on every endpoint and left out.
func DynamoCost(prefill, decoding float64) float64 { return prefill + decoding }

// forOperator is a scorer that is called for an operator: its faults are not those of
// a decision.
type forOperator struct{ Scorer }

// Score implements Scorer.
func (f forOperator) Score(b *Batch) error {
	if x, ok := f.Scorer.(Explained); ok {
		_, _, err := x.Explain(b)
		return err
	}
	return f.Scorer.Score(b)
}

// forOperator returns p with scorers whose calls are not counted.
func (p *profile) forOperator() *profile {
	out := *p
	out.Scorers = slices.Clone(p.Scorers)
	for k := range out.Scorers {
		out.Scorers[k].Scorer = forOperator{p.Scorers[k].Scorer}
	}
	return &out
}

// notScores says what the choice of a profile leaves out.
const notScores = "by scores alone: without envelope, spread, session and picker"

// counterfactual returns what each profile and each baseline would have chosen.
func (s *Scheduler) counterfactual(h *traceHead, cands []candTrace, more *[abi.NumColumns][]float32) []Alternative {
	if h.chosen < 0 {
		return nil
	}
	var out []Alternative
	add := func(name, kind, note string, b *Batch, at []int, cost func(i int) float64) {
		best := 0
		for i := range at {
			if cost(i) < cost(best) {
				best = i
			}
		}
		c := &cands[at[best]]
		out = append(out, Alternative{Name: name, Kind: kind, Endpoint: c.info.URL, Same: int32(at[best]) == h.chosen,
			MatchedTokens: b.Matched[best], UncachedTokens: b.Uncached[best], Inflight: b.Inflight[best], Note: note})
	}
	for _, name := range slices.Sorted(maps.Keys(s.profiles)) {
		if name == "" {
			continue // the default, by its name
		}
		b, at := s.rebuildBatch(h, cands)
		if len(at) == 0 {
			return nil
		}
		b.More, b.held = *more, h.held
		d := &decision{s: s}
		d.prof, d.arm, d.tokens = s.profiles[name].forOperator(), armLocality, h.tokens
		d.b = *b
		d.score()
		note := notScores
		if d.source == sourceBuiltin && !d.prof.builtin {
			note += "; its scorers gave no scores, so that the built-in did"
		} else if d.prof.want&sourced&^h.held != 0 {
			note += "; columns that the decision did not read are at their defaults"
		}
		add(name, "profile", note, &d.b, at, func(i int) float64 { return -float64(d.b.Scores[i]) })
	}
	b, at := s.rebuildBatch(h, cands)
	for _, x := range baselines {
		add(x.name, "baseline", "", b, at, func(i int) float64 { return x.cost(b, i) })
	}
	return out
}
