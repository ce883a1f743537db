package wasm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tetratelabs/wazero"
)

// maxCacheBytes bounds a compile cache's directory: 70 modules of Go's standard
// toolchain, or 100,000 in C. Removed code is compiled again when it is needed.
const maxCacheBytes = 512 << 20

func openCache(dir string) (wazero.CompilationCache, error) {
	if dir == "" {
		return wazero.NewCompilationCache(), nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("wasm: compile cache: %w", err)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("wasm: compile cache: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("wasm: compile cache %s has mode %#o, want 0700: its contents are executed", dir,
			st.Mode().Perm())
	}
	if err := pruneCache(dir, maxCacheBytes); err != nil {
		return nil, err
	}
	c, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("wasm: compile cache: %w", err)
	}
	return c, nil
}

// pruneCache removes the oldest files of dir until the others have at most most
// bytes together. Code that is in use is in memory and needs no file.
func pruneCache(dir string, most int64) error {
	type entry struct {
		path string
		info fs.FileInfo
	}
	var all []entry
	sum := int64(0)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				all = append(all, entry{path, info})
				sum += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another process renamed or removed it
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("wasm: compile cache: %w", err)
	}
	slices.SortFunc(all, func(a, b entry) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	for _, e := range all {
		if sum <= most {
			break
		}
		if err := os.Remove(e.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("wasm: compile cache: %w", err)
		}
		sum -= e.info.Size()
	}
	return nil
}
