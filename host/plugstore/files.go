package plugstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
)

const (
	indexName = "plugins.json"
	prevName  = "plugins.json.prev"

	// maxIndexBytes is beyond MaxNames full entries, each byte of their pushers
	// escaped to six.
	maxIndexBytes = 32 << 20
)

// readIndex reads the index, or the one before if it is torn. whole is false
// where a torn one was found: code it may have named must then stay.
func (s *Store) readIndex() (whole bool, err error) {
	whole = true
	for _, name := range []string{indexName, prevName} {
		path := filepath.Join(s.dir, name)
		b, err := readBounded(path, maxIndexBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			if s.index, err = decodeIndex(b); err == nil {
				return whole, nil
			}
		}
		whole = false
		s.problems = append(s.problems, fmt.Errorf("%w: %s: %v", ErrTorn, path, err))
		if err := os.Rename(path, path+".torn"); err != nil {
			return false, err
		}
	}
	s.index = index{Version: 1, Plugins: map[string]plugin{}}
	return whole, nil
}

// writeIndex replaces the index and keeps the one before.
func (s *Store) writeIndex(x *index) error {
	b, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return err
	}
	path, prev := filepath.Join(s.dir, indexName), filepath.Join(s.dir, prevName)
	if err := os.Remove(prev); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(path, prev); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return atomicfile.Replace(path, append(b, '\n'))
}

// readCode reads a version and compares it with its digest.
func (s *Store) readCode(digest string) ([]byte, error) {
	path := s.codePath(digest)
	b, err := readBounded(path, MaxCodeBytes)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTorn, err)
	}
	if digestOf(b) != digest {
		return nil, fmt.Errorf("%w: %s: content of %d bytes does not match the digest in its name", ErrTorn, path, len(b))
	}
	return b, nil
}

// sweep removes what writes that did not end left behind, and code that no
// index names if the index is whole.
func (s *Store) sweep(whole bool) error {
	for _, dir := range []string{s.dir, s.codeDir()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			digest, isCode := strings.CutSuffix(e.Name(), ".wasm")
			unused := dir == s.codeDir() && isCode && validDigest(digest) && whole && !s.index.uses(digest)
			if unused || strings.HasPrefix(e.Name(), atomicfile.TempPrefix) {
				if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// dropTorn removes versions from the index whose code is corrupt or missing; where
// the active one is, the one active before it is active. The index on disk keeps
// them until the next change.
func (s *Store) dropTorn() {
	for name, p := range s.index.Plugins {
		p = p.clone()
		for _, v := range slices.Clone(p.Versions) {
			if _, err := s.readCode(v.Digest); err != nil {
				s.problems = append(s.problems, fmt.Errorf("%s: %w", name, err))
				if was := p.Active; was == v.Digest {
					p.drop(was)
					p.Active = p.previous()
					p.History = p.History[:max(0, len(p.History)-1)]
				} else {
					p.drop(v.Digest)
				}
			}
		}
		if s.index.Plugins[name] = p; len(p.Versions) == 0 {
			delete(s.index.Plugins, name)
		}
	}
}

// removeUnused removes code that no plugin has. A file that stays is removed by
// the next Open.
func (s *Store) removeUnused(digest string) {
	if !s.index.uses(digest) {
		_ = os.Remove(s.codePath(digest))
	}
}

// readBounded reads a regular file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s: %v of %d bytes, want a file of at most %d", path, info.Mode(), info.Size(), limit)
	}
	return os.ReadFile(path)
}
