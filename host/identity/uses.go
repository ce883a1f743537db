package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
)

// usesFile is the content of the file of last uses.
type usesFile struct {
	Version int              `json:"version"`  // 1
	LastUse map[string]int64 `json:"last_use"` // key id → Unix seconds
}

// SaveUses writes the last use of each key of set, the one in force, to path if one
// changed since the previous call. The key file does not hold them: only changes by
// an operator rewrite it.
func (s *Store) SaveUses(path string, set *Set) error {
	if !s.used.Swap(false) {
		return nil
	}
	f := usesFile{Version: 1, LastUse: map[string]int64{}}
	for i, e := range set.entries {
		if sec := e.lastUse.Load(); sec != 0 {
			f.LastUse[set.records[i].ID] = sec
		}
	}
	b, err := json.Marshal(&f)
	if err == nil {
		err = atomicfile.Replace(path, append(b, '\n'))
	}
	if err != nil {
		s.used.Store(true)
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}

// RestoreUses reads the last uses from the file that SaveUses wrote, for keys that
// this process has not seen used. A missing file is no error.
func (s *Store) RestoreUses(path string) error {
	uses, err := ReadUses(path)
	if err != nil {
		return err
	}
	for id, at := range uses {
		s.lastUse(id).CompareAndSwap(0, at.Unix())
	}
	return nil
}

// ReadUses returns the last use of each key from the file at path, which may be
// absent.
func ReadUses(path string) (map[string]time.Time, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	u, err := parseUses(b)
	if err != nil {
		return nil, fmt.Errorf("identity: %s: %v: delete it to start over", path, err)
	}
	return u, nil
}

func parseUses(b []byte) (map[string]time.Time, error) {
	var f usesFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, err
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("version %d, want 1", f.Version)
	}
	out := map[string]time.Time{}
	for id, sec := range f.LastUse {
		if sec > 0 && validName(id) {
			out[id] = time.Unix(sec, 0).UTC()
		}
	}
	return out, nil
}
