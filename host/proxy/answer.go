package proxy

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// Errors of the router itself. They have the shape of the API's errors and say what
// is wrong and, if there is one, the fix.

var (
	errNotFound = llmapi.Refuse(llmapi.CodeUnknownPath, "This path is not served. Served are: "+llmapi.Served()+".")
	errEncoding = llmapi.Refuse(llmapi.CodeContentEncoding,
		"Compressed request bodies are not accepted. Send the body as plain JSON, without Content-Encoding.")
	errExpect       = llmapi.Refuse(llmapi.CodeExpectation, "The only supported Expect value is 100-continue.")
	errUnauthorized = llmapi.Refuse(llmapi.CodeInvalidAPIKey,
		"Missing or unknown API key. Send it as Authorization: Bearer KEY or x-api-key: KEY.")
	errConcurrency = llmapi.Refuse(llmapi.CodeConcurrencyLimit,
		"The router is at its limit of concurrent requests; try again shortly.")
	errNoEndpoint = llmapi.Refuse(llmapi.CodeNoEndpoint, "No endpoint can take this request now; try again shortly.")
	errSlowBody   = llmapi.Refuse(llmapi.CodeRequestTimeout, "The request's body did not arrive in time.")
	errBadBody    = llmapi.Refuse(llmapi.CodeInvalidBody, "The request's body is malformed or ended early.")
	errCrash      = llmapi.Refuse(llmapi.CodeInternal, "Internal error of the router.")
	errDraining   = llmapi.Refuse(llmapi.CodeShuttingDown, "The router is shutting down; try again on a new connection.")
	errNoModel    = llmapi.RefuseParam(llmapi.CodeModelNotFound, "model",
		"The model does not exist or you do not have access to it.")
)

func tooLarge(limit int) *llmapi.Error {
	return llmapi.Refuse(llmapi.CodeBodyTooLarge, "The request's body exceeds "+strconv.Itoa(limit)+" bytes.")
}

func wrongMethod(allow string) *llmapi.Error {
	return llmapi.Refuse(llmapi.CodeMethodNotAllowed, "Use "+allow+" on this path.")
}

// Messages for the ends of a request that no engine answered.
const (
	msgUnreachable = "The engine is not reachable."
	msgLate        = "The engine did not answer in time."
	msgFailed      = "The engine failed before it answered."
	msgStopped     = "The engine stopped sending; the answer is incomplete."
	msgBroken      = "The engine failed while it answered; the answer is incomplete."
)

// endErrors has the error for each End: status and before for a response without an
// answer, within for the event that ends a stream. With status 0 the error is
// errCrash.
var endErrors = [exchange.NumEnds]struct {
	status         int
	before, within string
}{
	exchange.EndUnset:          {0, "", msgBroken},
	exchange.EndComplete:       {0, "", msgBroken},
	exchange.EndClientGone:     {statusClientGone, "The client left.", msgBroken},
	exchange.EndShutdown:       {503, errDraining.Message, "The router is shutting down; the answer is incomplete."},
	exchange.EndConnect:        {502, msgUnreachable, msgBroken},
	exchange.EndConnectTimeout: {504, msgLate, msgBroken},
	exchange.EndSendTimeout:    {504, msgLate, msgBroken},
	exchange.EndNoAnswer:       {502, msgFailed, msgBroken},
	exchange.EndMalformed:      {502, msgFailed, msgBroken},
	exchange.EndDied:           {502, msgFailed, msgBroken},
	exchange.EndFirstByte:      {504, msgLate, msgStopped},
	exchange.EndBetweenEvents:  {504, msgLate, msgStopped},
	exchange.EndTotalTimeout:   {504, msgLate, "The request exceeded its time limit; the answer is incomplete."},
	exchange.EndRewrite:        {0, "", msgBroken},
	exchange.EndInternal:       {0, "", msgBroken},
}

// upstreamError returns the error for a request that no engine answered.
func upstreamError(end exchange.End) *llmapi.Error {
	row := &endErrors[end]
	switch {
	case end == exchange.EndShutdown:
		return errDraining
	case row.status == 0:
		return errCrash
	}
	return &llmapi.Error{Status: row.status, Code: llmapi.CodeUpstream, CodeText: end.String(), Message: row.before}
}

// brokenStream returns the error for the event that ends a stream early.
func brokenStream(end exchange.End) *llmapi.Error {
	e := *upstreamError(end)
	e.Message = endErrors[end].within
	return &e
}

// retryAfter is the Retry-After of a refusal for overload, in seconds.
const retryAfter = "1"

// writeError makes e the response of ctx, in the form of the API that the path
// belongs to.
func writeError(ctx *fasthttp.RequestCtx, e *llmapi.Error) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(e.Status)
	h.SetContentType("application/json")
	switch e.Status {
	case 401:
		h.Set("WWW-Authenticate", "Bearer")
	case 429, 503:
		if len(h.Peek("Retry-After")) == 0 {
			h.Set("Retry-After", retryAfter)
		}
	}
	b := make([]byte, 0, 256)
	family, id := llmapi.FamilyOf(path(ctx.Request.Header.RequestURI())), h.PeekBytes(requestIDKey)
	if family == llmapi.FamilyAnthropic {
		h.SetCanonical(anthropicIDKey, id)
	}
	ctx.Response.SetBodyRaw(e.AppendBody(b, family, string(id)))
}

// refuse responds with err, which came from the router or from reading the body.
// The client gets general instead of an error that is not meant for it.
func (p *Proxy) refuse(ctx *fasthttp.RequestCtx, err error, general *llmapi.Error) int {
	e := shown(err, general)
	if e.RetryAfter > 0 {
		s := int((e.RetryAfter + time.Second - 1) / time.Second)
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(s))
	}
	p.count.refused[e.Code].Add(1)
	writeError(ctx, e)
	return e.Status
}

// shown returns the part of err that a client may see, general if there is none.
func shown(err error, general *llmapi.Error) *llmapi.Error {
	if e, ok := errors.AsType[*llmapi.Error](err); ok {
		return e
	}
	return general
}

// models answers GET /v1/models and /v1/models/{id}.
func (p *Proxy) models(ctx *fasthttp.RequestCtx, pr *identity.Principal, id []byte) {
	list := p.router.Models(pr)
	ctx.Response.Header.SetContentType("application/json")
	if id == nil {
		ctx.Response.SetBodyRaw(llmapi.AppendModels(nil, list))
		return
	}
	name, err := url.PathUnescape(string(id))
	for i := range list {
		if err == nil && list[i].ID == name {
			ctx.Response.SetBodyRaw(llmapi.AppendModel(nil, &list[i]))
			return
		}
	}
	p.refuse(ctx, errNoModel, errCrash)
}

// health answers GET /health: the process accepts requests. The readiness of the
// admin listener reports whether it can place them.
func (p *Proxy) health(ctx *fasthttp.RequestCtx) {
	if p.draining.Load() {
		writeError(ctx, errDraining)
		return
	}
	ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString("ok\n")
}

// options answers OPTIONS for a served path, whose methods are allow, or for "*".
func (p *Proxy) options(ctx *fasthttp.RequestCtx, allow string) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	h.Set("Allow", "OPTIONS, "+allow)
	if len(h.Peek("Access-Control-Allow-Origin")) == 0 {
		return
	}
	h.Set("Access-Control-Allow-Methods", allow)
	if want := ctx.Request.Header.Peek("Access-Control-Request-Headers"); len(want) > 0 {
		h.SetBytesV("Access-Control-Allow-Headers", want)
	}
	h.Set("Access-Control-Max-Age", "600")
}

// exposed lists the headers that scripts of other origins may read.
var exposed = strings.Join([]string{"X-Request-Id", "Retry-After",
	openAILimits.requests.list(), openAILimits.tokens.list(), anthropicLimits.requests.list(),
	anthropicLimits.tokens.list()}, ", ")

// setCORS lets scripts of an allowed origin read the answer.
func (s *stream) setCORS(ctx *fasthttp.RequestCtx) {
	origin := s.client.fields.one[kindOrigin]
	if origin == nil {
		return
	}
	for _, o := range s.req.Edge.origins {
		if o != "*" && !strings.EqualFold(o, string(origin)) {
			continue
		}
		h := &ctx.Response.Header
		h.SetBytesV("Access-Control-Allow-Origin", origin)
		h.Set("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", exposed)
		return
	}
}

// appendID appends a new request id of 32 hexadecimal digits: unique, not secret.
func appendID(b []byte) []byte {
	const hex = "0123456789abcdef"
	for range 2 {
		for x, i := rand.Uint64(), 0; i < 16; i++ {
			b = append(b, hex[x&15])
			x >>= 4
		}
	}
	return b
}
