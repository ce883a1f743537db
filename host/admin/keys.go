package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/internal/secret"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// Keys manages API keys. What it refuses wraps ErrRefused, ids it does not know
// ErrNotFound. What it puts in force is so before it returns.
type Keys interface {
	// Keys returns the records of all keys, without their hashes.
	Keys(ctx context.Context) ([]identity.Record, error)
	// Match returns the records that ref refers to, as identity.Match does.
	Match(ctx context.Context, ref string) ([]identity.Record, error)
	// Issue makes a key. It is in the answer and nowhere else.
	Issue(ctx context.Context, q *KeyRequest) (IssuedKey, error)
	// Rotate issues a successor of key id, which ends after grace.
	Rotate(ctx context.Context, id string, grace time.Duration, issuer string) (IssuedKey, error)
	// Revoke ends a key: the next request with it is refused.
	Revoke(ctx context.Context, id string) (RevokedKey, error)
}

// KeyList is the answer to a request for all keys: those of the tenants that the
// sender's scopes reach.
type KeyList struct {
	Keys []identity.Record `json:"keys"`
}

// RevokedKey is the answer of a router that refuses a key from this moment on.
type RevokedKey struct {
	ID    string `json:"id"`
	State string `json:"state"` // revoked
}

// KeyRequest is the body of a request for a key.
type KeyRequest struct {
	identity.Grant
	Note string `json:"note,omitempty"`
	TTL  string `json:"ttl,omitempty"` // how long it is valid, such as 720h; "" = until it is revoked

	Terms identity.Terms `json:"-"` // filled by Check but for the issuer
}

// Check reports what is wrong with q and fills in its terms.
func (q *KeyRequest) Check() error {
	if !identity.ValidTenant(q.Tenant) {
		return fmt.Errorf("tenant %q: want 1 to 128 letters, digits and ._@:/+-", q.Tenant)
	}
	if len(q.Note) > maxNote {
		return fmt.Errorf("note is longer than %d bytes", maxNote)
	}
	if field := q.secretIn(); field != "" {
		return fmt.Errorf("%s holds an API key or token: a key's record is read by others and must not hold one", field)
	}
	q.Terms.Note = q.Note
	if q.TTL != "" {
		var err error
		if q.Terms.TTL, err = time.ParseDuration(q.TTL); err != nil || q.Terms.TTL < time.Second {
			return fmt.Errorf("ttl %q: want a time such as 720h", q.TTL)
		}
	}
	return CheckScopes(q.Scopes)
}

// secretIn returns the name of a field that holds a credential, "" if none does.
func (q *KeyRequest) secretIn() string {
	fields := map[string][]string{"tenant": {q.Tenant}, "user": {q.User}, "note": {q.Note}, "groups": q.Groups, "scopes": q.Scopes,
		"labels": slices.AppendSeq(slices.Collect(maps.Keys(q.Labels)), maps.Values(q.Labels))}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.ContainsFunc(fields[name], secret.Has) {
			return name
		}
	}
	return ""
}

// IssuedKey is the answer with a key.
type IssuedKey struct {
	ID      string    `json:"id"`
	Key     string    `json:"key"`
	Tenant  string    `json:"tenant"`
	Expires time.Time `json:"expires,omitzero"`
	Old     string    `json:"old,omitempty"`        // id of the key that it follows
	OldEnds time.Time `json:"old_expires,omitzero"` // when that one ends
}

// Issued is the answer with a key and its record.
func Issued(key string, r *identity.Record) IssuedKey {
	return IssuedKey{ID: r.ID, Key: key, Tenant: r.Tenant, Expires: r.Expires}
}

// Follows is k as the successor of a key.
func (k IssuedKey) Follows(old *identity.Record) IssuedKey {
	k.Old, k.OldEnds = old.ID, old.Expires
	return k
}

// maxNote bounds the free text in a key's record.
const maxNote = 256

// keyRequest reads the body of POST /v1/keys.
func keyRequest(b []byte) (*KeyRequest, error) {
	var q KeyRequest
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return nil, fmt.Errorf("%w: want {\"tenant\": …, \"user\", \"groups\", \"scopes\", \"labels\", \"note\", \"ttl\"}: %v", ErrRefused, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: data after the object", ErrRefused)
	}
	if err := q.Check(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrRefused, err)
	}
	return &q, nil
}

// issueKey serves POST /v1/keys.
func (s *Server) issueKey(w http.ResponseWriter, r *http.Request) {
	body, ok := s.body(w, r)
	if !ok {
		return
	}
	q, err := keyRequest(body)
	if err != nil {
		s.answer(w, r, func(context.Context) (any, error) { return nil, err })
		return
	}
	object := "tenant/" + q.Tenant
	if !s.mayIssueFor(w, r, q.Tenant) || !s.permit(w, r, ScopeKeyIssue, object) || !s.mayGrant(w, r, object, q.Tenant, q.Scopes) {
		return
	}
	q.Terms.Issuer = principal(r).Name()
	d := deed{ScopeKeyIssue, object, map[string]string{"user": q.User, "scopes": fmt.Sprint(q.Scopes), "groups": fmt.Sprint(q.Groups)}}
	s.change(w, r, d, func(ctx context.Context) (any, error) {
		k, err := s.cfg.Keys.Issue(ctx, q)
		d.detail["key"] = k.ID
		return k, err
	})
}

// listKeys serves GET /v1/keys.
func (s *Server) listKeys(w http.ResponseWriter, r *http.Request) {
	s.answer(w, r, func(ctx context.Context) (any, error) {
		all, err := s.cfg.Keys.Keys(ctx)
		return KeyList{reachable(principal(r), ScopeKeyRead, all)}, err
	})
}

// reachable returns the records of the tenants that a scope of p reaches.
func reachable(p *identity.Principal, scope string, all []identity.Record) []identity.Record {
	out := []identity.Record{}
	for i := range all {
		if holdsFor(p, scope, all[i].Tenant) {
			out = append(out, all[i])
		}
	}
	return out
}

// find returns the one key that the path refers to, among those that a scope of
// the sender reaches. Where there is not one it answers and records that: with
// the same words whether there is no such key or one of another tenant.
func (s *Server) find(w http.ResponseWriter, r *http.Request, action, scope string) *identity.Record {
	ref := r.PathValue("id")
	shown := identity.ShowRef(ref)
	all, err := s.cfg.Keys.Match(r.Context(), ref)
	if err == nil {
		found := reachable(principal(r), scope, all)
		switch {
		case len(found) == 1:
			return &found[0]
		case len(found) > 1:
			ids := make([]string, len(found))
			for i := range found {
				ids[i] = found[i].ID
			}
			err = fmt.Errorf("%w: %q names %d keys; say which: %s", ErrRefused, shown, len(found), strings.Join(ids, ", "))
		case len(all) > 0:
			s.refused(r, action, "key/"+all[0].ID, "a key of tenant "+all[0].Tenant+", which "+scope+" of the sender does not reach")
		}
		if len(found) == 0 {
			err = fmt.Errorf("%w: there is no key %q in the tenants that you manage", ErrNotFound, shown)
		}
	}
	if len(all) == 0 {
		s.record(r, &s.known, audit.Event{Actor: principal(r).Name(), Verb: action, Object: "key/" + shown, Result: audit.Failed,
			Detail: map[string]string{"why": err.Error()}})
	}
	s.answer(w, r, func(context.Context) (any, error) { return nil, err })
	return nil
}

// rotateKey serves POST /v1/keys/{id}/rotate?grace=24h.
func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request) {
	grace, err := time.ParseDuration(r.URL.Query().Get("grace"))
	if err != nil || grace < 0 {
		writeError(w, http.StatusUnprocessableEntity, "refused", "Say ?grace=24h: how long the old key is still accepted.")
		return
	}
	rec := s.find(w, r, "key:rotate", ScopeKeyIssue)
	if rec == nil || !s.permit(w, r, ScopeKeyIssue, "key/"+rec.ID) || !s.permit(w, r, ScopeKeyIssue, "tenant/"+rec.Tenant) || !s.mayGrant(w, r, "key/"+rec.ID, rec.Tenant, rec.Scopes) {
		return
	}
	d := deed{"key:rotate", "key/" + rec.ID, map[string]string{"tenant": rec.Tenant, "grace": grace.String()}}
	s.change(w, r, d, func(ctx context.Context) (any, error) {
		k, err := s.cfg.Keys.Rotate(ctx, rec.ID, grace, principal(r).Name())
		d.detail["key"] = k.ID
		return k, err
	})
}

// revokeKey serves POST /v1/keys/{id}/revoke.
func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request) {
	rec := s.find(w, r, ScopeKeyRevoke, ScopeKeyRevoke)
	if rec == nil || !s.permit(w, r, ScopeKeyRevoke, "key/"+rec.ID) || !s.permit(w, r, ScopeKeyRevoke, "tenant/"+rec.Tenant) {
		return
	}
	d := deed{verb: ScopeKeyRevoke, object: "key/" + rec.ID, detail: map[string]string{"tenant": rec.Tenant}}
	s.change(w, r, d, func(ctx context.Context) (any, error) { return s.cfg.Keys.Revoke(ctx, rec.ID) })
}

// mayIssueFor reports whether the sender's scopes reach a tenant; where not it
// answers and records that.
func (s *Server) mayIssueFor(w http.ResponseWriter, r *http.Request, tenant string) bool {
	p := principal(r)
	if holdsFor(p, ScopeKeyIssue, tenant) {
		return true
	}
	s.refuse(w, r, ScopeKeyIssue, "tenant/"+tenant, fmt.Sprintf("A key for tenant %q needs the scope %s@%s or %s@*, which %s does not have.",
		tenant, ScopeKeyIssue, tenant, ScopeKeyIssue, p.Name()))
	return false
}

// mayGrant reports whether the sender may give a key of tenant these scopes;
// where not it answers and records that.
func (s *Server) mayGrant(w http.ResponseWriter, r *http.Request, object, tenant string, scopes []string) bool {
	p := principal(r)
	if scope := ungrantable(p, tenant, scopes); scope != "" {
		s.refuse(w, r, ScopeKeyIssue, object, "You can grant only scopes that you hold: "+p.Name()+" does not hold "+scope+" for tenant "+tenant+".")
		return false
	}
	return true
}
