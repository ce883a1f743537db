package route

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/host/telemetry/decisions"
	"github.com/kvasir-router/kvasir/host/telemetry/placements"
)

// placementOf returns the log's record of a placement, nil if the decision is no longer
// known.
func (l *Log) placementOf(r *scheduler.Request, p *scheduler.Placement) *placements.Placement {
	x, ok := p.Record(r.ID)
	if !ok {
		return nil
	}
	out := &placements.Placement{Version: placements.Version, Model: x.Model, Adapter: x.Adapter, Operation: x.Operation,
		Profile: x.Profile, Objective: x.Objective, Kind: x.Kind, Arm: x.Arm, Revision: x.Revision,
		PromptTokens: x.Tokens, Exact: x.TokensExact, Inexact: x.PromptReason, MaxTokens: x.MaxTokens,
		BodyBytes: x.BodyBytes, QueuedMS: x.QueuedMillis}
	if x.Session != 0 {
		out.Session = strconv.FormatUint(x.Session, 16)
	}
	if len(x.Chain) > 0 {
		out.Key = l.log.Key().ID()
		out.Blocks, out.BlockTokens = l.log.Key().Chain(x.Chain, x.ChainBlock)
	}
	cands := preferred(x.Explanation)
	n := min(len(cands), placements.MaxCandidates)
	out.Omitted = len(cands) - n
	out.Candidates = make([]placements.Candidate, 0, n)
	for _, c := range cands[:n] {
		out.Candidates = append(out.Candidates, candidateOf(c))
	}
	return out
}

// preferred returns the candidates by preference, and those that were filtered last.
func preferred(x *scheduler.Explanation) []*scheduler.Candidate {
	place := make(map[string]int, len(x.Order))
	for i, url := range x.Order {
		place[url] = i + 1
	}
	out := make([]*scheduler.Candidate, 0, len(x.Candidates))
	for i := range x.Candidates {
		out = append(out, &x.Candidates[i])
	}
	last := func(c *scheduler.Candidate) int { return cmp.Or(place[c.Endpoint], len(place)+1) }
	slices.SortStableFunc(out, func(a, b *scheduler.Candidate) int { return cmp.Compare(last(a), last(b)) })
	return out
}

func candidateOf(c *scheduler.Candidate) placements.Candidate {
	out := placements.Candidate{Endpoint: c.Endpoint, State: c.State, Reason: c.Reason, Matched: c.Matched,
		Columns: c.Columns, Total: c.Total}
	for name, s := range c.Scores {
		if out.Scores == nil {
			out.Scores = map[string]float32{}
		}
		out.Scores[name] = s.Score
	}
	return out
}

// ended logs how the request of decision id ended.
func (l *Log) ended(id, requestID, tenant string, p *scheduler.Placement, o *exchange.Outcome, now time.Time) {
	t := p.Target()
	scheme := "http://"
	if t.TLS != nil {
		scheme = "https://"
	}
	out := &placements.Outcome{Endpoint: scheme + t.Addr, Status: o.Status, Error: o.End.Cause(), Retries: o.Retries,
		TTFTMS: millis(o.TTFT), E2EMS: millis(o.E2E), PredictedCached: p.PredictedCached()}
	if o.HasUsage {
		in, got := o.PromptTokens, o.OutputTokens
		out.PromptTokens, out.OutputTokens = &in, &got
	}
	if o.HasCached {
		n := o.CachedTokens
		out.CachedTokens = &n
	}
	l.log.Record(&decisions.Entry{ID: id, Time: now, RequestID: requestID, Tenant: tenant, Outcome: out})
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
