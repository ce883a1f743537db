package proxy

import (
	"time"

	"github.com/kvasir-router/kvasir/host/exchange"
)

// account is what is counted of a stream and reported at its end.
type account struct {
	admitted bool         // counted in counters.inFlight
	status   int          // of the answer; see exchange.Outcome
	end      exchange.End // EndUnset while the request runs
	retries  int
	ttft     time.Duration // 0 = no computed byte came
	bytesIn  int64         // of the request's body
	outcome  exchange.Outcome
}

// fail sets the end and the status of a request that has no answer.
func (a *account) fail(end exchange.End, status int) { a.end, a.status = end, status }

// complete reports whether the answer was passed on whole.
func (a *account) complete() bool { return a.end == exchange.EndComplete }

// count adds the end of a placed request to the proxy's counters.
func (a *account) count(c *counters) {
	switch a.end {
	case exchange.EndComplete:
		c.completed.Add(1)
	case exchange.EndClientGone:
		c.clientGone.Add(1)
	default:
		c.failed[a.end].Add(1)
	}
}

// report counts the outcome and hands it to the placement, which it ends.
func (s *stream) report(pl Placement) {
	a, c := &s.acct, &s.p.count
	a.count(c)
	c.bytesOut.Add(uint64(s.resp.received))
	c.usageRemoved.Add(uint64(s.resp.filter.removed))
	u := &s.resp.usage.usage
	a.outcome = exchange.Outcome{
		Status: a.status, End: a.end, Retries: a.retries, TTFT: a.ttft, E2E: time.Since(s.req.Received),
		PromptTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, CachedTokens: u.CachedTokens,
		HasUsage: s.resp.usage.found, HasCached: u.HasCached, BytesIn: a.bytesIn, BytesOut: s.resp.received,
	}
	pl.Done(&a.outcome)
}
