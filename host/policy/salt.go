package policy

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
)

// Scopes of a cache namespace: which requests share cached prompts.
const (
	ScopeTenant = "tenant"
	ScopeUser   = "user"
	ScopeGroup  = "group"
	ScopePublic = "public" // no salt: shared by all
	ScopeNone   = "none"   // a random salt per request: not shared
)

const (
	saltLabel      = "kvasir/cache-salt/v1"
	namespaceLabel = "kvasir/namespace-hash/v1"
)

// Salt returns the cache salt of a namespace: base64url without padding of
// HMAC-SHA256(key, "kvasir/cache-salt/v1" ‖ scope ‖ namespace), both strings
// preceded by their length as 4 bytes, big endian: 43 characters. It is "" for
// ScopePublic and random for ScopeNone. key is K_epoch. Salts must not be logged: a
// client that knows a salt and can reach an engine can probe the namespace.
func Salt(key []byte, scope, namespace string) string {
	switch scope {
	case ScopePublic:
		return ""
	case ScopeNone:
		return RandomSalt()
	}
	sum := namespaceMAC(key, saltLabel, scope, namespace)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// RandomSalt returns a random salt of the form of Salt, for one request.
func RandomSalt() string {
	var b [sha256.Size]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// NamespaceHash names a namespace in logs, explanations and metrics: 16
// hexadecimal digits that disclose neither the namespace nor its salt, "public" for
// ScopePublic and "none" for ScopeNone.
func NamespaceHash(key []byte, scope, namespace string) string {
	if scope == ScopePublic || scope == ScopeNone {
		return scope
	}
	sum := namespaceMAC(key, namespaceLabel, scope, namespace)
	return hex.EncodeToString(sum[:8])
}

func namespaceMAC(key []byte, label, scope, namespace string) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, key)
	text := append([]byte(nil), label...)
	for _, s := range []string{scope, namespace} {
		text = binary.BigEndian.AppendUint32(text, uint32(len(s)))
		text = append(text, s...)
	}
	h.Write(text)
	h.Sum(sum[:0])
	return sum
}
