package host

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/proxy"
	"github.com/kvasir-router/kvasir/host/scheduler"
)

// Edge implements proxy.Router.
func (h *Host) Edge() *proxy.Edge {
	l := h.rules.Acquire()
	defer l.Release()
	return l.Value().edge
}

// authenticator tells clients why they are refused.
type authenticator struct{ set *identity.Set }

// Authenticate implements proxy.Authenticator.
func (a authenticator) Authenticate(c *identity.Credentials) (*identity.Principal, error) {
	p, err := a.set.Authenticate(c)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, identity.ErrTooManyFailures):
		return nil, &llmapi.Error{Status: http.StatusTooManyRequests, Code: llmapi.CodeTooManyFailures, Message: "too many requests with unknown API keys from this address", RetryAfter: time.Minute}
	case errors.Is(err, identity.ErrNoCredentials):
		return nil, &llmapi.Error{Status: http.StatusUnauthorized, Code: llmapi.CodeMissingAPIKey, Message: "no API key: send Authorization: Bearer KEY, or x-api-key: KEY"}
	}
	if errors.Is(err, identity.ErrTenantDisabled) {
		return nil, &llmapi.Error{Status: http.StatusForbidden, Code: llmapi.CodePolicyDenied, Message: "the tenant is disabled"}
	}
	if errors.Is(err, identity.ErrDisagree) {
		return nil, &llmapi.Error{Status: http.StatusForbidden, Code: llmapi.CodeTenantMismatch, Message: "the credential and the proxy name different tenants"}
	}
	if e, ok := errors.AsType[*jwt.Error](err); ok {
		return nil, &llmapi.Error{Status: http.StatusUnauthorized, Code: llmapi.CodeInvalidToken, Message: "the token is not accepted: " + e.Reason}
	}
	return nil, &llmapi.Error{Status: http.StatusUnauthorized, Code: llmapi.CodeInvalidAPIKey, Message: "the API key is not known or no longer valid"}
}

// Models implements proxy.Router.
func (h *Host) Models(p *identity.Principal) []llmapi.Model {
	l := h.rules.Acquire()
	defer l.Release()
	return l.Value().scheduler.Models(p)
}

// Schedule implements proxy.Router. The lease on the rules ends before the
// first byte is forwarded, so that a long stream pins nothing.
//
// A request that nobody serves, for a model whose pools scale, waits for the
// first endpoint outside, in the proxy; it holds no lease meanwhile, and is decided
// again.
func (h *Host) Schedule(r *proxy.Request) (proxy.Placement, error) {
	p, err := h.schedule(r)
	if d, ok := errors.AsType[*scheduler.DeniedError](err); ok && d.Code == llmapi.CodeNoEligibleEndpoint {
		err = h.hold(r, err)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// hold takes in a request that was denied with why. It returns what the proxy is to
// do: wait (a *proxy.Held), report why since no endpoint is being started, or
// report that too many wait.
func (h *Host) hold(r *proxy.Request, why error) error {
	tenant := ""
	if r.Principal != nil {
		tenant = r.Principal.Tenant
	}
	seat, err := h.scaling.Room().Enter(r.API.Model, tenant)
	switch {
	case err != nil:
		return &llmapi.Error{Status: http.StatusTooManyRequests, Code: llmapi.CodeWaitingRoomFull,
			Message: "too many requests wait for the model to be started", RetryAfter: seat.ColdStart}
	case seat == nil:
		return why
	}
	return &proxy.Held{Wait: func(r *proxy.Request) (proxy.Placement, error) {
		if !seat.Await(r.Gone()) {
			return nil, &llmapi.Error{Status: http.StatusServiceUnavailable, Code: llmapi.CodeModelNotStarted,
				Message: fmt.Sprintf("the model was not started within %v; try again later", seat.MaxHold), RetryAfter: seat.ColdStart}
		}
		p, err := h.schedule(r)
		if err != nil {
			return nil, err
		}
		return p, nil
	}}
}

// schedule is one try of Schedule. Its error is the scheduler's.
func (h *Host) schedule(r *proxy.Request) (proxy.Placement, error) {
	req := scheduler.Request{API: r.API, ID: r.ID, Received: r.Received}
	p, err := h.place(proxied{r}, &req)
	r.Limits = proxy.Limits{Requests: proxy.Remaining(req.Quota.Requests), Tokens: proxy.Remaining(req.Quota.Tokens)}
	if err != nil {
		return nil, tellWait(err, req.Queued)
	}
	return &placement{p: p}, nil
}
