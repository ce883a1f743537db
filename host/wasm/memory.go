package wasm

import (
	"context"
	"fmt"
	"syscall"

	"github.com/tetratelabs/wazero/experimental"
)

// memory is an instance's linear memory: address space for the most it may
// have, of which the system gives pages as they are touched. It grows in place
// at no cost, is no part of Go's heap, and goes back to the system when the
// instance is closed; an instance is closed only when no call of it is under
// way.
type memory struct{ all []byte }

// withMemory has the module that is instantiated with the context take its
// memory from the system. Without address space for it the instance is
// violated, and its guest finds a memory of no bytes.
func withMemory(ctx context.Context, in *instance) context.Context {
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_,
		most uint64) experimental.LinearMemory {
		m := new(memory)
		in.own = m
		if most == 0 {
			return m
		}
		all, err := syscall.Mmap(-1, 0, int(most), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
		if err != nil {
			in.violated = &Fault{Plugin: in.plugin, Reason: ReasonAlloc,
				Detail: fmt.Sprintf("no address space for %d bytes: %v", most, err)}
			return m
		}
		m.all = all
		return m
	}))
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.all)) {
		return nil
	}
	return m.all[:size]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if m.all != nil {
		_ = syscall.Munmap(m.all) // fails only for what Mmap did not return
		m.all = nil
	}
}
