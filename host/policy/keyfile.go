package policy

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
)

// KeyBytes is the length of a secret key.
const KeyBytes = 32

// LoadOrCreateKey reads the secret key in the file path, which holds 64
// hexadecimal digits and a line end; if there is no such file it makes a random
// key and writes it there with mode 0600, its directory with mode 0700. Several
// processes may do so at once: all get the same key. A file that others can read, a
// directory that others can write and a file of another form are errors: with another
// key every cached prefix would be lost, and anyone who has the key can compute the
// salt of every namespace.
func LoadOrCreateKey(path string) ([]byte, error) {
	key, err := LoadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := createKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return LoadKey(path)
}

// LoadKey is LoadOrCreateKey for a file that must exist.
func LoadKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	if err := checkModes(f, path); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	text = bytes.TrimSpace(text)
	key := make([]byte, hex.DecodedLen(len(text)))
	if _, err := hex.Decode(key, text); err != nil || len(key) != KeyBytes {
		return nil, fmt.Errorf("policy: %s does not contain %d hexadecimal digits", path, 2*KeyBytes)
	}
	return key, nil
}

func checkModes(f *os.File, path string) error {
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("policy: %s is not a regular file", path)
	}
	if m := st.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("policy: %s is accessible to others (mode %04o, want 0600)", path, m)
	}
	dir := filepath.Dir(path)
	if st, err = os.Stat(dir); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	if m := st.Mode(); m.Perm()&0o022 != 0 && m&fs.ModeSticky == 0 {
		return fmt.Errorf("policy: directory %s is writable by others (mode %04o, want 0700)", dir, m.Perm())
	}
	return nil
}

// createKey writes a random key; the first one wins.
func createKey(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	var key [KeyBytes]byte
	rand.Read(key[:]) // never fails
	return atomicfile.Create(path, []byte(hex.EncodeToString(key[:])+"\n"))
}
