package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"hash"
	"strings"
	"sync"

	"github.com/kvasir-router/kvasir/host/internal/secret"
)

const (
	macLabel    = "kvasir/api-key/v1\x00"
	pepperLabel = "kvasir/pepper-id/v1\x00"
	idBytes     = 5  // 8 characters (secret.IDLen): enough for a name, ids are checked for uniqueness
	secretBytes = 32 // 52 characters (secret.Len); as strong as the hash
	minKeyLen   = 24 // of imported keys: shorter ones can be guessed
	maxKeyLen   = 512
	minPepper   = 32
)

var keyEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

var errPepper = errors.New("identity: pepper is shorter than 32 bytes")

// newKey makes a key "kv_<id>_<secret>" and its public id.
func newKey() (key, id string) {
	var b [idBytes + secretBytes]byte
	rand.Read(b[:]) // never fails
	id = keyEncoding.EncodeToString(b[:idBytes])
	return secret.KeyPrefix + id + "_" + keyEncoding.EncodeToString(b[idBytes:]), id
}

// KeyID returns the public id in an API key of the router's own form, whole or
// with its secret cut short, "" if s is none.
func KeyID(s string) string {
	rest, ok := strings.CutPrefix(s, secret.KeyPrefix)
	id, _, whole := strings.Cut(rest, "_")
	if !ok || !whole || len(id) != secret.IDLen {
		return ""
	}
	return id
}

// Redact returns s without the API keys and tokens in it, for text that leaves
// the process.
func Redact(s string) string { return secret.Redact(s) }

// pepperID identifies a pepper without revealing it: 16 hexadecimal digits.
func pepperID(pepper []byte) string {
	h := hmac.New(sha256.New, pepper)
	h.Write([]byte(pepperLabel))
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// mac is the keyed hash of a key.
type mac [sha256.Size]byte

// hasher computes macs under one pepper without allocating. It is safe for
// concurrent use.
type hasher struct {
	id   string // of the pepper
	pool sync.Pool
}

type macState struct {
	h    hash.Hash
	sum  []byte
	text []byte
}

func newHasher(pepper []byte) (*hasher, error) {
	if len(pepper) < minPepper {
		return nil, errPepper
	}
	own := append([]byte(nil), pepper...)
	h := &hasher{id: pepperID(own)}
	h.pool.New = func() any { return &macState{h: hmac.New(sha256.New, own)} }
	return h, nil
}

func (h *hasher) of(key []byte) (m mac) {
	s := h.pool.Get().(*macState)
	s.h.Reset()
	s.text = append(append(s.text[:0], macLabel...), key...)
	s.h.Write(s.text)
	s.sum = s.h.Sum(s.sum[:0])
	copy(m[:], s.sum)
	clear(s.text)
	h.pool.Put(s)
	return m
}
