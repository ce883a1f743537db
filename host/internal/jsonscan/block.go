package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// A long string is walked 64 bytes at a time: code has an escape every 30 bytes or so,
// and a branch at each of them costs more than the bytes between. The masks of a block
// tell its quotes, backslashes and control characters; that escaped quotes end nothing
// follows from the backslashes by arithmetic (Langdale and Lemire, Parsing gigabytes
// of JSON per second, 2019, section 3.1.1).

// block is the number of bytes of a block.
const block = 64

// blocks continues String at i, inside the string. It returns done = true at the
// string's end, else the offset from which less than a block is left.
func blocks(b []byte, i int) (end int, escaped, done bool, err *Error) {
	carry := uint64(0) // 1: the first byte of the block is escaped
	for ; i+block <= len(b); i += block {
		quotes, backslashes, controls := masks((*[block]byte)(b[i:]))
		if quotes|backslashes|controls|carry == 0 {
			if more := b[i+block:]; len(more) >= block { // prose goes on for kilobytes
				i += plain(&more[0], len(more))
			}
			continue
		}
		var after uint64 // bytes after the backslash of an escape
		after, carry = escapedBytes(backslashes, carry)
		stop := quotes&^after | controls
		inside := after
		if stop != 0 {
			inside &= stop&-stop - 1
		}
		escaped = escaped || inside != 0
		if at := badEscape(b, i, inside); at >= 0 {
			return 0, false, false, fault(at, "invalid escape")
		}
		if stop != 0 {
			k := bits.TrailingZeros64(stop)
			switch {
			case quotes>>k&1 != 0:
				return i + k + 1, escaped, true, nil
			case after>>k&1 != 0:
				return 0, false, false, fault(i+k-1, "invalid escape")
			}
			return 0, false, false, fault(i+k, "control character in string")
		}
	}
	return i - int(carry), escaped, false, nil
}

// escapedBytes returns which bytes of a block follow the backslash of an escape, and
// 1 if the first byte of the next block does; carry is that of the block before.
func escapedBytes(backslashes, carry uint64) (after, next uint64) {
	if backslashes == 0 {
		return carry, 0
	}
	const even = 0x5555555555555555 // bytes at even offsets
	backslashes &^= carry
	follows := backslashes<<1 | carry
	starts := backslashes &^ even &^ follows
	runs, next := bits.Add64(starts, backslashes, 0)
	return (even ^ runs<<1) & follows, next
}

// badEscape returns the offset of the first invalid escape, -1 if all are valid.
// after are the bytes of the block at i that follow a backslash.
func badEscape(b []byte, i int, after uint64) int {
	for ; after != 0; after &= after - 1 {
		k := i + bits.TrailingZeros64(after)
		if c := b[k]; !simpleEscape[c] && (c != 'u' || hex4(b[k+1:]) < 0) {
			return k - 1
		}
	}
	return -1
}

// masksGeneric is masks without assembly.
func masksGeneric(b *[block]byte) (quotes, backslashes, controls uint64) {
	var any uint64
	for k := 0; k < block; k += 8 {
		any |= stops(binary.LittleEndian.Uint64(b[k:]))
	}
	if any == 0 {
		return 0, 0, 0
	}
	for k := block - 8; k >= 0; k -= 8 {
		x := binary.LittleEndian.Uint64(b[k:])
		quotes = quotes<<8 | zeroBytes(x^'"'*ones)
		backslashes = backslashes<<8 | zeroBytes(x^'\\'*ones)
		controls = controls<<8 | zeroBytes(x&(0xe0*ones)) // below 0x20
	}
	return quotes, backslashes, controls
}

// zeroBytes returns which of the 8 bytes of x are zero.
func zeroBytes(x uint64) uint64 {
	z := ^(x&^highs + ^uint64(highs) | x) & highs
	return z >> 7 * 0x0102040810204080 >> 56
}

// plainGeneric is plain without assembly.
func plainGeneric(b []byte) int {
	i := 0
	for ; i+block <= len(b); i += block {
		var any uint64
		for k := i; k < i+block; k += 8 {
			any |= stops(binary.LittleEndian.Uint64(b[k:]))
		}
		if any != 0 {
			break
		}
	}
	return i
}
