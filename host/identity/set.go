package identity

import (
	"bytes"
	"crypto/hmac"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync/atomic"
	"time"
)

// SetConfig holds the credentials of one revision of the rules.
type SetConfig struct {
	Keys         *KeyFile     // nil = the configuration names no key file; not kept
	Certificates Certificates // of clients
	Tokens       Tokens       // nil = no issuer is configured
	Anonymous    string       // tenant of requests without credentials, "" = they are refused
	Disabled     []string     // tenants whose requests are refused, even with valid credentials
}

// Set holds the credentials of one revision. It is immutable, except for the keys that
// issuers of tokens publish, and safe for concurrent use. Its counts are kept in its
// Store.
type Set struct {
	store     *Store
	byMAC     map[mac]*entry
	records   []Record
	entries   []*entry // of records
	certs     map[string]*Principal
	grants    Certificates // the grants from which certs was made
	tokens    Tokens
	anonymous *Principal
	open      bool // neither keys nor tokens are configured
	disabled  map[string]bool
}

// Tokens verifies tokens that issuers made, such as JWTs.
type Tokens interface {
	// Verify returns the principal of a token and whether it is accepted on the admin
	// listener. The error wraps ErrUnknownKey. It may be called concurrently; token
	// is valid during the call.
	Verify(token []byte, now time.Time) (p *Principal, admin bool, err error)
}

// isToken reports whether a credential has the form of a JWT: three parts, the first
// of which begins like the base64 of {.
func isToken(b []byte) bool { return len(b) > 4 && b[0] == 'e' && bytes.Count(b, dot) == 2 }

var dot = []byte(".")

type entry struct {
	mac       mac
	principal *Principal
	expires   time.Time
	revoked   bool
	lastUse   *atomic.Int64 // Unix seconds; shared by the sets of one store
}

// NewSet checks c and returns the set of its credentials. A set has no effect until it
// is used.
func (s *Store) NewSet(c SetConfig) (*Set, error) {
	set := &Set{store: s, tokens: c.Tokens, open: c.Keys == nil && c.Tokens == nil, disabled: map[string]bool{}}
	if c.Anonymous != "" {
		if !validName(c.Anonymous) {
			return nil, fmt.Errorf("identity: invalid anonymous tenant %q", c.Anonymous)
		}
		set.anonymous = &Principal{Tenant: c.Anonymous, Method: MethodAnonymous}
	}
	if c.Keys != nil {
		if s.hasher == nil && len(c.Keys.Keys) > 0 {
			return nil, errors.New("identity: API keys are configured but no pepper")
		}
		if s.hasher != nil && c.Keys.PepperID != "" && c.Keys.PepperID != s.hasher.id {
			return nil, fmt.Errorf("%w (id %s, this router's has id %s): none of its keys would be accepted",
				ErrPepper, c.Keys.PepperID, s.hasher.id)
		}
		if err := c.Keys.validate(); err != nil {
			return nil, err
		}
		set.records = slices.Clone(c.Keys.Keys)
	}
	set.index()
	if err := set.certify(c.Certificates); err != nil {
		return nil, err
	}
	for _, t := range c.Disabled {
		set.disabled[t] = true
	}
	return set, nil
}

// index makes the entries of the records.
func (s *Set) index() {
	s.byMAC, s.entries = make(map[mac]*entry, len(s.records)), make([]*entry, 0, len(s.records))
	for i := range s.records {
		e := s.newEntry(&s.records[i])
		s.entries = append(s.entries, e)
		if !e.revoked {
			s.byMAC[e.mac] = e
		}
	}
}

func (s *Set) newEntry(r *Record) *entry {
	e := &entry{expires: r.Expires, revoked: !r.Revoked.IsZero(), lastUse: s.store.lastUse(r.ID), principal: &Principal{
		Tenant: r.Tenant, User: r.User, Groups: slices.Clone(r.Groups), Scopes: slices.Clone(r.Scopes),
		Labels: r.labels(), Method: MethodAPIKey, Issuer: r.Issuer, KeyID: r.ID,
	}}
	hex.Decode(e.mac[:], []byte(r.MAC)) // validated
	return e
}

// certify makes the principals of client certificates.
func (s *Set) certify(cs Certificates) error {
	s.grants, s.certs = cs, make(map[string]*Principal, len(cs))
	for san, g := range cs {
		p, err := g.Principal(MethodMTLS, san)
		if err != nil {
			return fmt.Errorf("%w (certificate %s)", err, san)
		}
		s.certs[san] = p
	}
	return nil
}

// Same reports whether two sets accept the same credentials.
func (s *Set) Same(o *Set) bool {
	noGrants := len(s.grants) == 0 && len(o.grants) == 0
	return s == o || s.store == o.store && s.tokens == o.tokens && s.open == o.open &&
		reflect.DeepEqual(s.anonymous, o.anonymous) && maps.Equal(s.disabled, o.disabled) && s.SameKeys(o) &&
		(noGrants || reflect.DeepEqual(s.grants, o.grants))
}

// SameKeys reports whether two sets have the same API keys.
func (s *Set) SameKeys(o *Set) bool {
	return s == o || len(s.records) == len(o.records) && (len(s.records) == 0 || reflect.DeepEqual(s.records, o.records))
}

// Tokens returns the verifier of tokens, nil if no issuer is configured.
func (s *Set) Tokens() Tokens { return s.tokens }

// Authenticate returns the principal of c on the clients' listener: of its key or
// token, else the one that a trusted proxy asserts, else that of its certificate,
// else the anonymous tenant if there is one. The error is ErrNoCredentials,
// ErrTooManyFailures, ErrDisagree or ErrTenantDisabled, or wraps ErrUnknownKey.
//
// A valid credential is accepted regardless of earlier failures from its address, so
// that no client can lock out another; keys are too long to be guessed. Where the
// configuration names neither a key file nor issuers of tokens, anonymous covers
// requests with any credential, because clients' SDKs always send one. It allocates
// nothing for keys and for tokens that were seen before.
func (s *Set) Authenticate(c *Credentials) (*Principal, error) {
	p, err := s.authenticate(c)
	if err == nil && len(s.disabled) > 0 && s.disabled[p.Tenant] {
		return nil, ErrTenantDisabled
	}
	return p, err
}

func (s *Set) authenticate(c *Credentials) (*Principal, error) {
	key, given := c.key()
	counts := &s.store.counts
	asserted := c.Proxy != nil && len(c.Asserted.Tenant) > 0
	if s.anonymous != nil && s.open {
		given = false
	}
	switch {
	case given:
		p, err := s.verify(c.Remote, key, given, false)
		if err == nil && asserted && p.Tenant != string(c.Asserted.Tenant) {
			counts.unknown.Add(1)
			return nil, ErrDisagree
		}
		return p, err
	case asserted:
		p, err := c.Asserted.principal(c.Proxy.Name())
		if err != nil {
			counts.unknown.Add(1)
			return nil, ErrUnknownKey
		}
		counts.ok.Add(1)
		return p, nil
	case c.Proxy == nil:
		if p := s.certificate(c.Certificate); p != nil {
			counts.ok.Add(1)
			return p, nil
		}
	}
	if s.anonymous != nil {
		counts.anonymous.Add(1)
		return s.anonymous, nil
	}
	counts.missing.Add(1)
	return nil, ErrNoCredentials
}

// Verify is Authenticate for the admin listener: only keys, and tokens of issuers
// that are configured for it, are accepted. Operators of a disabled tenant are not
// locked out.
func (s *Set) Verify(c *Credentials) (*Principal, error) {
	key, given := c.key()
	return s.verify(c.Remote, key, given, true)
}

func (s *Set) verify(remote netip.Addr, key []byte, given, onlyAdmin bool) (*Principal, error) {
	st := s.store
	if !given {
		st.counts.missing.Add(1)
		return nil, ErrNoCredentials
	}
	err := ErrUnknownKey
	if s.tokens != nil && isToken(key) {
		p, admin, e := s.tokens.Verify(key, st.now())
		if e == nil && (admin || !onlyAdmin) {
			st.counts.ok.Add(1)
			return p, nil
		}
		if e != nil {
			err = e
		}
	}
	if e := s.lookup(key); e != nil {
		st.counts.ok.Add(1)
		return e.principal, nil
	}
	if st.failures.exceeded(remote, st.now()) {
		st.counts.limited.Add(1)
		return nil, ErrTooManyFailures
	}
	st.counts.unknown.Add(1)
	return nil, err
}

// lookup returns the entry of a valid key, else nil. The map is searched by the keyed
// hash, which a client cannot choose, and the hit is compared in constant time.
func (s *Set) lookup(key []byte) *entry {
	st := s.store
	if st.hasher == nil || len(key) == 0 || len(key) > maxKeyLen {
		return nil
	}
	m := st.hasher.of(key)
	e := s.byMAC[m]
	if e == nil || !hmac.Equal(e.mac[:], m[:]) {
		return nil
	}
	now := st.now()
	if !e.expires.IsZero() && !now.Before(e.expires) {
		return nil
	}
	if sec := now.Unix(); e.lastUse.Load() != sec {
		e.lastUse.Store(sec)
		st.used.Store(true)
	}
	return e
}

// certificate returns the principal of a client certificate, nil if it has none. A
// certificate with names of two principals is ambiguous and has none.
func (s *Set) certificate(cert *x509.Certificate) (found *Principal) {
	if cert == nil {
		return nil
	}
	for _, san := range SANs(cert) {
		if p := s.certs[san]; p != nil {
			if found != nil {
				return nil
			}
			found = p
		}
	}
	return found
}

// List returns the records of the keys, with the time of their last use in this
// process.
func (s *Set) List() []Record {
	list := slices.Clone(s.records)
	for i := range list {
		if sec := s.entries[i].lastUse.Load(); sec != 0 {
			list[i].LastUse = time.Unix(sec, 0).UTC()
		}
	}
	return list
}

// Usable returns how many keys are not revoked.
func (s *Set) Usable() int { return len(s.byMAC) }

// WithKeys returns s with these records, which replace those with the same ids. They
// must be valid, as those of a KeyFile are.
func (s *Set) WithKeys(records ...Record) *Set {
	next := *s
	next.records, next.open = slices.Clone(s.records), false
	for _, r := range records {
		i := slices.IndexFunc(next.records, func(o Record) bool { return o.ID == r.ID })
		if i < 0 {
			next.records = append(next.records, r)
			continue
		}
		next.records[i] = r
	}
	next.index()
	return &next
}
