package rules

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/identity/jwt"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/proxy"
)

// edgeOf returns the settings of cfg that apply to requests before they are placed.
func edgeOf(cfg *config.Config, set *identity.Set) (*proxy.Edge, error) {
	proxies, err := cfg.Identity.Proxies()
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return proxy.NewEdge(proxy.EdgeConfig{
		Hints: clientHints(&cfg.ClientHints), Proxies: proxies,
		CORSOrigins:  cfg.Listen.CORSOrigins,
		MaxBodyBytes: int64(cfg.Listen.MaxBody), MaxConcurrent: cfg.Limits.Concurrent,
		MaxBytesInFlight: int64(cfg.Limits.BytesInFlight),
	}, authenticator{set})
}

// sameEdge reports whether a and b have the same settings for requests before they are
// placed, except for credentials.
func sameEdge(a, b *config.Config) bool {
	return a == b || a.Listen.MaxBody == b.Listen.MaxBody &&
		a.Limits.Concurrent == b.Limits.Concurrent && a.Limits.BytesInFlight == b.Limits.BytesInFlight &&
		slices.Equal(a.Listen.CORSOrigins, b.Listen.CORSOrigins) && reflect.DeepEqual(a.ClientHints, b.ClientHints) &&
		reflect.DeepEqual(a.Identity.TrustedProxies, b.Identity.TrustedProxies)
}

func clientHints(c *config.ClientHints) proxy.Hints {
	h := proxy.Hints{Session: c.Session, Priority: c.Priority}
	for _, label := range slices.Sorted(maps.Keys(c.Labels)) {
		h.Labels = append(h.Labels, proxy.HintLabel{Label: label, Header: c.Labels[label]})
	}
	return h
}

// authenticator turns errors of a set into answers for clients.
type authenticator struct{ set *identity.Set }

// Authenticate implements proxy.Authenticator.
func (a authenticator) Authenticate(c *identity.Credentials) (*identity.Principal, error) {
	p, err := a.set.Authenticate(c)
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, identity.ErrTooManyFailures):
		return nil, &llmapi.Error{Status: http.StatusTooManyRequests, Code: llmapi.CodeTooManyFailures,
			Message: "Too many requests with unknown API keys from this address; wait a minute.", RetryAfter: time.Minute}
	case errors.Is(err, identity.ErrNoCredentials):
		return nil, &llmapi.Error{Status: http.StatusUnauthorized, Code: llmapi.CodeMissingAPIKey,
			Message: "Missing API key. Send it as Authorization: Bearer KEY or x-api-key: KEY."}
	case errors.Is(err, identity.ErrTenantDisabled):
		return nil, &llmapi.Error{Status: http.StatusForbidden, Code: llmapi.CodePolicyDenied,
			Message: "The tenant is disabled."}
	case errors.Is(err, identity.ErrDisagree):
		return nil, &llmapi.Error{Status: http.StatusForbidden, Code: llmapi.CodeTenantMismatch,
			Message: "The credential and the trusted proxy name different tenants."}
	}
	if e, ok := errors.AsType[*jwt.Error](err); ok {
		return nil, &llmapi.Error{Status: http.StatusUnauthorized, Code: llmapi.CodeInvalidToken,
			Message: "The token is not accepted: " + e.Reason + "."}
	}
	return nil, &llmapi.Error{Status: http.StatusUnauthorized, Code: llmapi.CodeInvalidAPIKey,
		Message: "The API key is unknown, revoked or expired."}
}
