package jsonscan

// masks returns which of 64 bytes are quotes, backslashes and control characters:
// bit k stands for byte k. See masksGeneric.
//
//go:noescape
func masks(b *[64]byte) (quotes, backslashes, controls uint64)

// plain returns the length of the longest run of whole blocks at the start of n bytes
// that have no quote, backslash or control character. See plainGeneric.
//
//go:noescape
func plain(b *byte, n int) int
