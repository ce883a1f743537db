// Package plugstore stores the code of plugins on disk, with the versions of each
// plugin, the active one and those active before.
//
// A store is a directory of mode 0700 that one process owns:
//
//	code/SHA256.wasm    code, once per content, mode 0600
//	plugins.json        names, versions, active set
//	plugins.json.prev   the index before the last change
//
// Every file is written whole under a temporary name, synced and renamed. Code is
// written before an index names it and removed after no index does, so that a crash at
// any time leaves the state before or after the change. Corrupt files (a disk error, an
// editor) are ignored, reported by Problems and List, and never returned: code is
// compared with its digest at every read.
package plugstore

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
)

// Bounds of a store.
const (
	// MaxCodeBytes limits one module, as package wasm does: a scorer built by Go's
	// standard toolchain has 2 MB, and modules above 8 MB compile for many seconds.
	MaxCodeBytes = 8 << 20
	// MaxVersions is the most versions of a name. 20 pushes are a day's work on a scorer;
	// 20 modules of Go are 40 MB.
	MaxVersions = 20
	// MaxNames limits the index against mistaken scripts: 256 times MaxVersions of C
	// plugins is 3 MB. The name that was put longest ago and has neither an active nor a
	// previous version is removed for another.
	MaxNames = 256
	// MaxNameBytes limits a name.
	MaxNameBytes = 128
	// DefaultBytes limits all code unless Limits override it: some hundred modules of
	// Go's standard toolchain, or those of 8 pushers.
	DefaultBytes = 512 << 20
	// DefaultPusherBytes limits the code that one pusher stored first: thirty modules of
	// Go, or thousands of C. With less, a day's work on a plugin in Go would not fit; with
	// more, few pushers would fill the store.
	DefaultPusherBytes = 64 << 20
	// MaxPusherBytes limits the name of a pusher: a tenant, a user and an issuer are some
	// hundred bytes.
	MaxPusherBytes = 512
)

// Errors that callers test for.
var (
	// by Put
	ErrName = errors.New("plugstore: want a name of 1 to 128 letters, digits and ._-, beginning with a letter " +
		"or digit")
	// by Put
	ErrPusher = fmt.Errorf("plugstore: want a pusher of at most %d bytes of UTF-8", MaxPusherBytes)
	// by Put
	ErrSize = fmt.Errorf("plugstore: want 1 to %d bytes of code", MaxCodeBytes)
	// by Put
	ErrFull = fmt.Errorf("plugstore: all %d names have an active or previous version", MaxNames)
	// by Put
	ErrBytes = errors.New("plugstore: not enough space")
	// by Activate, Rollback, Deactivate and Code
	ErrUnknown = errors.New("plugstore: no such version")
	// by Back, Previous and Rollback
	ErrNoPrevious = errors.New("plugstore: no previous version")
	// by Back, Previous and Rollback
	ErrBad = errors.New("plugstore: every earlier version was quarantined")
	// by Problems, Activate, Rollback and Code
	ErrTorn = errors.New("plugstore: corrupt file")
)

// Version is one stored version of a plugin.
type Version struct {
	Digest string    `json:"digest"` // SHA-256 of the code, hex
	Bytes  int       `json:"bytes"`
	Stored time.Time `json:"stored"` // when it was last put, UTC
	// Pusher is who put it first, "" = unknown, as in an index written by an older
	// version. Putting the same code again does not change it.
	Pusher string `json:"pusher,omitempty"`
	// Quarantine is why it went into quarantine, "" = it did not, or has recovered.
	// Rollback skips such a version.
	Quarantine string `json:"quarantine,omitempty"`
}

// Limits limit the contents of a store, in bytes of code; 0 = the defaults.
type Limits struct{ Bytes, PusherBytes int64 }

// Stored is one name of a store with its versions.
type Stored struct {
	Name     string    `json:"name"`
	Active   string    `json:"active,omitempty"`   // digest, "" = none
	Previous string    `json:"previous,omitempty"` // digest that Rollback activates, "" = none
	Versions []Version `json:"versions"`           // oldest put first
}

// Store is a store of plugins. It is safe for concurrent use by one process;
// two processes must not open the same directory.
type Store struct {
	dir string

	mu       sync.Mutex // guards what follows, and the files
	limits   Limits
	index    index
	problems []error
}

// Open opens the store in dir and creates it if necessary. It removes files of
// unfinished writes and ignores corrupt ones, see Problems. Errors: those of the file
// system, and if others than the owner may write to dir.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	s.SetLimits(Limits{})
	if err := os.MkdirAll(s.codeDir(), 0o700); err != nil {
		return nil, fmt.Errorf("plugstore: %w", err)
	}
	for _, d := range []string{dir, s.codeDir()} {
		info, err := os.Stat(d)
		if err != nil {
			return nil, fmt.Errorf("plugstore: %w", err)
		}
		if mode := info.Mode().Perm(); mode&0o022 != 0 {
			return nil, fmt.Errorf("plugstore: %s has mode %#o: others may write executed code; run chmod 700", d, mode)
		}
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("plugstore: %w", err)
	}
	whole, err := s.readIndex()
	if err != nil {
		return nil, fmt.Errorf("plugstore: %w", err)
	}
	if err := s.sweep(whole); err != nil {
		return nil, fmt.Errorf("plugstore: %w", err)
	}
	s.dropTorn()
	return s, nil
}

// SetLimits sets the limits for later calls of Put. Stored code stays until a Put needs
// its space.
func (s *Store) SetLimits(l Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = Limits{cmp.Or(l.Bytes, DefaultBytes), cmp.Or(l.PusherBytes, DefaultPusherBytes)}
}

func (s *Store) codeDir() string { return filepath.Join(s.dir, "code") }

func (s *Store) codePath(digest string) string { return filepath.Join(s.codeDir(), digest+".wasm") }

// Problems returns the corrupt files found since Open. Each error is ErrTorn and names
// the file.
func (s *Store) Problems() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// Put stores a version of a plugin, which becomes its newest, and returns its
// digest. It does not activate it. The oldest version beyond MaxVersions that
// neither is active nor would be after Rollback goes; so do the oldest ones of the
// pusher, and of all, that are more than the bounds in bytes allow. pusher is kept
// where it is the first, code is not. Errors: ErrName, ErrSize, ErrPusher, ErrFull,
// ErrBytes and those of the file system.
func (s *Store) Put(name string, code []byte, pusher string) (digest string, err error) {
	if !ValidName(name) {
		return "", fmt.Errorf("%w: %.200q", ErrName, name)
	}
	if len(code) == 0 || len(code) > MaxCodeBytes {
		return "", fmt.Errorf("%w: %d", ErrSize, len(code))
	}
	if !validPusher(pusher) {
		return "", fmt.Errorf("%w: %d bytes", ErrPusher, len(pusher))
	}
	digest = digestOf(code)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeRoomLocked(name); err != nil {
		return "", err
	}
	if err := s.makeBytesLocked(digest, int64(len(code)), pusher); err != nil {
		return "", err
	}
	if _, err := s.readCode(digest); err != nil {
		if err := atomicfile.Replace(s.codePath(digest), code); err != nil {
			return "", fmt.Errorf("plugstore: %w", err)
		}
	}
	err = s.changeLocked(name, func(p *plugin) error {
		p.put(Version{Digest: digest, Bytes: len(code), Stored: time.Now().UTC(), Pusher: pusher})
		return nil
	})
	if err != nil {
		return "", err
	}
	return digest, nil
}

// Active returns the active version of a plugin; ok is false where none is, and
// if its file is corrupt, see Problems. The caller owns code.
func (s *Store) Active(name string) (digest string, code []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	digest = s.index.Plugins[name].Active
	if digest == "" {
		return "", nil, false
	}
	code, err := s.readCode(digest)
	if err != nil {
		s.problems = append(s.problems[max(0, len(s.problems)-99):], fmt.Errorf("%s: %w", name, err))
		return "", nil, false
	}
	return digest, code, true
}

// Previous returns the version that Rollback goes to. The caller owns code.
// Errors: ErrNoPrevious, ErrBad, ErrTorn and those of the file system.
func (s *Store) Previous(name string) (code []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index.Plugins[name]
	_, digest, err := p.back(name)
	if err == nil && digest == "" {
		err = fmt.Errorf("%w: %.200q", ErrNoPrevious, name)
	}
	if err != nil {
		return nil, err
	}
	return s.readCode(digest)
}

// Back returns the version that Rollback would activate; digest is "" and code nil if
// none was active before. The caller owns code. Errors: as Rollback.
func (s *Store) Back(name string) (digest string, code []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index.Plugins[name]
	if _, digest, err = p.back(name); err != nil || digest == "" {
		return "", nil, err
	}
	code, err = s.readCode(digest)
	return digest, code, err
}

// Quarantine stores why the versions of a digest went into quarantine, "" = they have
// recovered. Errors: those of the file system.
func (s *Store) Quarantine(digest, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, p := range s.index.Plugins {
		i := slices.IndexFunc(p.Versions, func(v Version) bool { return v.Digest == digest && v.Quarantine != why })
		if i < 0 {
			continue
		}
		p = p.clone()
		p.Versions[i].Quarantine = why
		if err := s.replaceLocked(name, &p); err != nil {
			return err
		}
	}
	return nil
}

// Pusher returns who pushed a stored version first, "" = unknown.
func (s *Store) Pusher(name, digest string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.index.Plugins[name].Versions {
		if v.Digest == digest {
			return v.Pusher
		}
	}
	return ""
}

// Code returns a stored version of a plugin, active or not. The caller owns
// code. Errors: ErrUnknown, ErrTorn and those of the file system.
func (s *Store) Code(name, digest string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index.Plugins[name]
	if !p.has(digest) {
		return nil, fmt.Errorf("%w: %s %.64s", ErrUnknown, name, digest)
	}
	return s.readCode(digest)
}

// Activate makes a stored version the active one. Activating what is active
// changes nothing. Errors: ErrUnknown, ErrTorn and those of the file system.
func (s *Store) Activate(name, digest string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeLocked(name, func(p *plugin) error {
		if !p.has(digest) {
			return fmt.Errorf("%w: %s %.64s", ErrUnknown, name, digest)
		}
		if _, err := s.readCode(digest); err != nil {
			return err
		}
		p.activate(digest)
		return nil
	})
}

// Rollback undoes the last Activate or Deactivate that changed something: the
// version that was active before is active again, and its digest returned; ""
// if none was. It skips versions in quarantine. Each call goes further back, at most
// MaxVersions. Errors: ErrUnknown, ErrNoPrevious, ErrBad, ErrTorn
// and those of the file system.
func (s *Store) Rollback(name string) (digest string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.changeLocked(name, func(p *plugin) error {
		at := 0
		if at, digest, err = p.back(name); err != nil {
			return err
		}
		if digest != "" {
			if _, err := s.readCode(digest); err != nil {
				return err
			}
		}
		p.Active, p.History = digest, p.History[:at]
		return nil
	})
	if err != nil {
		return "", err
	}
	return digest, nil
}

// Deactivate leaves no version of a plugin active; Rollback undoes it.
// Errors: ErrUnknown and those of the file system.
func (s *Store) Deactivate(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changeLocked(name, func(p *plugin) error {
		if len(p.Versions) == 0 {
			return fmt.Errorf("%w: %.200q", ErrUnknown, name)
		}
		p.activate("")
		return nil
	})
}

// List returns the stored plugins, by name. The error joins those of corrupt files,
// each ErrTorn; the list is complete anyway.
func (s *Store) List() ([]Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var torn []error
	list := make([]Stored, 0, len(s.index.Plugins))
	for name, p := range s.index.Plugins {
		list = append(list, Stored{Name: name, Active: p.Active, Previous: p.previous(), Versions: slices.Clone(p.Versions)})
		for _, v := range p.Versions {
			if info, err := os.Stat(s.codePath(v.Digest)); err != nil || info.Size() != int64(v.Bytes) {
				torn = append(torn, fmt.Errorf("%w: %s: %s", ErrTorn, name, s.codePath(v.Digest)))
			}
		}
	}
	slices.SortFunc(list, func(a, b Stored) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list, errors.Join(torn...)
}

// ValidName reports whether Put accepts a name.
func ValidName(name string) bool {
	if len(name) == 0 || len(name) > MaxNameBytes {
		return false
	}
	for i, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return true
}

// validPusher reports whether a name survives a round trip through the index:
// replacements for invalid UTF-8 could make it equal to another name.
func validPusher(s string) bool { return len(s) <= MaxPusherBytes && utf8.ValidString(s) }

func digestOf(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:])
}
