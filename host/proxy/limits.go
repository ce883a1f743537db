package proxy

import (
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Limits has what is left of a client's budgets, for the headers of its response.
type Limits struct{ Requests, Tokens Remaining }

// Remaining is what is left of one budget.
type Remaining struct {
	Limit int           // per minute, 0 = none: no headers
	Left  int           // of it
	Reset time.Duration // until the whole budget is available again
}

// limitNames are the header names of one budget.
type limitNames struct{ limit, left, reset string }

func (n limitNames) list() string { return n.limit + ", " + n.left + ", " + n.reset }

// limitStyle is how an API reports budgets.
type limitStyle struct {
	requests, tokens limitNames
	// appendReset appends when the whole budget is available again.
	appendReset func(b []byte, in time.Duration, now time.Time) []byte
}

// openAILimits: platform.openai.com/docs/guides/rate-limits; times as "6m0s",
// "20ms".
var openAILimits = limitStyle{
	limitNames{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	limitNames{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	func(b []byte, in time.Duration, _ time.Time) []byte {
		return append(b, in.Round(time.Millisecond).String()...)
	},
}

// anthropicLimits: docs.anthropic.com/en/api/rate-limits; times as RFC 3339.
var anthropicLimits = limitStyle{
	limitNames{"Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining",
		"Anthropic-Ratelimit-Requests-Reset"},
	limitNames{"Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining",
		"Anthropic-Ratelimit-Tokens-Reset"},
	func(b []byte, in time.Duration, now time.Time) []byte {
		return now.Add(in+time.Second-1).UTC().Truncate(time.Second).AppendFormat(b, time.RFC3339)
	},
}

// limitStyleOf returns the style of the API that an operation belongs to.
func limitStyleOf(op llmapi.Operation) *limitStyle {
	if op.Family() == llmapi.FamilyAnthropic {
		return &anthropicLimits
	}
	return &openAILimits
}

// setLimitHeaders sets the headers with what is left of the client's budgets. An
// engine's own are about the router's budget there: they are replaced.
func (s *stream) setLimitHeaders(h *fasthttp.ResponseHeader) {
	l := &s.req.Limits
	if *l == (Limits{}) {
		return
	}
	st := limitStyleOf(s.req.API.Op)
	now := time.Now()
	set := func(n *limitNames, r *Remaining) {
		if r.Limit <= 0 {
			return
		}
		var b [40]byte
		h.SetBytesV(n.limit, strconv.AppendInt(b[:0], int64(r.Limit), 10))
		h.SetBytesV(n.left, strconv.AppendInt(b[:0], int64(r.Left), 10))
		h.SetBytesV(n.reset, st.appendReset(b[:0], r.Reset, now))
	}
	set(&st.requests, &l.Requests)
	set(&st.tokens, &l.Tokens)
}
