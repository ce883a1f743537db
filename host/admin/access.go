package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// Identifier tells who shows a credential. The error is one of identity's.
type Identifier interface {
	Verify(c *identity.Credentials) (*identity.Principal, error)
}

// Question is what somebody wants to do.
type Question struct {
	Principal *identity.Principal
	Verb      string // area:action
	Object    string // kind/name, or the name of what there is one of
	Version   string // digest, or its beginning, of what is activated; "" = none was named
	Own       bool   // what is activated is sent along: who asks is its author
	Undo      bool   // what runs again was in force before
}

// Authorizer narrows what scopes allow: both must agree. It is asked for
// everybody but the holder of the admin token, so that no policy can lock all
// operators out. reason is shown to who was refused.
type Authorizer interface {
	Authorize(q *Question) (allow bool, reason string)
}

// Recorder keeps the audit log.
type Recorder interface{ Append(e audit.Event) error }

// root is who holds the admin token.
var root = &identity.Principal{Method: identity.MethodRoot}

// scraper is who reads the metrics from loopback without a token.
var scraper = &identity.Principal{Method: "loopback", Scopes: []string{ScopeMetrics}}

type principalKey struct{}

// principal returns who asks. It stands in the context because the mux, which
// is in between, hands on nothing else; authorised put it there.
func principal(r *http.Request) *identity.Principal {
	p, _ := r.Context().Value(principalKey{}).(*identity.Principal)
	return p
}

// identify returns who asks, nil with the error if nobody does.
func (s *Server) identify(r *http.Request) (*identity.Principal, error) {
	switch {
	case s.guard.tokenOK(r):
		return root, nil
	case s.guard.loopbackMetrics && r.URL.Path == "/metrics" && fromLoopback(r):
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

// authorised lets requests pass whose sender is known. Of others it records which
// path of api they asked for, but nothing that they wrote themselves.
func (s *Server) authorised(api *http.ServeMux, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := s.identify(r)
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, p)))
		case errors.Is(err, identity.ErrTooManyFailures):
			w.Header().Set("Retry-After", "60")
			writeError(w, http.StatusTooManyRequests, "too_many_failures", "Too many wrong credentials from this address; wait a minute.")
		default:
			_, pattern := api.Handler(r)
			if pattern == "/" {
				pattern = r.Method + " unknown path"
			}
			s.record(r, &s.strangers, audit.Event{Actor: "unknown", Verb: pattern, Result: audit.Refused, Detail: map[string]string{"why": "unknown credentials"}})
			w.Header().Set("WWW-Authenticate", `Bearer realm="kvasir admin"`)
			writeError(w, http.StatusUnauthorized, "invalid_token", "The admin token, API key or JWT is missing or wrong (Authorization: Bearer …).")
		}
	})
}

// scoped reports whether the sender has a scope; where not it answers and
// records that.
func (s *Server) scoped(w http.ResponseWriter, r *http.Request, scope, object string) bool {
	p := principal(r)
	if holds(p, scope) {
		return true
	}
	s.refuse(w, r, scope, object, "This needs the scope "+scope+", which "+p.Name()+" does not have.")
	return false
}

// permit reports whether the sender may do verb to object, by scope and by
// policy; where not it answers and records that.
func (s *Server) permit(w http.ResponseWriter, r *http.Request, verb, object string) bool {
	return s.permitted(w, r, Question{Verb: verb, Object: object})
}

// permitted is permit for a question that says more than verb and object.
func (s *Server) permitted(w http.ResponseWriter, r *http.Request, q Question) bool {
	if !s.scoped(w, r, q.Verb, q.Object) {
		return false
	}
	a := s.cfg.Authorizer
	if q.Principal = asPolicySees(principal(r), q.Verb); a == nil || q.Principal.Method == identity.MethodRoot {
		return true
	}
	ok, reason := a.Authorize(&q)
	if !ok {
		s.refuse(w, r, q.Verb, q.Object, "Denied by policy: "+reason)
	}
	return ok
}

// refuse answers with 403 and records it.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, verb, object, why string) {
	s.refused(r, verb, object, why)
	writeError(w, http.StatusForbidden, "forbidden", why)
}

func (s *Server) refused(r *http.Request, verb, object, why string) {
	s.record(r, &s.known, audit.Event{Actor: principal(r).Name(), Verb: verb, Object: object, Result: audit.Refused, Detail: map[string]string{"why": why}})
}

// record appends a refusal to the audit log unless there were too many.
func (s *Server) record(r *http.Request, b *budget, e audit.Event) {
	if s.cfg.Audit == nil {
		return
	}
	ok, dropped := b.take(s.now())
	if !ok {
		return
	}
	if dropped > 0 {
		e.Detail["not_recorded_before"] = fmt.Sprint(dropped)
	}
	e.Detail["remote"] = r.RemoteAddr
	if err := s.cfg.Audit.Append(s.clean(e)); err != nil {
		s.cfg.Log.Error("audit log", "err", err)
	}
}

// clean returns e without credentials: those that package secret recognises, and
// the admin token, whose form is the operator's choice.
func (s *Server) clean(e audit.Event) audit.Event {
	e.Verb, e.Object = s.redact(e.Verb), s.redact(e.Object)
	detail := make(map[string]string, len(e.Detail))
	for k, v := range e.Detail {
		detail[s.redact(k)] = s.redact(v)
	}
	e.Detail = detail
	return e
}

func (s *Server) redact(text string) string {
	return secret.Redact(strings.ReplaceAll(text, s.cfg.Token, secret.Mark))
}

// deed is something that an admin request does, as the audit log tells it.
type deed struct {
	verb, object string
	detail       map[string]string // may grow while it is done; never a secret
}

// recorded is a response that says which version of what is in force after a
// change.
type recorded interface {
	// auditDetail returns pairs of names and values; empty values are left out.
	auditDetail() []string
}

func (r *ReloadResult) auditDetail() []string {
	return []string{"config_sha256", r.ConfigSHA256, "revision", number(r.Revision)}
}

func (c *PluginChange) auditDetail() []string {
	return []string{"digest", c.Digest, "signer", c.Signer, "revision", number(c.Revision)}
}

func (p *PolicyStatus) auditDetail() []string {
	return []string{"policy_revision", p.Revision, "revision", number(p.RulesRevision)}
}

// number returns n in decimal, "" for 0.
func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// outcome notes which version of what is in force after a deed.
func (d *deed) outcome(v any) {
	r, ok := v.(recorded)
	if !ok {
		return
	}
	pairs := r.auditDetail()
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			d.detail[pairs[i]] = pairs[i+1]
		}
	}
}

// change does a deed between two lines of the audit log and answers. If the
// first cannot be written nothing is done.
func (s *Server) change(w http.ResponseWriter, r *http.Request, d deed, do func(context.Context) (any, error)) {
	if d.detail == nil {
		d.detail = map[string]string{}
	}
	d.detail["remote"] = r.RemoteAddr
	if err := s.append(r, &d, audit.Begun); err != nil {
		s.cfg.Log.Error("audit log", "err", err)
		writeError(w, http.StatusServiceUnavailable, "audit_unavailable", "Nothing was done, since the audit log cannot be written: "+err.Error())
		return
	}
	s.answer(w, r, func(ctx context.Context) (any, error) {
		v, err := do(ctx)
		result := audit.OK
		if err != nil {
			result, d.detail["why"] = audit.Failed, err.Error()
		} else {
			d.outcome(v)
		}
		if e := s.append(r, &d, result); e != nil {
			s.cfg.Log.Error("audit log: the end of a deed is not in it", "verb", d.verb, "object", d.object, "result", result, "err", e)
			if err == nil {
				return nil, fmt.Errorf("it was done, but its end is not in the audit log: %w", e)
			}
		}
		return v, err
	})
}

func (s *Server) append(r *http.Request, d *deed, result string) error {
	s.cfg.Log.Info("admin", "actor", principal(r).Name(), "verb", d.verb, "object", s.redact(d.object), "result", result, "remote", r.RemoteAddr)
	if s.cfg.Audit == nil {
		return nil
	}
	return s.cfg.Audit.Append(s.clean(audit.Event{Actor: principal(r).Name(), Verb: d.verb, Object: d.object, Result: result, Detail: d.detail}))
}
