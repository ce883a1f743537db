package scheduler

import (
	"net/http"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/host/quota"
)

// inputLabels returns the labels of a request for policy: those of the credential
// and those of the client's headers. A header cannot override a label of the
// credential.
func inputLabels(r *Request) []policy.Label {
	var own []identity.Label
	if r.Principal != nil {
		own = r.Principal.Labels
	}
	if len(own)+len(r.Labels) == 0 {
		return nil
	}
	out := make([]policy.Label, 0, len(own)+len(r.Labels))
	for hints := r.Labels; len(own)+len(hints) > 0; {
		switch {
		case len(hints) == 0 || len(own) > 0 && own[0].Name <= hints[0].Name:
			if len(hints) > 0 && own[0].Name == hints[0].Name {
				hints = hints[1:]
			}
			out = append(out, policy.Label(own[0]))
			own = own[1:]
		default:
			out = append(out, policy.Label(hints[0]))
			hints = hints[1:]
		}
	}
	return out
}

// limitsOf returns the limits of a decision.
func limitsOf(d *policy.Decision) quota.Limits {
	return quota.Limits{Concurrency: d.MaxConcurrency, Requests: d.RequestsPerMinute, Tokens: d.TokensPerMinute}
}

// admit claims the request from its tenant's budget. It runs before the prompt is
// rendered: a refused request costs no tokenization.
func (d *decision) admit() *DeniedError {
	if d.mode == modeDryRun {
		return nil
	}
	k := quota.Key{Class: d.dec.RateClass}
	if d.r.Principal != nil {
		k.Tenant = d.r.Principal.Tenant
	}
	var refusal *quota.Refusal
	if d.grant, d.r.Quota, refusal = d.s.st.quota.Begin(k, limitsOf(d.dec)); refusal != nil {
		return errQuota(refusal)
	}
	return nil
}

// reserve claims the tokens of the request from its tenant's budget.
func (d *decision) reserve() *DeniedError {
	if d.mode == modeDryRun || d.dec.TokensPerMinute <= 0 || !d.r.API.Op.HasPrompt() {
		return nil
	}
	prompt, output := d.tokens, d.expectedOutput()
	if d.known != promptExact { // an estimate refuses nothing for good: images are long in bytes, not in tokens
		prompt, output = 0, output+min(prompt, maxGuess)
	}
	var refusal *quota.Refusal
	if d.r.Quota, refusal = d.grant.Reserve(prompt, output); refusal != nil {
		return errQuota(refusal)
	}
	return nil
}

// maxGuess bounds the tokens reserved for a prompt that only the engine can count.
const maxGuess = 8192

// firstOutput is the length in tokens assumed of an answer before the model has given
// any, where the client sets no limit: a few paragraphs.
const firstOutput = 256

// maxOutput keeps products of what clients ask for within an int; the limit per minute
// bounds what is reserved.
const maxOutput = 1 << 24

// expectedOutput returns the tokens to reserve for the answer: the most that the
// client may get, else the mean of the model's answers.
func (d *decision) expectedOutput() int {
	n := d.maxTokens
	if n <= 0 {
		n = int(d.model.state.output.get())
	}
	if n <= 0 {
		n = firstOutput
	}
	return min(n, maxOutput) * min(max(1, d.r.API.N), maxOutput)
}

// endClaim ends the claim of a request that is not placed. A client's mistake counts
// as a request.
func (d *decision) endClaim(err *DeniedError) {
	if err.Status == http.StatusBadRequest {
		d.grant.Settle(0)
		return
	}
	d.grant.Cancel()
}

// settleQuota ends the claim of a request that was placed. Where the engine has not
// reported tokens, because the client left, the reserved ones count. What an engine
// or the router refused or failed to do costs no tokens.
func (p *Placement) settleQuota(o *exchange.Outcome) {
	switch {
	case o.HasUsage:
		p.grant.Settle(o.PromptTokens + o.OutputTokens)
	case o.End == exchange.EndClientGone || o.End == exchange.EndShutdown || o.Status/100 == 2:
		p.grant.Settle(-1)
	case o.Status/100 == 4:
		p.grant.Settle(0)
	default:
		p.grant.Cancel()
	}
}

// errQuota returns a refusal for the client.
func errQuota(r *quota.Refusal) *DeniedError {
	limit := strconv.Itoa(r.Limit)
	switch {
	case r.Budget == quota.Concurrency:
		e := deny(llmapi.CodeConcurrencyLimit, "Rate limit reached: "+limit+" requests are already in progress.")
		e.RetryAfter = r.After
		return e
	case r.Never:
		return deny(llmapi.CodeRequestTooLarge,
			"The prompt alone exceeds the limit of "+limit+" tokens per minute; shorten it.")
	}
	e := deny(llmapi.CodeRateLimit,
		"Rate limit reached for "+r.Budget.String()+" per minute: the limit is "+limit+"; try again in "+
			r.After.Round(time.Millisecond).String()+".")
	e.RetryAfter = r.After
	return e
}
