//go:build unix

package proxy

import "syscall"

func mapBytes(size int) []byte {
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return make([]byte, size)
	}
	return b
}

// unmapBytes frees b. Munmap refuses a buffer that mapBytes took from the heap; the
// garbage collector frees that.
func unmapBytes(b []byte) { syscall.Munmap(b) }
