package placements

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// hashBytes of each encrypted hash are kept. Among the 10⁷ blocks of a day, two that
// differ have the same 48 bits with a probability of one in six; the effect is one
// block that seems to be shared.
const hashBytes = 6

// Key encrypts block hashes. The hashes of the router are made without a secret, so
// that a reader of the log could otherwise test a guess of a prompt. It is safe for
// concurrent use.
type Key struct {
	block cipher.Block
	id    string
}

// NewKey returns a random key.
func NewKey() *Key {
	var b [16 + 4]byte
	rand.Read(b[:])
	block, err := aes.NewCipher(b[:16])
	if err != nil {
		panic("BUG: placements: " + err.Error())
	}
	return &Key{block: block, id: hex.EncodeToString(b[16:])}
}

// ID identifies the key in the log; it is not a part of it.
func (k *Key) ID() string { return k.id }

// Hash returns the encrypted form of one hash, 48 bits.
func (k *Key) Hash(h uint64) uint64 {
	var in, out [16]byte
	binary.LittleEndian.PutUint64(in[:], h)
	k.block.Encrypt(out[:], in[:])
	return binary.LittleEndian.Uint64(out[:]) & (1<<(8*hashBytes) - 1)
}

// Chain encrypts the hashes of a prompt whose whole blocks have size tokens each. Of a
// prompt with more than MaxBlocks blocks it keeps every second hash, every fourth, and
// so on. step is the number of tokens between two of those that are kept.
func (k *Key) Chain(hashes []uint64, size int) (c Chain, step int) {
	every := 1
	for len(hashes)/every > MaxBlocks {
		every *= 2
	}
	for i := every - 1; i < len(hashes); i += every {
		c = append(c, k.Hash(hashes[i]))
	}
	return c, size * every
}

// Chain is the encrypted hashes of the prefixes of a prompt, the shortest prefix
// first. In JSON it is a string in base64 (RFC 4648, URL alphabet, no padding) of 6
// bytes per hash, the lowest byte first.
type Chain []uint64

// MarshalText implements encoding.TextMarshaler.
func (c Chain) MarshalText() ([]byte, error) {
	raw := make([]byte, 0, (len(c)+1)*hashBytes)
	for _, h := range c {
		raw = binary.LittleEndian.AppendUint64(raw, h)
		raw = raw[:len(raw)-8+hashBytes]
	}
	return base64.RawURLEncoding.AppendEncode(nil, raw), nil
}

var errChain = errors.New("placements: blocks are not base64 of 6 bytes per hash")

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Chain) UnmarshalText(text []byte) error {
	raw, err := base64.RawURLEncoding.AppendDecode(nil, text)
	if err != nil || len(raw)%hashBytes != 0 {
		return errChain
	}
	if n := len(raw) / hashBytes; n > MaxBlocks {
		return fmt.Errorf("placements: %d block hashes, want at most %d", n, MaxBlocks)
	}
	*c = make(Chain, 0, len(raw)/hashBytes)
	for ; len(raw) > 0; raw = raw[hashBytes:] {
		var b [8]byte
		copy(b[:], raw[:hashBytes])
		*c = append(*c, binary.LittleEndian.Uint64(b[:]))
	}
	return nil
}

// Every returns the hashes of p's prefixes of step, 2 × step, … tokens, nil if step is
// not a multiple of p.BlockTokens. Prompts whose BlockTokens differ are compared at
// their common multiple.
func (p *Placement) Every(step int) []uint64 { return p.Blocks.Every(p.BlockTokens, step) }

// Every is Placement.Every of a chain whose hashes are of size, 2 × size, … tokens.
func (c Chain) Every(size, step int) []uint64 {
	if size <= 0 || step < size || step%size != 0 {
		return nil
	}
	every := step / size
	out := make([]uint64, 0, len(c)/every)
	for i := every - 1; i < len(c); i += every {
		out = append(out, c[i])
	}
	return out
}
