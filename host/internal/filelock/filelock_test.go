//go:build unix

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLock_stress: what goes on under the lock is alone, as each holder has an
// open file of its own, as processes do.
func TestLock_stress(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	var inside, most atomic.Int64 // atomic for the race detector, which knows no file locks
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				unlock, err := Lock(path)
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				runtime.Gosched()
				inside.Add(-1)
				unlock()
			}
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("got %d holders at once", most.Load())
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
}

func TestLock_errors(t *testing.T) {
	if _, err := Lock(filepath.Join(t.TempDir(), "absent", "x")); err == nil {
		t.Error("locked in a directory that is not there")
	}
}

// TestTryLock: a lock that is held is refused with the holder's note, and is free
// when it is given up.
func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.lock")
	unlock, err := TryLock(path, "process 7, and more")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path, "8"); !errors.Is(err, ErrLocked) ||
		!strings.Contains(err.Error(), "by process 7, and more") {
		t.Errorf("got %v", err)
	}
	unlock()
	if unlock, err = TryLock(path, "9"); err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path, "8"); !errors.Is(err, ErrLocked) || !strings.HasSuffix(err.Error(), "by 9") {
		t.Errorf("got %v", err)
	}
	unlock()
	if _, err := TryLock(filepath.Join(t.TempDir(), "absent", "x"), ""); err == nil {
		t.Error("locked in a directory that is not there")
	}
}
