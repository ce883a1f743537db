package scheduler

import (
	"sync/atomic"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/internal/timing"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Stats counts decisions and their outcomes since the State was made.
type Stats struct {
	Decisions map[string]uint64 `json:"decisions"` // by Kind
	Refused   map[string]uint64 `json:"refused"`   // by code of the DeniedError
	Retries   uint64            `json:"retries"`   // placements that moved to another endpoint
	// Repeated counts requests that two endpoints answered with 500, which counts against
	// the prompt and not against them.
	Repeated uint64 `json:"repeated"`
	// Faults counts decisions that the built-in scored because no scorer of the profile
	// counted.
	Faults uint64 `json:"faults"`
	Passed uint64 `json:"passed"` // decisions in which the envelope passed an endpoint over

	PromptTokens    uint64 `json:"prompt_tokens"`    // of exact prompts placed
	PredictedTokens uint64 `json:"predicted_tokens"` // of these, predicted to be cached where placed
	BestTokens      uint64 `json:"best_tokens"`      // of these, held by the endpoint that held most

	Finished       uint64 `json:"finished"`        // placements ended
	Reported       uint64 `json:"reported"`        // of these, with exact prompt and reported cached tokens
	ReportedTokens uint64 `json:"reported_tokens"` // cached tokens they reported
	ExpectedTokens uint64 `json:"expected_tokens"` // cached tokens predicted for them
	Exact          uint64 `json:"exact"`           // predictions equal to the report
	PromptAgreed   uint64 `json:"prompt_agreed"`   // prompt token counts equal to the report
	PromptDiffered uint64 `json:"prompt_differed"`

	TTFT  Forecasts         `json:"ttft"`  // of times to the first token
	TPOT  Forecasts         `json:"tpot"`  // of times per further token
	Moves map[string]uint64 `json:"moves"` // choices that a rule changed, by Rule

	Stages [stages]timing.Counts `json:"stages"` // by StageNames

	// Unsalted counts requests with a prompt that were sent without a salt, by reason:
	// public, dedicated, fault.
	Unsalted    map[string]uint64 `json:"unsalted"`
	ClientSalts uint64            `json:"client_salts"` // requests in which the client set a salt
}

// Reasons why a request is sent without a salt.
const (
	unsaltedFault     = iota // none of the others: an error of the router
	unsaltedPublic           // policy's scope is public
	unsaltedDedicated        // the engines ignore salts and serve one tenant
	unsaltedReasons
)

var unsaltedNames = [unsaltedReasons]string{
	unsaltedFault: "fault", unsaltedPublic: "public", unsaltedDedicated: "dedicated",
}

// PredictionExact returns the share of predictions that were equal to the
// report, NaN before the first report.
func (s *Stats) PredictionExact() float64 { return float64(s.Exact) / float64(s.Reported) }

// counters are the counts behind Stats.
type counters struct {
	decisions [numKinds]atomic.Uint64
	refusals  [llmapi.NumCodes]atomic.Uint64
	stage     [stages]timing.Histogram
	unsalted  [unsaltedReasons]atomic.Uint64

	ttft, tpot forecastCounts
	moves      [numRules]atomic.Uint64

	clientSalts atomic.Uint64

	retries, repeated, faults, passed        atomic.Uint64
	prompt, predicted, best                  atomic.Uint64
	done, reported, reportedTokens, expected atomic.Uint64
	exact, promptAgreed, promptDiffered      atomic.Uint64
}

// Stats returns the counts.
func (s *State) Stats() Stats {
	c := &s.stats
	st := Stats{Decisions: map[string]uint64{}, Refused: map[string]uint64{},
		Retries: c.retries.Load(), Repeated: c.repeated.Load(), Faults: c.faults.Load(), Passed: c.passed.Load(),
		PromptTokens: c.prompt.Load(), PredictedTokens: c.predicted.Load(), BestTokens: c.best.Load(),
		Finished: c.done.Load(), Reported: c.reported.Load(), ReportedTokens: c.reportedTokens.Load(),
		ExpectedTokens: c.expected.Load(),
		Exact:          c.exact.Load(), PromptAgreed: c.promptAgreed.Load(), PromptDiffered: c.promptDiffered.Load()}
	for k := KindUnset + 1; k < numKinds; k++ {
		st.Decisions[k.String()] = c.decisions[k].Load()
	}
	for code := range llmapi.NumCodes {
		if n := c.refusals[code].Load(); n > 0 {
			st.Refused[code.String()] = n
		}
	}
	st.TTFT, st.TPOT, st.Moves = c.ttft.load(), c.tpot.load(), map[string]uint64{}
	for i, name := range ruleNames {
		st.Moves[name] = c.moves[i].Load()
	}
	st.Unsalted, st.ClientSalts = map[string]uint64{}, c.clientSalts.Load()
	for i, name := range unsaltedNames {
		st.Unsalted[name] = c.unsalted[i].Load()
	}
	for i := range c.stage {
		st.Stages[i] = c.stage[i].Load()
	}
	return st
}

func (c *counters) refused(err *DeniedError) { c.refusals[err.Code].Add(1) }

func (c *counters) decided(d *decision) {
	c.decisions[d.kind].Add(1)
	for i, t := range d.took {
		if t > 0 { // 0: the request had no such stage
			c.stage[i].Add(t)
		}
	}
	if d.source == sourceBuiltin && d.arm == armLocality {
		c.faults.Add(1)
	}
	for _, m := range d.moves.list[:d.moves.n] {
		c.moves[m.rule].Add(1)
	}
	var best uint32
	passed := false
	for i := range d.cands {
		best = max(best, d.cands[i].matched)
		passed = passed || d.cands[i].state == candEnveloped
	}
	if passed {
		c.passed.Add(1)
	}
	if d.known == promptExact {
		d.observeWarmth()
		if d.model.measured {
			d.observeReuse()
		}
		c.prompt.Add(uint64(d.tokens))
		c.predicted.Add(uint64(d.cands[d.chosen].matched))
		c.best.Add(uint64(best))
	}
}

func (c *counters) finished(p *Placement, o *exchange.Outcome) {
	c.done.Add(1)
	if o.HasUsage {
		p.known.output.add(float64(o.OutputTokens))
		if p.streamed && o.TTFT > 0 && o.OutputTokens > 1 {
			c.tpot.add(p.expected.tpot, (o.E2E-o.TTFT)/time.Duration(o.OutputTokens-1))
		}
	}
	p.learnMedia(o)
	if p.knows != promptExact {
		return
	}
	if o.HasUsage {
		agrees := o.PromptTokens == p.tokens
		if agrees {
			c.promptAgreed.Add(1)
		} else {
			c.promptDiffered.Add(1)
		}
		p.observeParity(agrees)
	}
	if o.HasCached {
		want := int(p.order[p.at].matched)
		c.reported.Add(1)
		c.reportedTokens.Add(uint64(max(0, o.CachedTokens)))
		c.expected.Add(uint64(want))
		if want == o.CachedTokens {
			c.exact.Add(1)
		}
	}
}

// micros returns a duration in microseconds.
func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// Bounds of what one answer says about the estimate of media.
const minMediaFactor, maxMediaFactor = 0.01, 100

// learnMedia compares the tokens that the engine made of media with their estimate.
// Only prompts whose text was counted tell.
func (p *Placement) learnMedia(o *exchange.Outcome) {
	if p.knows != promptPartial || p.mediaTokens == 0 || !o.HasUsage || o.PromptTokens <= p.textTokens {
		return
	}
	f := float64(o.PromptTokens-p.textTokens) / float64(p.mediaTokens)
	p.known.media.add(min(max(f, minMediaFactor), maxMediaFactor))
}
