//go:build unix

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadDir_special: a file that is not regular is a fault, and reading does not wait
// for it: a pipe without a writer would block every later reload, including reloads of
// keys.
func TestReadDir_special(t *testing.T) {
	dir := t.TempDir()
	for name, f := range with() {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadDir(dir, ""); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"kvasir", "data/tenants"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"kvasir/pipe.rego", "data/tenants/pipe.json", "capabilities.json"} {
		at := filepath.Join(dir, name)
		syscall.Unlink(at)
		if err := syscall.Mkfifo(at, 0o600); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := ReadDir(dir, "")
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), filepath.Base(name)) ||
				!strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s: got %v", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the read waits for a writer", name)
		}
		syscall.Unlink(at)
	}
}
