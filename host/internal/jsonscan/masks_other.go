//go:build !amd64

package jsonscan

func masks(b *[64]byte) (quotes, backslashes, controls uint64) { return masksGeneric(b) }
