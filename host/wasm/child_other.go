//go:build !linux

package wasm

import "syscall"

// lowerChild gives this process the lowest priority and limits its memory.
func lowerChild() error {
	if err := limitChild(); err != nil {
		return err
	}
	return syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
}
