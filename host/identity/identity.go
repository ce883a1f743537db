// Package identity turns credentials into principals. It is the only source of
// tenant ids.
//
// API keys are random, shown once when they are issued, and kept as keyed
// hashes (HMAC-SHA256 under a pepper that is not in the file). Keys never enter
// an error, a log or a Principal.
//
// A [Set] holds the credentials that one revision of the rules accepts: API keys,
// tokens of issuers ([Tokens]; package jwt has them), client certificates
// ([Certificates]), and what a trusted proxy asserts about its clients
// ([TrustedProxy]). The same headers from other peers are ignored. A [Store] holds the
// state that all sets share. Withdrawn credentials ([Withdrawal]) are removed from the
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
	// ErrNoCredentials is returned for a request without credentials if there is no
	// anonymous tenant.
	ErrNoCredentials = errors.New("identity: no credentials")
	// ErrUnknownKey is returned for a key that is unknown, revoked or expired; it does not
	// disclose which.
	ErrUnknownKey = errors.New("identity: unknown key")
	// ErrTooManyFailures is returned instead of ErrUnknownKey to an address that has
	// exceeded its failure limit. It is answered with status 429 and not logged each time.
	ErrTooManyFailures = errors.New("identity: too many failures")
	// ErrDisagree is returned if the credential and the trusted proxy name different
	// tenants. It is answered with status 403.
	ErrDisagree = errors.New("identity: credential and proxy name different tenants")
	// ErrTenantDisabled is returned for a valid credential of a disabled tenant. It is
	// answered with status 403.
	ErrTenantDisabled = errors.New("identity: tenant is disabled")
)

// Principal is the sender of a request, as verified by its credential. It is
// immutable and shared by all requests with that credential.
type Principal struct {
	Tenant string
	User   string
	Groups []string
	Scopes []string
	Labels []Label // sorted by name, one of each
	Method string  // one of the Method constants
	Issuer string  // issuer of the JWT or API key, or name of the certificate or proxy; "" = unknown
	KeyID  string  // public id of the API key, never the key
}

// Values of Principal.Method.
const (
	MethodAPIKey    = "api_key"
	MethodJWT       = "jwt"
	MethodMTLS      = "mtls"
	MethodProxy     = "proxy" // asserted by a trusted proxy
	MethodAnonymous = "anonymous"
	MethodRoot      = "admin_token" // the admin token, on the admin listener only
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

// Name returns the name of a principal for logs: method, tenant, user and issuer.
func (p *Principal) Name() string {
	switch p.Method {
	case MethodAPIKey:
		return "key:" + p.KeyID
	case MethodRoot, MethodAnonymous:
		return p.Method
	}
	return p.Method + ":" + p.Tenant + "/" + p.User + "@" + p.Issuer
}

// Credentials are those of one request. The slices are valid during the call only.
type Credentials struct {
	Authorization []byte     // value of the Authorization header
	APIKey        []byte     // value of x-api-key (Anthropic clients)
	Remote        netip.Addr // address of the client; all zero Addrs share one failure budget

	Certificate *x509.Certificate // verified certificate of the peer; nil = none
	Proxy       *TrustedProxy     // the peer, if it is a trusted proxy; Remote is then its client
	Asserted    Asserted          // what Proxy asserts about the sender
}

// key returns the bearer token, else the value of x-api-key, nil if there is
// neither. given reports whether there is a credential of any form.
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

// equalFold compares b, ignoring case, with a lower-case ASCII word.
func equalFold(b []byte, word string) bool {
	for i := range b {
		if b[i]|0x20 != word[i] {
			return false
		}
	}
	return true
}
