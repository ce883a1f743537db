package statedir

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestSaltKey: a key is fresh once, and the same for every later process.
func TestSaltKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := Make(dir); err != nil {
		t.Fatal(err)
	}
	key, fresh, err := SaltKey(dir)
	if err != nil || !fresh {
		t.Fatalf("the first: fresh %v, %v", fresh, err)
	}
	again, fresh, err := SaltKey(dir)
	if err != nil || fresh || !bytes.Equal(key, again) {
		t.Errorf("the second: fresh %v, same %v, %v", fresh, bytes.Equal(key, again), err)
	}
}

// TestReadPepper: reading makes no pepper.
func TestReadPepper(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadPepper(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a pepper: %v", err)
	}
	made, err := Pepper(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadPepper(dir); err != nil || !bytes.Equal(got, made) {
		t.Errorf("another pepper than was made: %v", err)
	}
}

// TestLock: a directory has one user at a time.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir); err == nil || !strings.Contains(err.Error(), "process ") {
		t.Errorf("a second user: %v", err)
	}
	unlock()
	unlock, err = Lock(dir)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	unlock()
}
