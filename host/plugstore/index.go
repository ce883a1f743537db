package plugstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// index is plugins.json. Plugins are values: a change replaces the entry.
type index struct {
	Version int               `json:"version"` // 1
	Plugins map[string]plugin `json:"plugins"`
}

// plugin is the entry of one name. Active and History are digests of
// Versions, or "" = none was active.
type plugin struct {
	Active   string    `json:"active,omitempty"`
	History  []string  `json:"history,omitempty"` // active before, last one last
	Versions []Version `json:"versions"`          // oldest put first
}

// decodeIndex reads plugins.json and validates it.
func decodeIndex(b []byte) (index, error) {
	var x index
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		return index{}, err
	}
	if d.More() {
		return index{}, fmt.Errorf("trailing data at byte %d", d.InputOffset())
	}
	if x.Version != 1 {
		return index{}, fmt.Errorf("version %d, want 1", x.Version)
	}
	if len(x.Plugins) > MaxNames {
		return index{}, fmt.Errorf("%d plugins, want at most %d", len(x.Plugins), MaxNames)
	}
	if x.Plugins == nil {
		x.Plugins = map[string]plugin{}
	}
	for name, p := range x.Plugins {
		if err := p.check(); err != nil || !ValidName(name) {
			return index{}, fmt.Errorf("plugin %.200q: %v", name, err)
		}
	}
	return x, nil
}

func (p *plugin) check() error {
	if len(p.Versions) == 0 || len(p.Versions) > MaxVersions || len(p.History) > MaxVersions {
		return fmt.Errorf("%d versions, %d activations, want 1 to %d and at most that", len(p.Versions), len(p.History),
			MaxVersions)
	}
	for i, v := range p.Versions {
		if !validDigest(v.Digest) || v.Bytes <= 0 || v.Bytes > MaxCodeBytes {
			return fmt.Errorf("version %d: digest %.100q of %d bytes", i, v.Digest, v.Bytes)
		}
		if !validPusher(v.Pusher) {
			return fmt.Errorf("version %d: pusher of %d bytes", i, len(v.Pusher))
		}
		if slices.ContainsFunc(p.Versions[:i], func(o Version) bool { return o.Digest == v.Digest }) {
			return fmt.Errorf("duplicate version %d", i)
		}
	}
	for _, d := range append(slices.Clone(p.History), p.Active) {
		if d != "" && !p.has(d) {
			return fmt.Errorf("active digest %.100q is not stored", d)
		}
	}
	return nil
}

func validDigest(d string) bool {
	return len(d) == 64 && !bytes.ContainsFunc([]byte(d), func(r rune) bool {
		return (r < '0' || r > '9') &&
			(r < 'a' || r > 'f')
	})
}

func (p *plugin) has(digest string) bool {
	return slices.ContainsFunc(p.Versions, func(v Version) bool { return v.Digest == digest })
}

// previous returns the digest that Rollback activates, "" = none.
func (p *plugin) previous() string {
	_, digest, _ := p.back("") // an error means none
	return digest
}

// back returns the digest that Rollback activates, "" = none was active, and its index
// in History: the last one that is not in quarantine. If skipping versions in quarantine
// would leave no version active, the error is ErrBad.
func (p *plugin) back(name string) (at int, digest string, err error) {
	switch {
	case len(p.Versions) == 0:
		return 0, "", fmt.Errorf("%w: %.200q", ErrUnknown, name)
	case len(p.History) == 0:
		return 0, "", fmt.Errorf("%w: %s", ErrNoPrevious, name)
	}
	for i, d := range slices.Backward(p.History) {
		why := p.quarantine(d)
		if why == "" && (d != "" || err == nil) {
			return i, d, nil
		}
		if err == nil {
			err = fmt.Errorf("%w: %s %.12s: %s", ErrBad, name, d, why)
		}
	}
	return 0, "", err
}

// quarantine returns why a version is in quarantine, "" = it is not.
func (p *plugin) quarantine(digest string) string {
	for _, v := range p.Versions {
		if v.Digest == digest {
			return v.Quarantine
		}
	}
	return ""
}

// needed reports whether a version is active or would be after Rollback.
func (p *plugin) needed(digest string) bool { return digest == p.Active || digest == p.previous() }

// put adds a version as the newest, keeping its first pusher, and drops the oldest
// ones beyond MaxVersions.
func (p *plugin) put(v Version) {
	for _, o := range p.Versions {
		if o.Digest != v.Digest {
			continue
		}
		v.Quarantine = o.Quarantine
		if o.Pusher != "" {
			v.Pusher = o.Pusher
		}
	}
	p.Versions = slices.DeleteFunc(p.Versions, func(o Version) bool { return o.Digest == v.Digest })
	p.Versions = append(p.Versions, v)
	for len(p.Versions) > MaxVersions {
		i := slices.IndexFunc(p.Versions, func(o Version) bool { return !p.needed(o.Digest) })
		p.drop(p.Versions[i].Digest)
	}
}

// drop removes a version from Versions, History and Active.
func (p *plugin) drop(digest string) {
	p.Versions = slices.DeleteFunc(p.Versions, func(v Version) bool { return v.Digest == digest })
	p.History = slices.DeleteFunc(p.History, func(d string) bool { return d == digest })
	if p.Active == digest {
		p.Active = ""
	}
	// Without B, A B A is A A, and a rollback from A to A would change nothing.
	p.History = slices.Compact(p.History)
	if n := len(p.History); n > 0 && p.History[n-1] == p.Active {
		p.History = p.History[:n-1]
	}
}

// activate makes a version active, "" = none, and appends the previous one to History.
func (p *plugin) activate(digest string) {
	if digest == p.Active {
		return
	}
	p.History = append(p.History, p.Active)
	p.Active = digest
	if n := len(p.History) - MaxVersions; n > 0 {
		p.History = slices.Delete(p.History, 0, n)
	}
}

func (p plugin) clone() plugin {
	p.History, p.Versions = slices.Clone(p.History), slices.Clone(p.Versions)
	return p
}

// changeLocked applies change to a copy of a plugin's entry and replaces the entry. On
// error nothing changes.
func (s *Store) changeLocked(name string, change func(p *plugin) error) error {
	p := s.index.Plugins[name].clone()
	if err := change(&p); err != nil {
		return err
	}
	return s.replaceLocked(name, &p)
}

// replaceLocked writes the index with p as the entry of a plugin, nil = none, and then
// removes unused code.
func (s *Store) replaceLocked(name string, p *plugin) error {
	next := index{Version: 1, Plugins: maps.Clone(s.index.Plugins)}
	if p != nil {
		next.Plugins[name] = *p
	} else {
		delete(next.Plugins, name)
	}
	if err := s.writeIndex(&next); err != nil {
		return fmt.Errorf("plugstore: %w", err)
	}
	before := s.index.Plugins[name].Versions
	s.index = next
	for _, v := range before {
		s.removeUnused(v.Digest)
	}
	return nil
}

// makeRoomLocked drops the name that was put longest ago of those that have neither an
// active nor a previous version, if name is one too many.
func (s *Store) makeRoomLocked(name string) error {
	if _, ok := s.index.Plugins[name]; ok || len(s.index.Plugins) < MaxNames {
		return nil
	}
	oldest, at := "", time.Time{}
	for n, p := range s.index.Plugins {
		if put := p.Versions[len(p.Versions)-1].Stored; p.Active == "" && p.previous() == "" &&
			(oldest == "" || put.Before(at)) {
			oldest, at = n, put
		}
	}
	if oldest == "" {
		return ErrFull
	}
	return s.replaceLocked(oldest, nil)
}

// uses reports whether any plugin has a version.
func (x *index) uses(digest string) bool {
	for _, p := range x.Plugins {
		if p.has(digest) {
			return true
		}
	}
	return false
}
