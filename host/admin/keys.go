package admin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// KeyList is the keys of the tenants that the sender's scopes reach.
type KeyList struct {
	Keys []identity.Record `json:"keys"`
}

// RevokedKey reports that the router refuses a key from now on.
type RevokedKey struct {
	ID    string `json:"id"`
	State string `json:"state"` // revoked
}

// IssuedKey is a new key. No other response contains a key.
type IssuedKey struct {
	ID      string    `json:"id"`
	Key     string    `json:"key"`
	Tenant  string    `json:"tenant"`
	Expires time.Time `json:"expires,omitzero"`
	Old     string    `json:"old,omitempty"`        // id of the key that it follows
	OldEnds time.Time `json:"old_expires,omitzero"` // when that one ends
}

// Issued returns the response for a key and its record.
func Issued(key string, r *identity.Record) IssuedKey {
	return IssuedKey{ID: r.ID, Key: key, Tenant: r.Tenant, Expires: r.Expires}
}

// Follows returns k as the successor of old.
func (k IssuedKey) Follows(old *identity.Record) IssuedKey {
	k.Old, k.OldEnds = old.ID, old.Expires
	return k
}

// issueKey issues a key for a tenant that the sender's scopes reach.
func (s *Server) issueKey(c *call, q *KeyRequest) (none IssuedKey, err error) {
	if err := readBody(c, q); err != nil {
		return none, err
	}
	if err := q.Check(); err != nil {
		return none, fmt.Errorf("%w: %v", ErrRefused, err)
	}
	object := "tenant/" + q.Tenant
	for _, check := range []func() error{
		func() error { return c.mayIssueFor(q.Tenant) },
		func() error { return c.permit(ScopeKeyIssue, object) },
		func() error { return c.mayGrant(object, q.Tenant, q.Scopes) },
	} {
		if err := check(); err != nil {
			return none, err
		}
	}
	q.Terms.Issuer = c.principal.Name()
	a := auditedAction{ActionKeyIssue, object, map[string]string{"user": q.User, "scopes": fmt.Sprint(q.Scopes),
		"groups": fmt.Sprint(q.Groups)}}
	return audited(c, a, func(ctx context.Context) (IssuedKey, error) { return s.cfg.Keys.Issue(ctx, q) })
}

// listKeys returns the records of the tenants that the sender's scopes reach.
func (s *Server) listKeys(c *call, _ *None) (KeyList, error) {
	all, err := s.cfg.Keys.Keys(c.context())
	return KeyList{reachable(c.principal, ScopeKeyRead, all)}, err
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

// find returns the only key that ref refers to among those that a scope of the
// sender reaches. If there is none it records that; the error is the same for an
// unknown key and for a key of another tenant.
func (c *call) find(ref string, action Action, scope string) (*identity.Record, error) {
	shown := identity.ShowRef(ref)
	all, err := c.cfg.Keys.Match(c.context(), ref)
	if err != nil {
		return nil, err
	}
	found := reachable(c.principal, scope, all)
	switch {
	case len(found) == 1:
		return &found[0], nil
	case len(found) > 1:
		ids := make([]string, len(found))
		for i := range found {
			ids[i] = found[i].ID
		}
		return nil, fmt.Errorf("%w: %q names %d keys; give the id of one: %s", ErrRefused, shown, len(found),
			strings.Join(ids, ", "))
	case len(all) > 0:
		c.recordRefusal(action, "key/"+all[0].ID, "a key of tenant "+all[0].Tenant+", which the sender's "+scope+" does "+
			"not cover")
	default:
		c.record(c.r, &c.known, audit.Event{Actor: c.principal.Name(), Verb: string(action), Object: "key/" + shown,
			Result: audit.Failed,
			Detail: map[string]string{"why": "unknown key"}})
	}
	return nil, fmt.Errorf("%w: no key %q in the tenants that you manage", ErrNotFound, shown)
}

// permitKey returns nil if the sender may use a scope on a key. Policy is asked about
// the key's id, however the sender referred to it, and about its tenant.
func (c *call) permitKey(scope string, rec *identity.Record) error {
	if err := c.permit(scope, "key/"+rec.ID); err != nil {
		return err
	}
	return c.permit(scope, "tenant/"+rec.Tenant)
}

// rotateKey issues the successor of a key.
func (s *Server) rotateKey(c *call, q *RotateRequest) (none IssuedKey, err error) {
	rec, err := c.find(q.Key, ActionKeyRotate, ScopeKeyIssue)
	if err != nil {
		return none, err
	}
	if err := c.permitKey(ScopeKeyIssue, rec); err != nil {
		return none, err
	}
	if err := c.mayGrant("key/"+rec.ID, rec.Tenant, rec.Scopes); err != nil {
		return none, err
	}
	a := auditedAction{ActionKeyRotate, "key/" + rec.ID, map[string]string{"tenant": rec.Tenant,
		"grace": q.Grace.String()}}
	return audited(c, a, func(ctx context.Context) (IssuedKey, error) {
		return s.cfg.Keys.Rotate(ctx, rec.ID, q.Grace, c.principal.Name())
	})
}

// revokeKey ends a key.
func (s *Server) revokeKey(c *call, q *RevokeRequest) (none RevokedKey, err error) {
	rec, err := c.find(q.Key, ActionKeyRevoke, ScopeKeyRevoke)
	if err != nil {
		return none, err
	}
	if err := c.permitKey(ScopeKeyRevoke, rec); err != nil {
		return none, err
	}
	a := auditedAction{ActionKeyRevoke, "key/" + rec.ID, map[string]string{"tenant": rec.Tenant}}
	return audited(c, a, func(ctx context.Context) (RevokedKey, error) { return s.cfg.Keys.Revoke(ctx, rec.ID) })
}

// mayIssueFor returns nil if the sender's scopes reach a tenant; otherwise it records
// the refusal.
func (c *call) mayIssueFor(tenant string) error {
	if holdsFor(c.principal, ScopeKeyIssue, tenant) {
		return nil
	}
	return c.refuse(ActionKeyIssue, "tenant/"+tenant, fmt.Sprintf("A key for tenant %q requires the scope %s@%s or %s@*, "+
		"which %s does not have.",
		tenant, ScopeKeyIssue, tenant, ScopeKeyIssue, c.principal.Name()))
}

// mayGrant returns nil if the sender may give these scopes to a key of tenant;
// otherwise it records the refusal.
func (c *call) mayGrant(object, tenant string, scopes []string) error {
	scope := ungrantable(c.principal, tenant, scopes)
	if scope == "" {
		return nil
	}
	return c.refuse(ActionKeyIssue, object,
		"You can grant only scopes that you hold: "+c.principal.Name()+" does not hold "+scope+" for tenant "+tenant+".")
}
