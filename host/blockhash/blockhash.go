// Package blockhash names KV cache blocks: a chained xxhash64 of the tokens of
// each whole block, seeded by what else decides whether a block can be reused.
//
// h[i] = xxhash64(h[i-1] as LE u64 ‖ tokens of block i as LE u32), h[-1] = [Seed].
// Equal hashes mean equal prompts up to and including that block, for the same
// tokenizer, adapter and salt. The engines' own hashes are never used as names.
package blockhash

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// DefaultBlockTokens is vLLM's default block size, used until the engine reports
// its own.
const DefaultBlockTokens = 16

// MaxBlockTokens bounds the block size an engine may announce; it sizes the
// stack buffer of Append (4 bytes a token). vLLM's largest is 256, TensorRT-LLM
// accepts up to 512.
const MaxBlockTokens = 1024

// Seed starts the chains of one isolation domain: model is the identity of the
// tokenizer (its digest), adapter the LoRA adapter's name or "", salt the cache
// salt string or "" for the public namespace. The three are length-prefixed,
// so no two different triples share a preimage.
func Seed(model, adapter, salt string) uint64 {
	var buf [256]byte
	b := buf[:0]
	for _, s := range [...]string{model, adapter, salt} {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return xxhash.Sum64(b)
}

// Append appends the hashes of the whole blocks of tokens to dst and returns it
// with the tokens left over (a view of tokens, shorter than blockTokens). prev
// is the hash of the block before, or a Seed. blockTokens must be in
// [1, MaxBlockTokens].
func Append(dst []uint64, prev uint64, tokens []uint32, blockTokens int) (hashes []uint64, rest []uint32) {
	var buf [8 + 4*MaxBlockTokens]byte
	b := buf[:8+4*blockTokens]
	for len(tokens) >= blockTokens {
		binary.LittleEndian.PutUint64(b, prev)
		for i, t := range tokens[:blockTokens] {
			binary.LittleEndian.PutUint32(b[8+4*i:], t)
		}
		prev = xxhash.Sum64(b)
		dst = append(dst, prev)
		tokens = tokens[blockTokens:]
	}
	return dst, tokens
}
