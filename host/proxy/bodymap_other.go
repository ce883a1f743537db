//go:build !unix

package proxy

func mapBytes(size int) []byte { return make([]byte, size) }

func unmapBytes([]byte) {}
