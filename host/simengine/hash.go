package simengine

import (
	"crypto/sha256"
	"encoding/binary"
)

// noneSeed is the text whose hash means "no parent": NONE_HASH of vLLM's
// sha256 algorithm since vllm#51875.
const noneSeed = "vllm-none-hash"

// extraKey is one element of the extra keys of a block: what else than tokens
// decides whether it can be reused. vLLM 0.32 writes tuples that begin with
// their source: ("lora", name, path) in every block of an adapter and
// ("cache_salt", salt) in the first block of a salted prompt; older versions
// wrote bare strings, and (identifier, offset) for a multimodal item. Events
// carry the bare form in all versions.
type extraKey struct {
	parts  []string // one part and no offset: the bare string
	pair   bool     // the tuple ends with offset
	offset uint32
}

// A hasher computes vLLM's block hashes:
// sha256(pickle((parent digest, token tuple, extra keys or None))), protocol 5
// (vllm/v1/core/kv_cache_utils.py hash_block_tokens, vllm/utils/hashing.py).
// It is scratch memory: one goroutine at a time.
type hasher struct {
	body []byte
	buf  []byte
}

// digest is the whole hash of a block. What events carry is [digest.id].
type digest [sha256.Size]byte

// id returns the integer form of a hash in events: the last 8 bytes, big endian
// (maybe_convert_block_hash).
func (d *digest) id() uint64 { return binary.BigEndian.Uint64(d[len(d)-8:]) }

// none returns the parent of first blocks for a seed text.
func (h *hasher) none(seed string) digest {
	h.body = pickleString(h.body[:0], seed)
	return h.sum()
}

// block returns the hash of one whole block after parent.
func (h *hasher) block(parent *digest, tokens []uint32, extra []extraKey) digest {
	b := append(h.body[:0], 'C', byte(len(parent)))
	b = append(b, parent[:]...)
	b = append(b, memoize)
	b = pickleTokens(b, tokens)
	b = pickleExtra(b, extra)
	h.body = append(b, tuple3, memoize)
	return h.sum()
}

// adapterRoot is the folder of the simulated LoRA adapters: an adapter's path is
// a part of its blocks' hashes.
const adapterRoot = "/adapters/"

// chain appends the event hashes of the whole blocks of tokens to dst. adapter
// is a part of every block's key, salt of the first one's only.
func (h *hasher) chain(dst []uint64, tokens []uint32, blockTokens int, adapter, salt string) []uint64 {
	var keys [2]extraKey
	every := keys[:0]
	if adapter != "" {
		every = append(every, extraKey{parts: []string{"lora", adapter, adapterRoot + adapter}})
	}
	first := every
	if salt != "" {
		first = append(every, extraKey{parts: []string{"cache_salt", salt}})
	}
	parent, extra := h.none(noneSeed), first
	for ; len(tokens) >= blockTokens; tokens = tokens[blockTokens:] {
		parent = h.block(&parent, tokens[:blockTokens], extra)
		dst = append(dst, parent.id())
		extra = every
	}
	return dst
}

// Opcodes of Python's pickle, protocol 5, as its C implementation writes them
// (Lib/pickletools.py): every string, bytes and tuple is memoized.
const (
	memoize = 0x94
	tuple1  = 0x85
	tuple3  = 0x87
	frameAt = 4 // a body of this many bytes or more gets a frame
)

// sum frames body as pickle does and hashes it.
func (h *hasher) sum() digest {
	h.body = append(h.body, '.')
	b := append(h.buf[:0], 0x80, 5)
	if len(h.body) >= frameAt {
		b = binary.LittleEndian.AppendUint64(append(b, 0x95), uint64(len(h.body)))
	}
	h.buf = append(b, h.body...)
	return sha256.Sum256(h.buf)
}

func pickleTokens(b []byte, tokens []uint32) []byte {
	b = openTuple(b, len(tokens))
	for _, t := range tokens {
		b = pickleInt(b, t)
	}
	return closeTuple(b, len(tokens))
}

// pickleExtra writes the tuple of extra keys, None if there are none.
func pickleExtra(b []byte, extra []extraKey) []byte {
	if len(extra) == 0 {
		return append(b, 'N')
	}
	b = openTuple(b, len(extra))
	for i := range extra {
		b = pickleKey(b, &extra[i])
	}
	return closeTuple(b, len(extra))
}

func pickleKey(b []byte, k *extraKey) []byte {
	n := len(k.parts)
	if n == 1 && !k.pair {
		return pickleString(b, k.parts[0])
	}
	if k.pair {
		n++
	}
	b = openTuple(b, n)
	for _, p := range k.parts {
		b = pickleString(b, p)
	}
	if k.pair {
		b = pickleInt(b, k.offset)
	}
	return closeTuple(b, n)
}

// openTuple writes what precedes the n elements of a tuple.
func openTuple(b []byte, n int) []byte {
	if n > 3 {
		b = append(b, '(')
	}
	return b
}

// closeTuple writes what follows the n elements of a tuple.
func closeTuple(b []byte, n int) []byte {
	switch {
	case n == 0:
		return append(b, ')') // the empty tuple is not memoized
	case n <= 3:
		b = append(b, tuple1-1+byte(n))
	default:
		b = append(b, 't')
	}
	return append(b, memoize)
}

// pickleInt writes n, which is below 2^31 as every token id is.
func pickleInt(b []byte, n uint32) []byte {
	switch {
	case n < 1<<8:
		return append(b, 'K', byte(n))
	case n < 1<<16:
		return append(b, 'M', byte(n), byte(n>>8))
	default:
		return binary.LittleEndian.AppendUint32(append(b, 'J'), n)
	}
}

func pickleString(b []byte, s string) []byte {
	if len(s) < 1<<8 {
		b = append(b, 0x8c, byte(len(s)))
	} else {
		b = binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s)))
	}
	b = append(b, s...)
	return append(b, memoize)
}
