// Package jwt verifies JSON Web Tokens (RFC 7519, RFC 8725) and turns them into
// principals.
//
// The configuration pins the algorithms, audience and keys of each issuer: a
// token's header selects one of them and cannot add any. Keys come from a file, or
// from a JWK Set that is fetched over https with bounds on size and time. If a
// fetch fails, the last keys stay in use until they are too old.
//
// A verified token is cached until it expires, so that the next request with it
// costs a lookup and a comparison but no signature check. Tokens never enter an
// error or a log.
package jwt

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/kvasir-router/kvasir/host/identity"
)

// Reasons why a token is refused, for metrics and the client. None of them reveals
// more than the token itself does.
const (
	ReasonMalformed = "malformed"
	ReasonTooLarge  = "too_large"
	ReasonAlgorithm = "algorithm"     // not one of those pinned
	ReasonHeader    = "header"        // crit, nested tokens, types other than tokens
	ReasonIssuer    = "issuer"        // not configured
	ReasonKey       = "key"           // the issuer has no such key
	ReasonNoKeys    = "no_keys"       // the issuer's keys could not be fetched for too long
	ReasonSignature = "signature"     // does not match
	ReasonClaims    = "claims"        // one is missing or of the wrong type
	ReasonAudience  = "audience"      // meant for another service
	ReasonExpired   = "expired"       // exp has passed
	ReasonNotYet    = "not_yet_valid" // nbf or iat is in the future
	ReasonTenant    = "tenant"        // one that the issuer may not name
)

var reasons = []string{ReasonMalformed, ReasonTooLarge, ReasonAlgorithm, ReasonHeader, ReasonIssuer, ReasonKey,
	ReasonNoKeys, ReasonSignature,
	ReasonClaims, ReasonAudience, ReasonExpired, ReasonNotYet, ReasonTenant}

// Error reports why a token was refused. It wraps identity.ErrUnknownKey.
type Error struct{ Reason string }

// Error implements error.
func (e *Error) Error() string { return "jwt: token refused: " + e.Reason }

// Unwrap returns identity.ErrUnknownKey.
func (e *Error) Unwrap() error { return identity.ErrUnknownKey }

// refusals holds one error per reason, so that a flood of bad tokens allocates
// none.
var refusals = func() map[string]*Error {
	m := map[string]*Error{}
	for _, r := range reasons {
		m[r] = &Error{r}
	}
	return m
}()

// maxToken bounds a token in bytes: half of the request head that the clients'
// listener accepts.
const maxToken = 8 << 10

// Verifier verifies tokens. It is safe for concurrent use; everything except its
// issuers' keys, its cache and its counts is immutable.
type Verifier struct {
	issuers map[string]*issuer // by iss
	order   []*issuer          // as configured
	cache   *cache

	hits, verified atomic.Uint64
	refused        map[string]*atomic.Uint64 // by reason; never written after New
}

// New returns a verifier for tokens of these issuers. It reads keys in files and
// fetches none. An issuer that prev (may be nil) has with the same configuration,
// and with the same keys in its file, keeps its keys. If nothing changed, New
// returns prev. Errors give the issuer's index in the list.
func New(issuers []Config, prev *Verifier) (*Verifier, error) { return build(issuers, prev, time.Now) }

func build(issuers []Config, prev *Verifier, now func() time.Time) (*Verifier, error) {
	v := &Verifier{issuers: map[string]*issuer{}, refused: map[string]*atomic.Uint64{}, cache: newCache()}
	for _, r := range reasons {
		v.refused[r] = new(atomic.Uint64)
	}
	if prev != nil {
		v.refused = prev.refused
	}
	var all []error
	for n, c := range issuers {
		if err := c.Validate(); err != nil {
			all = append(all, fmt.Errorf("jwt[%d]: %w", n, err))
			continue
		}
		if v.issuers[c.Issuer] != nil {
			all = append(all, fmt.Errorf("jwt[%d]: duplicate issuer %q", n, c.Issuer))
			continue
		}
		c.withDefaults()
		i, err := newIssuer(c, now)
		if err != nil {
			all = append(all, fmt.Errorf("jwt[%d]: %w", n, err))
			continue
		}
		if old := prev.same(i); old != nil {
			i = old
		}
		v.issuers[c.Issuer], v.order = i, append(v.order, i)
	}
	if len(all) == 0 && prev != nil && slices.Equal(v.order, prev.order) {
		return prev, nil // with its cache
	}
	return v, errors.Join(all...)
}

// same returns the issuer of v with the configuration of i and, if they are in a
// file, its keys; nil if there is none.
func (v *Verifier) same(i *issuer) *issuer {
	if v == nil {
		return nil
	}
	old := v.issuers[i.cfg.Issuer]
	if old == nil || old.ended.Load() || !old.cfg.equal(&i.cfg) ||
		i.client == nil && old.keys.Load().sum != i.keys.Load().sum {
		return nil
	}
	return old
}

// Verify returns the principal of a token, and whether the token is accepted on the
// admin listener. The error is an *Error. If the token names an unknown key, Verify
// may fetch keys, for at most two seconds.
func (v *Verifier) Verify(token []byte, now time.Time) (p *identity.Principal, admin bool, err error) {
	if e := v.cache.get(token, now); e != nil {
		v.hits.Add(1)
		return e.principal, e.issuer.cfg.Admin, nil
	}
	e, reason := v.verify(token, now)
	if reason != "" {
		v.refused[reason].Add(1)
		return nil, false, refusals[reason]
	}
	v.verified.Add(1)
	v.cache.put(e)
	return e.principal, e.issuer.cfg.Admin, nil
}

func (v *Verifier) verify(token []byte, now time.Time) (*entry, string) {
	if len(token) > maxToken {
		return nil, ReasonTooLarge
	}
	text := string(token)
	payload, reason := payloadOf(text)
	if reason != "" {
		return nil, reason
	}
	claims, err := object(payload)
	if err != nil {
		return nil, ReasonMalformed
	}
	iss, _ := claims["iss"].(string)
	i := v.issuers[iss] // only selects the keys to try
	if i == nil {
		return nil, ReasonIssuer
	}
	set, reason := i.check(text, now)
	if reason != "" {
		return nil, reason
	}
	until, reason := i.validNow(claims, now)
	if reason != "" {
		return nil, reason
	}
	p, reason := i.principal(claims)
	if reason != "" {
		return nil, reason
	}
	return &entry{token: text, principal: p, until: until.Unix(), issuer: i, keys: set}, ""
}

// payloadOf decodes the payload of a compact token. Each part must have the
// canonical encoding of RFC 7515: decoders that ignore newlines and trailing bits
// accept many texts for one token.
func payloadOf(token string) (payload []byte, reason string) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || strings.ContainsAny(token, "\r\n") {
		return nil, ReasonMalformed
	}
	for n, p := range parts {
		b, err := base64.RawURLEncoding.Strict().DecodeString(p)
		if err != nil || n < 2 && len(b) == 0 {
			return nil, ReasonMalformed
		}
		if n == 1 {
			payload = b
		}
	}
	return payload, ""
}

// check verifies the signature and returns the key set that it used.
func (i *issuer) check(token string, now time.Time) (set *keySet, reason string) {
	sig, err := jose.ParseSignedCompact(token, i.algs)
	if err != nil {
		if _, other := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); other {
			return nil, ReasonAlgorithm
		}
		return nil, ReasonMalformed
	}
	h := &sig.Signatures[0].Protected
	if !plainHeader(h) {
		return nil, ReasonHeader
	}
	if set = i.set(now); set == nil && i.refetch(now) {
		set = i.set(now)
	}
	if set == nil {
		return nil, ReasonNoKeys
	}
	keys := set.find(h.KeyID, h.Algorithm)
	if len(keys) == 0 && i.refetch(now) {
		if set = i.set(now); set == nil {
			return nil, ReasonNoKeys
		}
		keys = set.find(h.KeyID, h.Algorithm)
	}
	if len(keys) == 0 {
		return nil, ReasonKey
	}
	for _, k := range keys {
		if _, err := sig.Verify(k.Key); err == nil {
			return set, ""
		}
	}
	return nil, ReasonSignature
}

// plainHeader reports whether a header is that of a signed token: no critical
// extension, no nested token, and not the type of another document that an issuer
// signs (RFC 8725, section 3.11).
func plainHeader(h *jose.Header) bool {
	if _, there := h.ExtraHeaders["crit"]; there {
		return false
	}
	if _, there := h.ExtraHeaders["b64"]; there {
		return false
	}
	if cty, there := h.ExtraHeaders["cty"]; there && cty != "" {
		return false
	}
	typ, there := h.ExtraHeaders["typ"]
	if !there {
		return true
	}
	s, _ := typ.(string)
	s = strings.TrimPrefix(strings.ToLower(s), "application/")
	return s == "jwt" || s == "at+jwt"
}

// Refresh fetches the keys that are due. It returns the errors by issuer.
func (v *Verifier) Refresh(ctx context.Context) map[string]error {
	var failed map[string]error
	for _, i := range v.order {
		if !i.due(i.now()) {
			continue
		}
		if err := i.fetch(ctx, fetchTime); err != nil && ctx.Err() == nil {
			if failed == nil {
				failed = map[string]error{}
			}
			failed[i.cfg.Issuer] = err
		}
	}
	return failed
}

// Stats counts since the start.
type Stats struct {
	CacheHits uint64
	Verified  uint64            // signatures that were checked and valid
	Refused   map[string]uint64 // by reason
	Issuers   []IssuerStats
}

// IssuerStats is the state of one issuer's keys.
type IssuerStats struct {
	Issuer string
	Keys   int           // usable
	Age    time.Duration // since the last successful fetch
	Failed uint64        // fetches
}

// Stats returns the counts.
func (v *Verifier) Stats() Stats {
	s := Stats{CacheHits: v.hits.Load(), Verified: v.verified.Load(), Refused: map[string]uint64{}}
	for r, n := range v.refused {
		s.Refused[r] = n.Load()
	}
	for _, i := range v.order {
		st := IssuerStats{Issuer: i.cfg.Issuer, Failed: i.fails.Load()}
		if set := i.keys.Load(); set != nil {
			st.Keys, st.Age = len(set.keys), i.age(i.now())
		}
		s.Issuers = append(s.Issuers, st)
	}
	return s
}
