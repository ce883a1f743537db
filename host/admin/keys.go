package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// Keys manages API keys. What it refuses wraps ErrRefused, ids it does not know
// ErrNotFound. What it puts in force is so before it returns.
type Keys interface {
	// Keys lists the keys, never the keys themselves.
	Keys(ctx context.Context) (any, error)
	// Key returns one record.
	Key(ctx context.Context, id string) (*identity.Record, error)
	// Issue makes a key. It is in the answer and nowhere else.
	Issue(ctx context.Context, q *KeyRequest) (IssuedKey, error)
	// Rotate issues a successor of key id, which ends after grace.
	Rotate(ctx context.Context, id string, grace time.Duration, issuer string) (IssuedKey, error)
	// Revoke ends a key: the next request with it is refused.
	Revoke(ctx context.Context, id string) (any, error)
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
	q.Terms.Note = q.Note
	if q.TTL != "" {
		var err error
		if q.Terms.TTL, err = time.ParseDuration(q.TTL); err != nil || q.Terms.TTL < time.Second {
			return fmt.Errorf("ttl %q: want a time such as 720h", q.TTL)
		}
	}
	return CheckScopes(q.Scopes)
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
	if !s.permit(w, r, ScopeKeyIssue, object) || !s.mayGrant(w, r, object, q.Scopes) {
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

// rotateKey serves POST /v1/keys/{id}/rotate?grace=24h.
func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	grace, err := time.ParseDuration(r.URL.Query().Get("grace"))
	if err != nil || grace < 0 {
		writeError(w, http.StatusUnprocessableEntity, "refused", "Say ?grace=24h: how long the old key is still accepted.")
		return
	}
	rec, err := s.cfg.Keys.Key(r.Context(), id)
	if err != nil {
		s.answer(w, r, func(context.Context) (any, error) { return nil, err })
		return
	}
	if !s.permit(w, r, ScopeKeyIssue, "tenant/"+rec.Tenant) || !s.mayGrant(w, r, "key/"+id, rec.Scopes) {
		return
	}
	d := deed{"key:rotate", "key/" + id, map[string]string{"tenant": rec.Tenant, "grace": grace.String()}}
	s.change(w, r, d, func(ctx context.Context) (any, error) {
		k, err := s.cfg.Keys.Rotate(ctx, id, grace, principal(r).Name())
		d.detail["key"] = k.ID
		return k, err
	})
}

// revokeKey serves POST /v1/keys/{id}/revoke.
func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	rec, err := s.cfg.Keys.Key(r.Context(), id)
	if err == nil && !s.permit(w, r, ScopeKeyRevoke, "tenant/"+rec.Tenant) {
		return
	}
	s.change(w, r, deed{verb: ScopeKeyRevoke, object: "key/" + id}, func(ctx context.Context) (any, error) { return s.cfg.Keys.Revoke(ctx, id) })
}

// mayGrant reports whether the sender may give a key these scopes; where not it
// answers.
func (s *Server) mayGrant(w http.ResponseWriter, r *http.Request, object string, scopes []string) bool {
	p := principal(r)
	if scope := ungrantable(p, scopes); scope != "" {
		s.refuse(w, r, ScopeKeyIssue, object, "A key with the scope "+scope+" can be issued only by who has it, which "+p.Name()+" has not.")
		return false
	}
	return true
}
