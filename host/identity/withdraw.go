package identity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"
)

// Withdrawal lists credentials that are no longer accepted, even if the files that
// withdraw them contain errors.
type Withdrawal struct {
	Keys         []Record // replacements: revoked, or narrower than before
	Certificates []string // subject alternative names, as SANs has them
	Tenants      []string // disabled
	Anonymous    bool     // requests without credentials
}

// Empty reports whether w withdraws nothing.
func (w *Withdrawal) Empty() bool {
	return len(w.Keys)+len(w.Certificates)+len(w.Tenants) == 0 && !w.Anonymous
}

// Without returns s without the credentials of w. A set that has lost all its keys
// still refuses unknown ones.
func (s *Set) Without(w *Withdrawal) *Set {
	next := *s
	if len(w.Keys) > 0 {
		next = *s.WithKeys(w.Keys...)
	}
	if len(w.Certificates) > 0 {
		next.grants, next.certs = maps.Clone(s.grants), maps.Clone(s.certs)
		for _, san := range w.Certificates {
			delete(next.grants, san)
			delete(next.certs, san)
		}
	}
	if w.Anonymous {
		next.anonymous, next.open = nil, false
	}
	if len(w.Tenants) > 0 {
		next.disabled = maps.Clone(s.disabled)
		for _, t := range w.Tenants {
			next.disabled[t] = true
		}
	}
	return &next
}

// Enabled returns s without disabled tenants: s itself if it has none.
func (s *Set) Enabled() *Set {
	if len(s.disabled) == 0 {
		return s
	}
	next := *s
	next.disabled = map[string]bool{}
	return &next
}

// Disabled returns the disabled tenants, sorted.
func (s *Set) Disabled() []string { return slices.Sorted(maps.Keys(s.disabled)) }

// Certificates returns the grants of client certificates, by name as SANs has it.
// They must not be changed.
func (s *Set) Certificates() Certificates { return s.grants }

// Anonymous returns the tenant of requests without credentials, "" = there is none.
func (s *Set) Anonymous() string {
	if s.anonymous == nil {
		return ""
	}
	return s.anonymous.Tenant
}

// Withdrawn returns replacements for the keys of s that k withdraws or narrows. A key
// that k revokes, does not contain, or lists with another tenant or secret is revoked,
// at now if k has no time; a key that expires earlier or has fewer scopes in k gets
// these. Keys and scopes that k adds are ignored. If complete is false, k is the
// readable part of an invalid file and keys that it lacks stay.
func (s *Set) Withdrawn(k *KeyFile, complete bool, now time.Time) (out []Record) {
	byID := make(map[string]*Record, len(k.Keys))
	for i := range k.Keys {
		byID[k.Keys[i].ID] = &k.Keys[i]
	}
	for i := range s.records {
		r := s.records[i]
		if !r.Revoked.IsZero() {
			continue
		}
		next := byID[r.ID]
		if next == nil && !complete {
			continue
		}
		if narrow(&r, next, now) {
			out = append(out, r)
		}
	}
	return out
}

// narrow restricts r to what next grants; nil grants nothing. It reports whether r
// changed.
func narrow(r, next *Record, now time.Time) bool {
	if next == nil || !next.Revoked.IsZero() || next.MAC != r.MAC || next.Tenant != r.Tenant {
		r.Revoked = now.UTC().Truncate(time.Second)
		if next != nil && !next.Revoked.IsZero() {
			r.Revoked = next.Revoked
		}
		return true
	}
	changed := false
	if e := next.Expires; !e.IsZero() && (r.Expires.IsZero() || e.Before(r.Expires)) {
		r.Expires, changed = e, true
	}
	withdrawn := func(scope string) bool { return !slices.Contains(next.Scopes, scope) }
	if kept := slices.DeleteFunc(slices.Clone(r.Scopes), withdrawn); len(kept) < len(r.Scopes) {
		r.Scopes, changed = kept, true
	}
	return changed
}

// ScanFile reads as much of a key file as is readable. complete reports whether all
// records were found, so that a key that is not among them is not in the file; the
// records themselves may be invalid. An empty file is complete and has no keys. On
// error neither result is meaningful.
func ScanFile(path string) (k *KeyFile, complete bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, fmt.Errorf("identity: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, false, fmt.Errorf("identity: %w", err)
	}
	if len(b) > maxFile {
		return nil, false, fmt.Errorf("identity: %s is larger than %d bytes", path, maxFile)
	}
	k, complete = scanKeys(b)
	return k, complete, nil
}

// scanKeys returns the records of a key file's text up to a syntax error.
func scanKeys(b []byte) (k *KeyFile, complete bool) {
	k = &KeyFile{Version: 1}
	if len(bytes.TrimSpace(b)) == 0 {
		return k, true
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return k, false
	}
	found := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return k, false
		}
		if name == "keys" {
			if !scanList(d, k) {
				return k, false
			}
			found = true
			continue
		}
		var skip json.RawMessage
		if d.Decode(&skip) != nil {
			return k, false
		}
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') {
		return k, false
	}
	return k, found
}

// scanList adds the records of the list at d and reports whether the list is
// complete. A record that cannot be decoded makes it incomplete; the records after
// it are added.
func scanList(d *json.Decoder, k *KeyFile) bool {
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return false
	}
	whole := true
	for d.More() {
		var text json.RawMessage
		if d.Decode(&text) != nil {
			return false
		}
		var r Record
		if json.Unmarshal(text, &r) != nil || r.ID == "" {
			whole = false
			continue
		}
		k.Keys = append(k.Keys, r)
	}
	_, err := d.Token()
	return err == nil && whole
}
