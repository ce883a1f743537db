// Package identity turns credentials into principals. It is the only source of
// a tenant id.
//
// API keys are random, shown once when they are issued, and kept as keyed
// hashes (HMAC-SHA256 under a pepper that is not in the file). Keys never enter
// an error, a log or a Principal.
//
// A [Set] is the credentials that one revision of the rules accepts: API keys,
// tokens of issuers ([Tokens]; package jwt has them), client certificates
// ([Certificates]), and what a trusted proxy asserts about its clients
// ([TrustedProxy]). A header of anybody else is no credential. A [Store] is the
// state that all sets share. What is withdrawn ([Withdrawal]) is taken from the
// set in force without waiting for the next revision.
package identity

import (
	"crypto/x509"
	"errors"
	"net/netip"
	"strings"
)

// Errors of Authenticate.
var (
	// ErrNoCredentials: the request carried none and anonymous is not allowed.
	ErrNoCredentials = errors.New("identity: no credentials")
	// ErrUnknownKey: the key is not known, revoked or expired. Which of them is
	// not told.
	ErrUnknownKey = errors.New("identity: unknown key")
	// ErrTooManyFailures: as ErrUnknownKey, and the address has failed more often
	// than allowed; to be answered with 429 and not to be logged one by one.
	ErrTooManyFailures = errors.New("identity: too many failures")
	// ErrDisagree: the credential and the trusted proxy name two tenants; to be
	// answered with 403.
	ErrDisagree = errors.New("identity: credential and proxy name different tenants")
	// ErrTenantDisabled: the credential is good and its tenant is disabled; to be
	// answered with 403.
	ErrTenantDisabled = errors.New("identity: tenant is disabled")
)

// Principal is who asks, from a verified credential only. It is immutable and
// shared by all requests of one credential.
type Principal struct {
	Tenant string
	User   string
	Groups []string
	Scopes []string
	Labels []Label // sorted by name, one of each
	Method string  // one of the Method constants
	Issuer string  // of a JWT, who issued the API key, a name of the certificate or proxy; "" = not known
	KeyID  string  // public id of the API key, never the key
}

// Words of Principal.Method.
const (
	MethodAPIKey    = "api_key"
	MethodJWT       = "jwt"
	MethodMTLS      = "mtls"
	MethodProxy     = "proxy" // a trusted proxy says so
	MethodAnonymous = "anonymous"
	MethodRoot      = "admin_token" // whoever holds the admin token, on the admin listener only
)

// Label is one label of a principal: from a key's record or a token's claims.
type Label struct{ Name, Value string }

// HasScope reports whether the principal holds a scope, by its name or by all
// of its noun (plugin:* for plugin:push).
func (p *Principal) HasScope(scope string) bool {
	noun, _, _ := strings.Cut(scope, ":")
	for _, s := range p.Scopes {
		if s == scope || len(s) == len(noun)+2 && s[len(noun):] == ":*" && s[:len(noun)] == noun {
			return true
		}
	}
	return false
}

// Name names a principal in logs: how it was verified, as whom, and by whose
// word.
func (p *Principal) Name() string {
	switch p.Method {
	case MethodAPIKey:
		return "key:" + p.KeyID
	case MethodRoot, MethodAnonymous:
		return p.Method
	}
	return p.Method + ":" + p.Tenant + "/" + p.User + "@" + p.Issuer
}

// Credentials are what a request carried. The slices are valid during the
// call only.
type Credentials struct {
	Authorization []byte     // value of the Authorization header
	APIKey        []byte     // value of x-api-key (Anthropic clients)
	Remote        netip.Addr // the client's address; the zero Addr shares one failure budget

	Certificate *x509.Certificate // of the peer, verified; nil = none
	Proxy       *TrustedProxy     // the peer, if it is one; then Remote is who it forwards for
	Asserted    Asserted          // what Proxy says of who asks
}

// key returns the key the credentials hold, nil if none: a bearer token, else
// x-api-key. given is true if there is any credential at all.
func (c *Credentials) key() (key []byte, given bool) {
	const scheme = "bearer"
	a := trim(c.Authorization)
	if len(a) > len(scheme) && (a[len(scheme)] == ' ' || a[len(scheme)] == '\t') && equalFold(a[:len(scheme)], scheme) {
		return trim(a[len(scheme):]), true
	}
	if k := trim(c.APIKey); len(k) > 0 {
		return k, true
	}
	return nil, len(a) > 0
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// equalFold compares with a lower-case ASCII word.
func equalFold(b []byte, word string) bool {
	for i := range b {
		if b[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}
