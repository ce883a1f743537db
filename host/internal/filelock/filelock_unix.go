//go:build unix

// Package filelock lets processes take turns: one lock is one file, which stays
// there empty, and ends with the process that holds it.
package filelock

import (
	"os"
	"syscall"
)

// Lock takes an exclusive lock on the file path, which it creates with mode
// 0600, and waits for whoever holds it, in this process too.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
