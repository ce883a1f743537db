package chat

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
)

// rawKey identifies the raw bytes of a value without a second copy of its texts. A
// value without an escape keeps its bytes, of which its texts are parts. The texts of
// other values differ from their raw bytes, so those are represented by their length
// and a keyed hash.
//
// The hash is GMAC, the authentication of AES-GCM, with a random key of the process
// and one nonce. Its outputs never leave the process, so two values that somebody
// without the key has chosen collide with a probability of at most (n/16 + 2) / 2^128,
// n being the length of the longer one (McGrew and Viega, The Security and Performance
// of the Galois/Counter Mode, 2004, lemma 2).
type rawKey struct {
	n    int            // length of the raw bytes; 0: the zero key
	text []byte         // the raw bytes, nil if they have an escape
	end  [endBytes]byte // the last bytes, compared before sum is computed
	sum  [sumBytes]byte // the hash of raw bytes with an escape
}

const (
	sumBytes = 16
	endBytes = 16
)

// mac computes the hashes. It is safe for concurrent use.
var mac = newMAC()

func newMAC() cipher.AEAD {
	key := make([]byte, 16)
	rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("BUG: chat: " + err.Error())
	}
	g, err := cipher.NewGCM(block)
	if err != nil {
		panic("BUG: chat: " + err.Error())
	}
	return g
}

// hasher is the scratch memory of one hash.
type hasher struct {
	nonce [12]byte // always zero
	out   [sumBytes]byte
}

// sum returns the hash of raw.
func (h *hasher) sum(raw []byte) [sumBytes]byte {
	mac.Seal(h.out[:0], h.nonce[:], nil, raw)
	return h.out
}

// key returns the key of raw. It copies raw if that has no escape.
func (w *work) key(raw []byte) rawKey {
	k := rawKey{n: len(raw)}
	copy(k.end[:], raw[max(0, len(raw)-endBytes):])
	if bytes.IndexByte(raw, '\\') < 0 {
		k.text = bytes.Clone(raw)
	} else {
		k.sum = w.hash.sum(raw)
	}
	return k
}

// begins reports whether b begins with the bytes that k identifies.
func (k *rawKey) begins(w *work, b []byte) bool {
	if k.n > len(b) {
		return false
	}
	b = b[:k.n]
	if k.text != nil {
		return bytes.Equal(b, k.text)
	}
	end := b[max(0, k.n-endBytes):]
	return bytes.Equal(end, k.end[:len(end)]) && w.hash.sum(b) == k.sum
}

// equal reports whether k and x identify the same bytes.
func (k *rawKey) equal(x *rawKey) bool {
	return k.n == x.n && k.sum == x.sum && bytes.Equal(k.text, x.text)
}
