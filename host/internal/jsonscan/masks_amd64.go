package jsonscan

// masks returns which of 64 bytes are quotes, backslashes and control characters:
// bit k stands for byte k. See masksGeneric.
//
//go:noescape
func masks(b *[64]byte) (quotes, backslashes, controls uint64)
