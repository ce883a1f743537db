package plugstore

import (
	"fmt"
	"time"
)

// held is code in the index, once per content.
type held struct {
	bytes  int64
	pusher string    // of the version that was put first
	stored time.Time // when it was last put, under any name
	needed bool      // active, or the previous version, of any name
}

// heldLocked returns all code, by digest.
func (s *Store) heldLocked() map[string]*held {
	all := map[string]*held{}
	for _, p := range s.index.Plugins {
		for _, v := range p.Versions {
			h := all[v.Digest]
			if h == nil {
				h = &held{bytes: int64(v.Bytes), pusher: v.Pusher, stored: v.Stored}
				all[v.Digest] = h
			}
			if v.Stored.After(h.stored) {
				h.stored = v.Stored
			}
			h.needed = h.needed || p.needed(v.Digest)
		}
	}
	return all
}

// makeBytesLocked drops the versions that were put longest ago and are neither active
// nor previous until code of the given size fits. It drops nothing if that does not
// suffice.
func (s *Store) makeBytesLocked(digest string, bytes int64, pusher string) error {
	all := s.heldLocked()
	if all[digest] != nil {
		return nil // already stored
	}
	var drop []string
	free := func(most int64, mine func(*held) bool) (used int64) {
		for _, h := range all {
			if mine(h) {
				used += h.bytes
			}
		}
		for used+bytes > most {
			oldest := ""
			for d, h := range all {
				if mine(h) && !h.needed && (oldest == "" || h.stored.Before(all[oldest].stored)) {
					oldest = d
				}
			}
			if oldest == "" {
				return used
			}
			used -= all[oldest].bytes
			drop = append(drop, oldest)
			delete(all, oldest)
		}
		return used
	}
	if used := free(s.limits.PusherBytes,
		func(h *held) bool { return h.pusher == pusher }); used+bytes > s.limits.PusherBytes {
		return fmt.Errorf("%w: %d bytes do not fit: active and previous versions of this pusher use %d of %d bytes; "+
			"raise plugin_store.pusher_bytes, or replace them by smaller versions",
			ErrBytes, bytes, used, s.limits.PusherBytes)
	}
	if used := free(s.limits.Bytes, func(*held) bool { return true }); used+bytes > s.limits.Bytes {
		return fmt.Errorf("%w: %d bytes do not fit: active and previous versions use %d of %d bytes; raise "+
			"plugin_store.bytes, or replace them by smaller versions",
			ErrBytes, bytes, used, s.limits.Bytes)
	}
	for _, d := range drop {
		if err := s.dropLocked(d); err != nil {
			return err
		}
	}
	return nil
}

// dropLocked removes a version from all names, and names without versions.
func (s *Store) dropLocked(digest string) error {
	for name, p := range s.index.Plugins {
		if !p.has(digest) {
			continue
		}
		p = p.clone()
		p.drop(digest)
		next := &p
		if len(p.Versions) == 0 {
			next = nil
		}
		if err := s.replaceLocked(name, next); err != nil {
			return err
		}
	}
	return nil
}
