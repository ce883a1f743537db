package host

import (
	"errors"
	"net/http"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/route"
)

// routeRules are the rules in force as requests are routed by them.
type routeRules struct{ h *Host }

// Acquire implements route.Rules.
func (r routeRules) Acquire() route.Lease {
	l := r.h.rules.Acquire()
	g := l.Value()
	return route.Lease{Scheduler: g.scheduler, Edge: g.edge, LogPolicy: g.logPolicy, Releaser: l}
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
