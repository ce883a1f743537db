// Package jwt verifies JSON Web Tokens (RFC 7519, RFC 8725) and makes principals
// of them.
//
// Each issuer has its algorithms, audience and keys pinned by configuration: a
// token's header chooses among them and adds none. Keys come from a file, or by
// https from a JWK Set that is fetched in bounds, used on while it cannot be
// fetched, and refused when it has been so for too long.
//
// A token that was verified is remembered until it ends, so that the next
// request with it costs a lookup and a comparison and no signature. Tokens enter
// no error and no log.
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

// Reasons why a token is refused, for metrics and the client. None of them tells
// more than its holder can read in it.
const (
	ReasonMalformed = "malformed"
	ReasonTooLarge  = "too_large"
	ReasonAlgorithm = "algorithm"     // not one of those pinned
	ReasonHeader    = "header"        // crit, nested tokens, types that are no tokens
	ReasonIssuer    = "issuer"        // not one of those believed
	ReasonKey       = "key"           // the issuer has no such key
	ReasonNoKeys    = "no_keys"       // the issuer's keys could not be fetched for too long
	ReasonSignature = "signature"     //
	ReasonClaims    = "claims"        // one is missing or of another type
	ReasonAudience  = "audience"      // made for somebody else
	ReasonExpired   = "expired"       //
	ReasonNotYet    = "not_yet_valid" //
	ReasonTenant    = "tenant"        // that the issuer may not name
)

var reasons = []string{ReasonMalformed, ReasonTooLarge, ReasonAlgorithm, ReasonHeader, ReasonIssuer, ReasonKey, ReasonNoKeys, ReasonSignature,
	ReasonClaims, ReasonAudience, ReasonExpired, ReasonNotYet, ReasonTenant}

// Error says why a token was refused. It is an identity.ErrUnknownKey.
type Error struct{ Reason string }

// Error implements error.
func (e *Error) Error() string { return "jwt: token refused: " + e.Reason }

// Unwrap returns identity.ErrUnknownKey.
func (e *Error) Unwrap() error { return identity.ErrUnknownKey }

// refusals are the errors, made once: a flood of bad tokens makes none.
var refusals = func() map[string]*Error {
	m := map[string]*Error{}
	for _, r := range reasons {
		m[r] = &Error{r}
	}
	return m
}()

// maxToken bounds a token: half of the head that the clients' listener takes.
const maxToken = 8 << 10

// Verifier verifies tokens. It is safe for concurrent use; all but its issuers'
// keys, its cache and its counts is immutable.
type Verifier struct {
	issuers map[string]*issuer // by iss
	order   []*issuer          // as configured
	cache   *cache

	hits, verified atomic.Uint64
	refused        map[string]*atomic.Uint64 // by reason; never written after New
}

// New returns a verifier of tokens of these issuers. Keys in files are read. An
// issuer that prev (may be nil) has with the same configuration, and the same
// keys in its file, is taken over with its keys; of the others none are fetched
// yet. If nothing changed at all it returns prev. Errors tell the issuer's place
// in the list.
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
			all = append(all, fmt.Errorf("jwt[%d]: issuer %q stands twice", n, c.Issuer))
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
	if old == nil || old.ended.Load() || !old.cfg.equal(&i.cfg) || i.client == nil && old.keys.Load().sum != i.keys.Load().sum {
		return nil
	}
	return old
}

// Verify returns who a token stands for, and whether it counts on the admin
// listener. The error is an *Error. It may fetch keys, within two seconds, if
// the token names one that is not known.
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
	i := v.issuers[iss] // says only whose keys are tried
	if i == nil {
		return nil, ReasonIssuer
	}
	set, reason := i.check(text, now)
	if reason != "" {
		return nil, reason
	}
	until, reason := i.inForce(claims, now)
	if reason != "" {
		return nil, reason
	}
	p, reason := i.principal(claims)
	if reason != "" {
		return nil, reason
	}
	return &entry{token: text, principal: p, until: until.Unix(), issuer: i, keys: set}, ""
}

// payloadOf decodes the middle of a compact token. Each part must be spelled in
// the one way that RFC 7515 has for it: decoders that pass over line ends and
// spare bits take many texts for one token.
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

// check verifies the signature. set are the keys it stands on.
func (i *issuer) check(token string, now time.Time) (set *keySet, reason string) {
	sig, err := jose.ParseSignedCompact(token, i.algs)
	if err != nil {
		if _, other := errors.AsType[*jose.ErrUnexpectedSignatureAlgorithm](err); other {
			return nil, ReasonAlgorithm
		}
		return nil, ReasonMalformed
	}
	h := &sig.Signatures[0].Protected
	if !plain(h) {
		return nil, ReasonHeader
	}
	if set = i.set(now); set == nil && i.ask(now) {
		set = i.set(now)
	}
	if set == nil {
		return nil, ReasonNoKeys
	}
	keys := set.find(h.KeyID, h.Algorithm)
	if len(keys) == 0 && i.ask(now) {
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

// plain reports whether a header is that of a signed token and nothing else: no
// critical extension, no token within, none of the types of other documents that
// an issuer signs (RFC 8725, section 3.11).
func plain(h *jose.Header) bool {
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

// Refresh fetches the keys that are due. It returns what could not be fetched,
// by issuer.
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
	Verified  uint64            // signatures that were checked and good
	Refused   map[string]uint64 // by reason
	Issuers   []IssuerStats
}

// IssuerStats is the state of one issuer's keys.
type IssuerStats struct {
	Issuer string
	Keys   int           // usable
	Age    time.Duration // since they were last known to be the issuer's
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
