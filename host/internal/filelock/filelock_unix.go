//go:build unix

// Package filelock lets processes take turns: one lock is one file, which stays
// there empty, and ends with the process that holds it.
package filelock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// ErrLocked is wrapped by TryLock where another holder has the lock.
var ErrLocked = errors.New("locked")

// Lock takes an exclusive lock on the file path, which it creates with mode
// 0600, and waits for its holder, in this process too.
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

// TryLock takes an exclusive lock on the file path, which it creates with mode
// 0600, and writes note into it: a few words that tell others who holds it. If
// somebody has the lock the error wraps ErrLocked and quotes their note. The lock
// ends with unlock or with the process.
func TryLock(path, note string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != syscall.EINTR {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		b, _ := io.ReadAll(io.LimitReader(f, 100))
		err = fmt.Errorf("%w by %s", ErrLocked, strings.TrimSpace(string(b)))
	}
	if err == nil {
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(note+"\n"), 0)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
