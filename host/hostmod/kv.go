package hostmod

import (
	"fmt"
	"maps"
	"sync"

	"github.com/kvasir-router/kvasir/abi"
	"github.com/kvasir-router/kvasir/host/wasm"
)

const (
	defaultQuota  = 1 << 20 // bytes of keys and values of one plugin
	maxKeyBytes   = 256
	maxValueBytes = 64 << 10
	entryOverhead = 64 // per entry, in addition to its bytes
)

// Spaces are the plugins' key-value spaces, by name and state version. They
// are state: they outlive the revisions that use them. The zero
// Spaces is not usable; use NewSpaces. It is safe for concurrent use.
type Spaces struct {
	quota int
	mu    sync.Mutex // guards all
	all   map[spaceKey]*Space
}

type spaceKey struct {
	plugin  string
	version uint32
}

// NewSpaces returns empty spaces of quota bytes each; 0 = 1 MiB.
func NewSpaces(quota int) *Spaces {
	if quota == 0 {
		quota = defaultQuota
	}
	return &Spaces{quota: quota, all: map[spaceKey]*Space{}}
}

// Space returns the space of a plugin's state version, created at the first call. With
// overlay it is a private copy.
func (s *Spaces) Space(plugin string, version uint32, overlay bool) *Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := spaceKey{plugin, version}
	sp := s.all[k]
	if sp == nil {
		sp = &Space{quota: s.quota, m: map[string][]byte{}}
		if !overlay {
			s.all[k] = sp
		}
	}
	if overlay {
		return sp.copy()
	}
	return sp
}

// Forget drops the space of a plugin's state version.
func (s *Spaces) Forget(plugin string, version uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, spaceKey{plugin, version})
}

// Space is one key-value space. It is safe for concurrent use.
type Space struct {
	quota int
	mu    sync.Mutex // guards m and used
	m     map[string][]byte
	used  int
}

func (s *Space) copy() *Space {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Space{quota: s.quota, m: maps.Clone(s.m), used: s.used} // values are never changed in place
}

// Get returns the value of key. It must not be changed.
func (s *Space) Get(key string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.m[key]
	return v, ok
}

// Set stores a value, which it takes over, unless the quota is exceeded.
func (s *Space) Set(key string, value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := s.used + len(key) + len(value) + entryOverhead
	if old, ok := s.m[key]; ok {
		need -= len(key) + len(old) + entryOverhead
	}
	if need > s.quota {
		return false
	}
	s.used = need
	s.m[key] = value
	return true
}

// Delete removes key and reports whether it was there.
func (s *Space) Delete(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.m[key]
	if ok {
		s.used -= len(key) + len(old) + entryOverhead
		delete(s.m, key)
	}
	return ok
}

// Used returns the bytes the space counts.
func (s *Space) Used() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

const absent = ^uint64(0) & 0xffffffff // -1 as an i32

// KV returns kvasir:kv/1 over spaces. It may be called from observe, idle and
// the start of an instance; from filter, score and pick it is a fault, because
// their results must depend on the batch only.
func KV(spaces *Spaces) *wasm.HostModule {
	i32s := []wasm.Value{wasm.I32, wasm.I32, wasm.I32, wasm.I32}
	return &wasm.HostModule{
		Name: abi.ModuleKV,
		Open: func(g wasm.Guest) (any, error) {
			return spaces.Space(g.Plugin, g.StateVersion, g.Overlay), nil
		},
		Funcs: []wasm.HostFunc{
			{Name: "get", Params: i32s, Results: i32s[:1], Call: kvGet, Units: abi.FuelHostSystem},
			{Name: "set", Params: i32s, Results: i32s[:1], Call: kvSet, Units: abi.FuelHostSystem},
			{Name: "delete", Params: i32s[:2], Results: i32s[:1], Call: kvDelete, Units: abi.FuelHostSystem},
		},
	}
}

// kvKey returns the space and the key of a call, ok = false after a fault.
func kvKey(c *wasm.Call, st []uint64) (s *Space, key []byte, ok bool) {
	if c.Hot() {
		c.Fail(wasm.ReasonForbidden, fmt.Sprintf("%s in %s", abi.ModuleKV, c.Role()))
		return nil, nil, false
	}
	s, _ = c.State().(*Space)
	if s == nil || uint32(st[1]) > maxKeyBytes {
		c.Fail(wasm.ReasonForbidden, fmt.Sprintf("%s: a key of %d bytes, or before the manifest was read", abi.ModuleKV,
			uint32(st[1])))
		return nil, nil, false
	}
	key, ok = c.Read(uint32(st[0]), uint32(st[1]))
	return s, key, ok
}

func kvGet(c *wasm.Call, st []uint64) {
	at, room := uint32(st[2]), uint32(st[3])
	s, key, ok := kvKey(c, st)
	st[0] = absent
	if !ok {
		return
	}
	v, ok := s.Get(string(key))
	if !ok {
		return
	}
	if uint32(len(v)) <= room {
		dst, ok := c.Read(at, uint32(len(v)))
		if !ok {
			return
		}
		copy(dst, v)
	}
	st[0] = uint64(len(v))
}

func kvSet(c *wasm.Call, st []uint64) {
	at, n := uint32(st[2]), uint32(st[3])
	s, key, ok := kvKey(c, st)
	st[0] = 1
	if !ok || n > maxValueBytes {
		return
	}
	v, ok := c.Read(at, n)
	c.Charge(int64(n) / abi.FuelHostBytes) // again: the copy is kept
	if ok && s.Set(string(key), append([]byte(nil), v...)) {
		st[0] = 0
	}
}

func kvDelete(c *wasm.Call, st []uint64) {
	s, key, ok := kvKey(c, st)
	st[0] = 1
	if ok && s.Delete(string(key)) {
		st[0] = 0
	}
}
