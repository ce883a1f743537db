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

// inputLabels returns the labels of a request for policy: those of the
// credential, and what the client's headers say beside them. A header cannot
// change what a credential says.
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

// limitsOf returns what policy limits of a budget.
func limitsOf(d *policy.Decision) quota.Limits {
	return quota.Limits{Concurrency: d.MaxConcurrency, Requests: d.RequestsPerMinute, Tokens: d.TokensPerMinute}
}

// admit claims the request of its tenant's budget. It goes before the prompt is
// worked out: a refused caller costs no tokenization.
func (d *decision) admit() *DeniedError {
	if d.mode == modeDryRun {
		return nil
	}
	k := quota.Key{Class: d.dec.RateClass}
	if d.r.Principal != nil {
		k.Tenant = d.r.Principal.Tenant
	}
	var why quota.Refusal
	d.grant, d.r.Quota, why = d.s.st.quota.Begin(k, limitsOf(d.dec))
	if why.What == "" {
		return nil
	}
	return errQuota(&why)
}

// reserve claims the tokens of the request.
func (d *decision) reserve() *DeniedError {
	if d.mode == modeDryRun || d.dec.TokensPerMinute <= 0 || !d.r.API.Op.HasPrompt() {
		return nil
	}
	prompt, output := d.tokens, d.expectedOutput()
	if !d.exact { // nobody is refused for good on a guess: images are long in bytes, not in tokens
		prompt, output = 0, output+min(prompt, maxGuess)
	}
	var why quota.Refusal
	if d.r.Quota, why = d.grant.Reserve(prompt, output); why.What == "" {
		return nil
	}
	return errQuota(&why)
}

// maxGuess bounds what is reserved for a prompt whose tokens are not known
// before the engine has counted them.
const maxGuess = 8192

// firstOutput is taken for the length of an answer before any answer of the
// model was seen, where the client sets no limit: a few paragraphs.
const firstOutput = 256

// maxOutput keeps products of what clients ask for within an int; a minute's
// worth bounds what is reserved.
const maxOutput = 1 << 24

// expectedOutput is the tokens to reserve for the answer: what the client may
// get at most, else what answers have been on average.
func (d *decision) expectedOutput() int {
	n := d.maxTokens
	if n <= 0 {
		n = int(d.model.state.meanOutput())
	}
	if n <= 0 {
		n = firstOutput
	}
	return min(n, maxOutput) * min(max(1, d.r.API.N), maxOutput)
}

// unadmit ends the claim of a request that is not placed. What the client did
// wrong still was a request.
func (d *decision) unadmit(err *DeniedError) {
	if err.Status == http.StatusBadRequest {
		d.grant.Settle(0)
		return
	}
	d.grant.Cancel()
}

// settleQuota ends the claim of a request that was placed. Tokens that the
// engine did not tell, because the client left, count as reserved; what an
// engine or the router refused or failed to do costs no tokens.
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

// errQuota words a refusal for the client.
func errQuota(r *quota.Refusal) *DeniedError {
	limit := strconv.Itoa(r.Limit)
	switch {
	case r.What == quota.Concurrency:
		e := deny(llmapi.CodeConcurrencyLimit, "rate limit reached: "+limit+" requests at once are in progress already")
		e.RetryAfter = r.After
		return e
	case r.Never:
		return deny(llmapi.CodeRequestTooLarge, "the prompt alone has more than the "+limit+" tokens per minute that are allowed; shorten it")
	}
	e := deny(llmapi.CodeRateLimit, "rate limit reached for "+r.What+" per minute: the limit is "+limit+"; try again in "+r.After.Round(time.Millisecond).String())
	e.RetryAfter = r.After
	return e
}
