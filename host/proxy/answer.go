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

// Answers of the router itself. They have the shape of the API's errors and say what is wrong and, where there is one, the mend.

var (
	errNotFound = &llmapi.Error{Status: 404, Type: llmapi.TypeNotFound, Code: "unknown_path",
		Message: "This path is not served. Served are: " + llmapi.Served + "."}
	errEncoding = &llmapi.Error{Status: 415, Type: llmapi.TypeInvalidRequest, Code: "unsupported_content_encoding",
		Message: "Compressed request bodies are not accepted. Send the body as plain JSON, without Content-Encoding."}
	errExpect = &llmapi.Error{Status: 417, Type: llmapi.TypeInvalidRequest, Code: "unsupported_expectation",
		Message: "Expect takes 100-continue only."}
	errUnauthorized = &llmapi.Error{Status: 401, Type: llmapi.TypeAuthentication, Code: "invalid_api_key",
		Message: "Missing or unknown API key. Send it as Authorization: Bearer KEY or x-api-key: KEY."}
	errConcurrency = &llmapi.Error{Status: 429, Type: llmapi.TypeRateLimit, Code: "concurrency_limit",
		Message: "The router serves as many requests as it may; try again shortly."}
	errNoEndpoint = &llmapi.Error{Status: 503, Type: llmapi.TypeServer, Code: "no_endpoint",
		Message: "No endpoint can take this request now; try again shortly."}
	errSlowBody = &llmapi.Error{Status: 408, Type: llmapi.TypeInvalidRequest, Code: "request_timeout",
		Message: "The request's body did not arrive in time."}
	errBadBody = badHead("invalid_body", "The request's body is malformed or ended early.")
	errCrash   = &llmapi.Error{Status: 500, Type: llmapi.TypeServer, Code: "internal_error",
		Message: "Internal error of the router."}
	errDraining = &llmapi.Error{Status: 503, Type: llmapi.TypeServer, Code: "shutting_down",
		Message: "The router is shutting down; try again on a new connection."}
)

func tooLarge(limit int) *llmapi.Error {
	return &llmapi.Error{Status: 413, Type: llmapi.TypeInvalidRequest, Code: "body_too_large",
		Message: "The request's body exceeds " + strconv.Itoa(limit) + " bytes."}
}

func wrongMethod(allow string) *llmapi.Error {
	return &llmapi.Error{Status: 405, Type: llmapi.TypeInvalidRequest, Code: "method_not_allowed",
		Message: "Use " + allow + " on this path."}
}

// upstreamError is the answer when no engine gave one.
func upstreamError(end exchange.End) *llmapi.Error {
	e := &llmapi.Error{Status: 502, Type: "upstream_error", Code: end.String(), Message: "The engine is not reachable."}
	switch end {
	case exchange.EndConnectTimeout, exchange.EndSendTimeout, exchange.EndFirstByte, exchange.EndBetweenEvents, exchange.EndTotalTimeout:
		e.Status, e.Message = 504, "The engine did not answer in time."
	case exchange.EndNoAnswer, exchange.EndDied, exchange.EndMalformed:
		e.Message = "The engine failed before it answered."
	case exchange.EndInternal, exchange.EndRewrite, exchange.EndUnset:
		return errCrash
	case exchange.EndShutdown:
		return errDraining
	}
	return e
}

// brokenStream is the error event of a stream that ends early.
func brokenStream(end exchange.End) *llmapi.Error {
	e := *upstreamError(end)
	switch end {
	case exchange.EndBetweenEvents, exchange.EndFirstByte:
		e.Message = "The engine stopped sending; the answer is not whole."
	case exchange.EndTotalTimeout:
		e.Message = "The request took longer than it may; the answer is not whole."
	case exchange.EndShutdown:
		e.Message = "The router is shutting down; the answer is not whole."
	default:
		e.Message = "The engine failed while it answered; the answer is not whole."
	}
	return &e
}

// retryAfter is what a refusal for overload tells clients, in seconds.
const retryAfter = "1"

// writeError makes e the answer of ctx, in the shape of the API that was asked.
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
	if !llmapi.IsAnthropic(path(ctx.Request.Header.RequestURI())) {
		ctx.Response.SetBodyRaw(e.AppendJSON(b))
		return
	}
	id := h.PeekBytes(requestIDKey)
	h.SetCanonical(anthropicIDKey, id)
	ctx.Response.SetBodyRaw(e.AppendAnthropic(b, string(id)))
}

// refuse answers with err, which came from the router or from reading the body.
// general is what the client gets for an error that is not meant for it.
func (p *Proxy) refuse(ctx *fasthttp.RequestCtx, err error, general *llmapi.Error) int {
	e, after := shown(err, general)
	if after > 0 {
		s := int((after + time.Second - 1) / time.Second)
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(s))
	}
	p.count.refused.add(e.Code)
	writeError(ctx, e)
	return e.Status
}

// shown is what a client may see of err, and when it may try again (0 = not told).
func shown(err error, general *llmapi.Error) (e *llmapi.Error, after time.Duration) {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return &llmapi.Error{Status: r.Status, Code: r.Code, Message: r.Message}, r.RetryAfter
	}
	if a, ok := errors.AsType[*llmapi.Error](err); ok {
		return a, 0
	}
	return general, 0
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
	p.refuse(ctx, &llmapi.Error{Status: 404, Type: llmapi.TypeNotFound, Code: "model_not_found", Param: "model",
		Message: "The model does not exist or you do not have access to it."}, errCrash)
}

// health answers GET /health: this process takes requests. Whether it can place
// them is the readiness of the admin listener.
func (p *Proxy) health(ctx *fasthttp.RequestCtx) {
	if p.draining.Load() {
		writeError(ctx, errDraining)
		return
	}
	ctx.Response.Header.SetContentType("text/plain; charset=utf-8")
	ctx.SetBodyString("ok\n")
}

// options answers OPTIONS of a served path (allow is its method) or of "*".
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

// exposed are the headers that scripts of other origins may read.
var exposed = strings.Join([]string{"X-Request-Id", "Retry-After",
	openAILimits.requests.list(), openAILimits.tokens.list(), anthropicLimits.requests.list(), anthropicLimits.tokens.list()}, ", ")

// cors lets scripts of an allowed origin read the answer.
func (p *Proxy) cors(ctx *fasthttp.RequestCtx, origin []byte) {
	for _, o := range p.cfg.CORSOrigins {
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

// appendID appends a fresh request id: 32 hexadecimal digits. It must be unique,
// not secret.
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
