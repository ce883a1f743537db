//go:build unix

package filelock

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLock_hammer: what goes on under the lock is alone, as each holder has an
// open file of its own, as processes do.
func TestLock_hammer(t *testing.T) {
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
