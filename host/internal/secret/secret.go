// Package secret removes credentials from text before the text is logged,
// recorded or sent: an API key that was pasted where a name belongs must not be
// readable there.
//
// Recognised are the router's own API keys, whole or cut short, with or without
// their prefix and public id; JSON Web Tokens; keys of the form sk-…; and
// whatever follows the word Bearer. What identifies a key without giving access,
// its public id, is kept. Credentials of other forms are not recognised: callers
// that hold one compare for it themselves.
package secret

import (
	"math/bits"
	"strings"
	"unsafe"
)

// Form of the router's API keys: KeyPrefix, an id of IDLen characters, an
// underscore, and a secret of Len characters; id and secret are of the alphabet
// a-z and 2-7.
const (
	KeyPrefix = "kv_"
	IDLen     = 8
	Len       = 52
)

// Mark stands where a credential was.
const Mark = "…"

const (
	minKeyPart = 12 // of a key cut short: what is left of 52 characters cannot be guessed
	minToken   = 16

	// minDistinct is below what 52 random characters of 32 have (some 26), and
	// above what padding has.
	minDistinct = 10
)

// Redact returns s with each credential in it replaced by Mark. It returns s
// itself if there is none.
func Redact(s string) string { return replace(replace(s, apiKey), otherCredential) }

// Has reports whether s holds a credential. It allocates nothing.
func Has(s string) bool {
	for i := range len(s) {
		if n, _ := apiKey(s, i); n > 0 {
			return true
		}
		if n, _ := otherCredential(s, i); n > 0 {
			return true
		}
	}
	return false
}

// HasBytes is Has for bytes, which it does not keep.
func HasBytes(b []byte) bool { return Has(unsafe.String(unsafe.SliceData(b), len(b))) }

// replace puts Mark where find says that a credential begins at s[i]: n is its
// length, 0 if there is none, and keep how much of its beginning stays.
func replace(s string, find func(s string, i int) (n, keep int)) string {
	var out strings.Builder
	done := 0 // of s, in out
	for i := 0; i < len(s); {
		n, keep := find(s, i)
		if n == 0 {
			i++
			continue
		}
		out.WriteString(s[done : i+keep])
		out.WriteString(Mark)
		i += n
		done = i
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// otherCredential finds what is not an API key with its prefix.
func otherCredential(s string, i int) (n, keep int) {
	if n = jsonWebToken(s[i:]); n > 0 {
		return n, len("eyJ")
	}
	if i > 0 && alphanumeric(s[i-1]) {
		return 0, 0
	}
	switch c := s[i]; {
	case c == 'b' || c == 'B':
		if n, keep = bearer(s[i:]); n > 0 {
			return n, keep
		}
	case c == 's' && strings.HasPrefix(s[i:], "sk-"):
		if n = 3 + run(s[i+3:], urlSafe); n >= 3+minToken {
			return n, 3
		}
	}
	if n = run(s[i:], base32); n >= Len && distinct(s[i:i+n]) >= minDistinct { // the secret without its id
		return run(s[i:], alphanumeric), 0
	}
	return 0, 0
}

// apiKey finds an API key, whole or cut short, whose underscores may be
// percent-encoded. It keeps what comes before the secret.
func apiKey(s string, i int) (n, keep int) {
	prefix := keyPrefix(s[i:])
	if prefix == 0 || run(s[i+prefix:], base32Fold) != IDLen {
		return 0, 0
	}
	keep = prefix + IDLen
	sep := separator(s[i+keep:])
	keep += sep
	n = keep
	for i+n < len(s) && base32Fold(s[i+n]) && keyPrefix(s[i+n:]) == 0 { // the next key may follow at once
		n++
	}
	if sep == 0 || n-keep < minKeyPart {
		return 0, 0
	}
	return n, keep
}

// keyPrefix returns the length of the prefix of keys at the beginning of s.
func keyPrefix(s string) int {
	const letters = len(KeyPrefix) - 1
	if len(s) < letters || !strings.EqualFold(s[:letters], KeyPrefix[:letters]) {
		return 0
	}
	sep := separator(s[letters:])
	if sep == 0 {
		return 0
	}
	return letters + sep
}

// separator returns the length of an underscore, which may be percent-encoded
// once or twice, at the beginning of s.
func separator(s string) int {
	for _, form := range []string{"_", "%5F", "%255F"} {
		if len(s) >= len(form) && strings.EqualFold(s[:len(form)], form) {
			return len(form)
		}
	}
	return 0
}

// jsonWebToken returns the length of the token that s begins with: base64 of an
// object, and one or two further parts.
func jsonWebToken(s string) int {
	if !strings.HasPrefix(s, "eyJ") {
		return 0
	}
	n := run(s, urlSafe)
	if n < minToken || n == len(s) || s[n] != '.' {
		return 0
	}
	for n < len(s) && (s[n] == '.' || urlSafe(s[n])) {
		n++
	}
	return n
}

// bearer returns the length of an Authorization value that s begins with, and of
// its scheme. A word of a sentence is no token: that has a digit, or is long.
func bearer(s string) (n, keep int) {
	const scheme = "bearer"
	if len(s) < len(scheme) || !strings.EqualFold(s[:len(scheme)], scheme) {
		return 0, 0
	}
	keep = len(scheme)
	for keep < len(s) && (s[keep] == ' ' || s[keep] == '\t' || s[keep] == '+') {
		keep++
	}
	token := s[keep : keep+run(s[keep:], tokenByte)]
	if keep == len(scheme) || len(token) < 8 || len(token) < minToken && !strings.ContainsAny(token, "0123456789") {
		return 0, 0
	}
	return keep + len(token), keep
}

// run returns how many bytes at the beginning of s are in a class.
func run(s string, class func(byte) bool) int {
	for i := range len(s) {
		if !class(s[i]) {
			return i
		}
	}
	return len(s)
}

// distinct returns how many different characters of the base32 alphabet s has.
func distinct(s string) int {
	var seen uint32
	for i := range len(s) {
		seen |= 1 << (s[i] & 31) // a-z are 1 to 26, 2-7 are 18 to 23: near enough
	}
	return bits.OnesCount32(seen)
}

func base32(c byte) bool       { return c >= 'a' && c <= 'z' || c >= '2' && c <= '7' }
func base32Fold(c byte) bool   { return base32(c) || c >= 'A' && c <= 'Z' }
func alphanumeric(c byte) bool { return base32Fold(c) || c >= '0' && c <= '9' }
func urlSafe(c byte) bool      { return alphanumeric(c) || c == '-' || c == '_' }

// tokenByte is a byte of a b64token of RFC 6750, section 2.1.
func tokenByte(c byte) bool { return urlSafe(c) || strings.IndexByte(".~+/=", c) >= 0 }
