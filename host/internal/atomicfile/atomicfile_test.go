package atomicfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// contents checks that path holds want, that only its owner can read it, and that
// it is the only file in its directory.
func contents(t *testing.T, path, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil || string(b) != want {
		t.Errorf("got %q, %v, want %q", b, err, want)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	alone(t, path)
}

func alone(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != filepath.Base(path) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	for _, s := range []string{"one", "two is longer", ""} {
		if err := Replace(path, []byte(s)); err != nil {
			t.Fatal(err)
		}
		contents(t, path, s)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := Create(path, []byte("first")); err != nil {
		t.Fatal(err)
	}
	contents(t, path, "first")
	if err := Create(path, []byte("second")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want %v", err, fs.ErrExist)
	}
	contents(t, path, "first")
}

func TestReplace_fails(t *testing.T) {
	dir := t.TempDir()
	if err := Replace(filepath.Join(dir, "absent", "x"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: got %v", err)
	}
	path := filepath.Join(dir, "x")
	if err := os.MkdirAll(filepath.Join(path, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	alone(t, path)
}

// TestReplace_stress: concurrent readers find the whole contents of one writer; of
// several concurrent calls of Create one succeeds.
func TestReplace_stress(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	var created atomic.Int32
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			err := Create(path, bytes.Repeat([]byte{byte('a' + i)}, 4096))
			if err == nil {
				created.Add(1)
			} else if !errors.Is(err, fs.ErrExist) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := created.Load(); n != 1 {
		t.Errorf("%d of 4 created it", n)
	}
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				if err := Replace(path, bytes.Repeat([]byte{byte('a' + i)}, 4096)); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 100 {
				b, err := os.ReadFile(path)
				if err != nil || len(b) != 4096 || !bytes.Equal(b, bytes.Repeat(b[:1], 4096)) {
					t.Errorf("%d bytes, %v: not whole", len(b), err)
				}
			}
		})
	}
	wg.Wait()
	alone(t, path)
}
