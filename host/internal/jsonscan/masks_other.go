//go:build !amd64

package jsonscan

import "unsafe"

func masks(b *[64]byte) (quotes, backslashes, controls uint64) { return masksGeneric(b) }

func plain(b *byte, n int) int { return plainGeneric(unsafe.Slice(b, n)) }
