// Package plugsign signs modules of plugins and verifies signatures.
//
// A signature travels in the module, as custom sections at its end, so that a
// push, a saved file and a stored version carry it without a second file that can
// be lost or come later than the first:
//
//	section 0, name "kvasir.signature": u8 version 1, 8 bytes key id, 64 bytes Ed25519
//
// Signed is "kvasir plugin signature 1", a zero byte and the SHA-256 of the module
// as it was before its first signature. Several keys may sign; each signs the same.
// The key id is the first 8 bytes of the SHA-256 of the public key.
package plugsign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/internal/leb"
)

const (
	sectionName = "kvasir.signature"
	version     = 1
	idBytes     = 8
	domain      = "kvasir plugin signature 1\x00"

	// MaxSignatures bounds the work of verifying a module.
	MaxSignatures = 8

	keyPrefix = "ed25519:"
)

// Errors that callers test for.
var (
	ErrUnsigned  = errors.New("plugsign: the module is not signed")                        // Verify
	ErrUntrusted = errors.New("plugsign: no trusted key signed the module")                // Verify
	ErrBroken    = errors.New("plugsign: the module differs from what was signed")         // Verify
	ErrTwice     = errors.New("plugsign: already signed with this key")                    // Sign
	ErrFormat    = errors.New("plugsign: malformed")                                       // all that read a module
	ErrKey       = errors.New("plugsign: want a public key as ed25519:BASE64 of 32 bytes") // ParseKey
)

// Signature is one of a module. The memory is the module's.
type Signature struct {
	ID    string // of the key, hex
	bytes []byte
}

// KeyID returns the id of a public key, 16 hexadecimal digits.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:idBytes])
}

// FormatKey returns a public key as ParseKey reads it.
func FormatKey(key ed25519.PublicKey) string {
	return keyPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParseKey reads a public key. Error: ErrKey.
func ParseKey(s string) (ed25519.PublicKey, error) {
	text, ok := strings.CutPrefix(s, keyPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%w: got %.80q", ErrKey, s)
	}
	return key, nil
}

// Split returns the module without its signatures, and these. Errors: ErrFormat.
func Split(code []byte) (body []byte, signatures []Signature, err error) {
	if len(code) < 8 || string(code[:4]) != "\x00asm" {
		return nil, nil, fmt.Errorf("%w: not a WebAssembly module", ErrFormat)
	}
	r := leb.Reader{Bytes: code, At: 8}
	end := -1 // where the first signature begins
	for r.At < len(code) {
		at := r.At
		id := r.Byte()
		section := leb.Reader{Bytes: r.Take(r.U32())}
		if r.Err != nil {
			return nil, nil, fmt.Errorf("%w: section at byte %d reaches beyond the end", ErrFormat, at)
		}
		signature := id == 0 && section.Name() == sectionName
		switch {
		case !signature && end >= 0:
			return nil, nil, fmt.Errorf("%w: unexpected section after the signature, at byte %d", ErrFormat, at)
		case !signature:
			continue
		case end < 0:
			end = at
		}
		s := section.Bytes[section.At:]
		if len(s) != 1+idBytes+ed25519.SignatureSize || s[0] != version {
			return nil, nil, fmt.Errorf("%w: signature of %d bytes at byte %d, want version %d", ErrFormat, len(s), at, version)
		}
		if len(signatures) == MaxSignatures {
			return nil, nil, fmt.Errorf("%w: more than %d signatures", ErrFormat, MaxSignatures)
		}
		signatures = append(signatures, Signature{hex.EncodeToString(s[1 : 1+idBytes]), s[1+idBytes:]})
	}
	if end < 0 {
		return code, nil, nil
	}
	return code[:end], signatures, nil
}

func message(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append([]byte(domain), sum[:]...)
}

// Sign returns the module with a signature more. code is not changed. Errors:
// ErrFormat and ErrTwice.
func Sign(code []byte, key ed25519.PrivateKey) ([]byte, error) {
	body, signatures, err := Split(code)
	if err != nil {
		return nil, err
	}
	id := KeyID(key.Public().(ed25519.PublicKey))
	if slices.ContainsFunc(signatures, func(s Signature) bool { return s.ID == id }) {
		return nil, fmt.Errorf("%w: %s", ErrTwice, id)
	}
	if len(signatures) == MaxSignatures {
		return nil, fmt.Errorf("%w: it has %d signatures, which is the most", ErrFormat, MaxSignatures)
	}
	raw, _ := hex.DecodeString(id)
	section := append([]byte{byte(len(sectionName))}, sectionName...)
	section = append(append(append(section, version), raw...), ed25519.Sign(key, message(body))...)
	out := leb.AppendU32(append(bytes.Clone(code), 0), uint32(len(section)))
	return append(out, section...), nil
}

// Key is one that is trusted.
type Key struct {
	Name   string // for people: in errors, lists and logs
	Public ed25519.PublicKey
}

// Trust lists the trusted keys. The zero value accepts every module.
type Trust struct {
	Required bool
	Keys     []Key
}

// Verify returns the names of the trusted keys that signed a module, in the
// order of Keys. A signature by a trusted key that does not hold is an error even
// if none is required. Errors: ErrFormat, ErrBroken, and if a signature is required
// ErrUnsigned and ErrUntrusted.
func (t *Trust) Verify(code []byte) (signers []string, err error) {
	if !t.Required && len(t.Keys) == 0 {
		return nil, nil
	}
	body, signatures, err := Split(code)
	if err != nil {
		return nil, err
	}
	text := message(body)
	for _, k := range t.Keys {
		id := KeyID(k.Public)
		for _, s := range signatures {
			if s.ID != id {
				continue
			}
			if !ed25519.Verify(k.Public, text, s.bytes) {
				return nil, fmt.Errorf("%w: the signature of key %s (%s) is invalid: the module was changed after signing",
					ErrBroken,
					k.Name, id)
			}
			signers = append(signers, k.Name)
		}
	}
	switch {
	case len(signers) > 0 || !t.Required:
		return signers, nil
	case len(signatures) == 0:
		return nil, fmt.Errorf("%w, and a signature is required by %s: kvasir plugin sign FILE --key KEY", ErrUnsigned,
			t.names())
	}
	ids := make([]string, len(signatures))
	for i, s := range signatures {
		ids[i] = s.ID
	}
	return nil, fmt.Errorf("%w: signed by key %s, required is %s", ErrUntrusted, strings.Join(ids, ", "), t.names())
}

// names returns the trusted keys for an error.
func (t *Trust) names() string {
	if len(t.Keys) == 0 {
		return "a key, but none is trusted"
	}
	names := make([]string, len(t.Keys))
	for i, k := range t.Keys {
		names[i] = k.Name + " (" + KeyID(k.Public) + ")"
	}
	return strings.Join(names, " or ")
}
