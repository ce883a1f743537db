package admin

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// Identifier verifies credentials. The error is one of package identity.
type Identifier interface {
	Verify(c *identity.Credentials) (*identity.Principal, error)
}

// Question is what a sender wants to do.
type Question struct {
	Principal *identity.Principal
	Verb      string // area:action
	Object    string // kind/name, or a name alone if there is one of the kind
	Version   string // digest, or its beginning, of what is activated; "" = not given
	Own       bool   // what is activated comes with the request: the sender is its author
	Undo      bool   // what is activated was in force before
}

// Authorizer narrows what scopes allow: both must agree. It is not called for the
// admin token, so that no policy can lock out all operators. reason is shown to the
// sender.
type Authorizer interface {
	Authorize(q *Question) (allow bool, reason string)
}

// Recorder keeps the audit log.
type Recorder interface{ Append(e audit.Event) error }

// root is the holder of the admin token.
var root = &identity.Principal{Method: identity.MethodRoot}

// scraper is a loopback client that reads the metrics without a credential.
var scraper = &identity.Principal{Method: "loopback", Scopes: []string{ScopeMetrics}}

type principalKey struct{}

// principal returns the sender, which authorised put in the context: the mux in
// between passes nothing else.
func principal(r *http.Request) *identity.Principal {
	p, _ := r.Context().Value(principalKey{}).(*identity.Principal)
	return p
}

// identify verifies the sender.
func (s *Server) identify(r *http.Request) (*identity.Principal, error) {
	switch {
	case s.access().tokenOK(r):
		return root, nil
	case s.cfg.LoopbackMetrics && r.URL.Path == "/metrics" && fromLoopback(r):
		return scraper, nil
	case s.cfg.Identity == nil:
		return nil, identity.ErrUnknownKey
	}
	c := identity.Credentials{Authorization: []byte(r.Header.Get("Authorization")), Remote: remote(r)}
	return s.cfg.Identity.Verify(&c)
}

func remote(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr()
}

// authorised passes on requests of known senders. Of other requests it records the
// route of api, but no text that the sender chose.
func (s *Server) authorised(api *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := s.identify(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, p)))
		case errors.Is(err, identity.ErrTooManyFailures):
			w.Header().Set("Retry-After", "60")
			writeError(w, http.StatusTooManyRequests, "too_many_failures",
				"Too many unknown credentials from this address; wait a minute.")
		default:
			_, pattern := api.Handler(r)
			if pattern == "/" {
				pattern = r.Method + " unknown path"
			}
			s.record(r, &s.strangers, audit.Event{Actor: "unknown", Verb: pattern, Result: audit.Refused,
				Detail: map[string]string{"why": "unknown credentials"}})
			w.Header().Set("WWW-Authenticate", `Bearer realm="kvasir admin"`)
			writeError(w, http.StatusUnauthorized, "invalid_token", "The admin token, API key or JWT is missing or wrong "+
				"(Authorization: Bearer …).")
		}
	})
}

// scoped returns nil if the sender has a scope; otherwise it records the refusal.
func (c *call) scoped(scope, object string) error {
	if holds(c.principal, scope) {
		return nil
	}
	return c.refuse(Action(scope), object, "This requires the scope "+scope+
		", which "+c.principal.Name()+" does not have.")
}

// permit returns nil if the sender may use a scope on an object, by its scopes and
// by policy; otherwise it records the refusal.
func (c *call) permit(scope, object string) error {
	return c.permitted(Question{Verb: scope, Object: object})
}

// permitted is permit for a question with more than scope and object.
func (c *call) permitted(q Question) error {
	if err := c.scoped(q.Verb, q.Object); err != nil {
		return err
	}
	a := c.cfg.Authorizer
	if q.Principal = asPolicySees(c.principal, q.Verb); a == nil || q.Principal.Method == identity.MethodRoot {
		return nil
	}
	if ok, reason := a.Authorize(&q); !ok {
		return c.refuse(Action(q.Verb), q.Object, "Denied by policy: "+reason)
	}
	return nil
}

// refuse records a refusal and returns it as an answer with 403.
func (c *call) refuse(action Action, object, why string) error {
	c.recordRefusal(action, object, why)
	return &apiError{http.StatusForbidden, "forbidden", why}
}

func (c *call) recordRefusal(action Action, object, why string) {
	c.record(c.r, &c.known, audit.Event{Actor: c.principal.Name(), Verb: string(action), Object: object,
		Result: audit.Refused,
		Detail: map[string]string{"why": why}})
}
