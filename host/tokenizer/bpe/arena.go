package bpe

import "unsafe"

// arena allocates slices of pointer-free types from one block, each aligned to
// 64 bytes. The block is ordinary garbage-collected memory: a slice of it keeps
// the whole block alive.
type arena struct{ b []byte }

const hugePage = 2 << 20

// newArena returns zeroed memory for size bytes. A block of at least two huge
// pages is aligned to a huge page where the system supports them: the tables
// are read at random and would otherwise exceed the TLB.
func newArena(size int) *arena {
	align := 64
	if size >= 2*hugePage-hugePage/8 {
		align = hugePage
	}
	b := make([]byte, size+align)
	off := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(align-1))
	b = b[off : off+size]
	if align == hugePage {
		adviseHuge(b[:len(b)&^(hugePage-1)])
	}
	return &arena{b}
}

// room is the number of bytes that n values of T occupy in an arena.
func room[T any](n int) int {
	var z T
	return (n*int(unsafe.Sizeof(z)) + 63) &^ 63
}

// take allocates n values of T from a, which must have room for them.
func take[T any](a *arena, n int) []T {
	k := room[T](n)
	p := unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(a.b[:k]))), n)
	a.b = a.b[k:]
	return p
}

// move copies *s into a and makes *s refer to the copy.
func move[T any](a *arena, s *[]T) {
	if len(*s) == 0 {
		return
	}
	d := take[T](a, len(*s))
	copy(d, *s)
	*s = d
}
