package identity

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
	"github.com/kvasir-router/kvasir/host/internal/filelock"
	"github.com/kvasir-router/kvasir/host/internal/secret"
)

// Errors of a change of keys.
var (
	// ErrNoKey is returned if the file has no key with the id.
	ErrNoKey = errors.New("identity: no key with this id")
	// ErrEnded is returned by Rotate for a key that was revoked or has expired: a
	// replacement would restore access that was withdrawn.
	ErrEnded = errors.New("identity: the key was revoked or has expired; issue another one")
	// ErrPepper is wrapped if the keys of a file were hashed with another pepper: a
	// router with this pepper would accept none of them.
	ErrPepper = errors.New("identity: the keys of the file were hashed with another pepper")
)

// Grant is the principal that a key represents and what it may do.
type Grant struct {
	Tenant string   `json:"tenant"`
	User   string   `json:"user,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Scopes []string `json:"scopes,omitempty"`

	// Labels are passed to policy, such as data_class: phi.
	Labels map[string]string `json:"labels,omitempty"`
}

// Record is one key in the file.
type Record struct {
	ID string `json:"id"`
	Grant
	MAC     string    `json:"mac"` // hex of HMAC-SHA256(pepper, "kvasir/api-key/v1\0" ‖ key)
	Created time.Time `json:"created"`
	Issuer  string    `json:"issuer,omitempty"`  // name of the issuer
	Expires time.Time `json:"expires,omitzero"`  // zero = never
	Revoked time.Time `json:"revoked,omitzero"`  // zero = not revoked
	Note    string    `json:"note,omitempty"`    // free text
	LastUse time.Time `json:"last_use,omitzero"` // filled by Store.List, not kept in the file
}

// KeyFile is the content of an API key file: JSON, which is YAML too.
type KeyFile struct {
	Version int `json:"version"` // 1

	// PepperID identifies the pepper that all keys were hashed with; "" in a file
	// without keys, and in files that older versions wrote.
	PepperID string   `json:"pepper_id,omitempty"`
	Keys     []Record `json:"keys"`
}

// CheckPepper checks that the keys of k were hashed with pepper, if k says which
// pepper they were hashed with. The error wraps ErrPepper.
func (k *KeyFile) CheckPepper(pepper []byte) error {
	if id := pepperID(pepper); k.PepperID != "" && k.PepperID != id {
		return fmt.Errorf("%w (id %s, this one has id %s): use the state_dir of the router that reads the file",
			ErrPepper, k.PepperID, id)
	}
	return nil
}

// maxFile bounds a key file: some 100,000 keys.
const maxFile = 32 << 20

// ReadFile reads and checks a key file. A file that others can write is refused:
// anyone who can write it can become any tenant.
func ReadFile(path string) (*KeyFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("identity: %s is writable by others (mode %04o, want 0600)", path, st.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("identity: %s is larger than %d bytes", path, maxFile)
	}
	k, err := ParseFile(b)
	if err != nil {
		return nil, fmt.Errorf("%w (file %s)", err, path)
	}
	return k, nil
}

// ParseFile decodes the content of a key file strictly and reports all errors in its
// records.
func ParseFile(b []byte) (*KeyFile, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var k KeyFile
	if err := d.Decode(&k); err != nil {
		return nil, fmt.Errorf("identity: key file: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("identity: key file: data after the object")
	}
	return &k, k.validate()
}

func (k *KeyFile) validate() error {
	var all []error
	if k.Version != 1 {
		all = append(all, fmt.Errorf("identity: key file version %d, want 1", k.Version))
	}
	ids, macs := map[string]bool{}, map[string]bool{}
	for i := range k.Keys {
		r := &k.Keys[i]
		if err := r.validate(); err != nil {
			all = append(all, fmt.Errorf("identity: key %d (%q): %v", i, r.ID, err))
		}
		if ids[r.ID] {
			all = append(all, fmt.Errorf("identity: duplicate key id %q", r.ID))
		}
		if macs[r.MAC] {
			all = append(all, fmt.Errorf("identity: key %q duplicates another key", r.ID))
		}
		ids[r.ID], macs[r.MAC] = true, true
	}
	return errors.Join(all...)
}

func (r *Record) validate() error {
	if !validName(r.ID) {
		return errors.New("invalid id")
	}
	if b, err := hex.DecodeString(r.MAC); err != nil || len(b) != len(mac{}) || hex.EncodeToString(b) != r.MAC {
		return errors.New("mac is not 64 lower-case hexadecimal digits")
	}
	return r.Grant.validate()
}

func (g *Grant) validate() error {
	if !validName(g.Tenant) {
		return fmt.Errorf("invalid tenant %q", g.Tenant)
	}
	if g.User != "" && !validName(g.User) {
		return fmt.Errorf("invalid user %q", g.User)
	}
	if n := len(g.Groups) + len(g.Scopes) + len(g.Labels); n > maxGrant {
		return fmt.Errorf("%d groups, scopes and labels, at most %d", n, maxGrant)
	}
	for _, s := range g.Groups {
		if !validName(s) {
			return fmt.Errorf("invalid group %q", s)
		}
	}
	for _, s := range g.Scopes {
		if !ValidScope(s) {
			return fmt.Errorf("invalid scope %q", s)
		}
	}
	for name, value := range g.Labels {
		if !validName(name) || !validName(value) {
			return fmt.Errorf("invalid label %q: %q", name, value)
		}
	}
	return nil
}

// maxGrant bounds the groups, scopes and labels of one principal: more than
// directories put in a token, few enough for a fast decision.
const maxGrant = 256

// Principal returns the principal that holds g, verified by a method and named by an
// issuer. The error names the invalid part of g.
func (g *Grant) Principal(method, issuer string) (*Principal, error) {
	if err := g.validate(); err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return &Principal{
		Tenant: g.Tenant, User: g.User, Groups: slices.Clone(g.Groups), Scopes: slices.Clone(g.Scopes), Labels: g.labels(),
		Method: method, Issuer: issuer,
	}, nil
}

// labels returns the labels of g, sorted by name.
func (g *Grant) labels() []Label {
	var out []Label
	for _, name := range slices.Sorted(maps.Keys(g.Labels)) {
		out = append(out, Label{name, g.Labels[name]})
	}
	return out
}

// validName reports whether s is 1 to 128 letters, digits and ._@:/+- : text that
// needs no quoting in a policy, a label or a log.
func validName(s string) bool {
	if len(s) == 0 || len(s) > 128 {
		return false
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == '@', c == ':', c == '/', c == '+', c == '-':
		default:
			return false
		}
	}
	return true
}

// ValidScope reports whether s can be a scope: a name such as plugin:push, all
// scopes of one noun, such as plugin:*, or either of them for one tenant or for
// all, such as key:issue@acme and key:*@*.
func ValidScope(s string) bool {
	name, tenant, bound := strings.Cut(s, "@")
	if bound && tenant != "*" && !validName(tenant) {
		return false
	}
	noun, all := strings.CutSuffix(name, ":*")
	return validName(noun) && (!all || !strings.Contains(noun, ":"))
}

// ValidTenant reports whether s can name a tenant.
func ValidTenant(s string) bool { return validName(s) }

// Terms are the properties of a key apart from its grant.
type Terms struct {
	Issuer string        // name of the issuer
	Note   string        // free text
	TTL    time.Duration // how long it is valid; 0 = until it is revoked
}

// Issue adds a random key that is valid until it is revoked. The key is returned
// once and stored nowhere.
func (k *KeyFile) Issue(pepper []byte, g Grant, issuer string, now time.Time) (key string, r Record, err error) {
	return k.IssueOn(pepper, g, Terms{Issuer: issuer}, now)
}

// IssueOn is Issue with terms.
func (k *KeyFile) IssueOn(pepper []byte, g Grant, t Terms, now time.Time) (key string, r Record, err error) {
	for {
		var id string
		if key, id = newKey(); k.find(id) != nil {
			continue
		}
		if _, err = k.add(pepper, key, id, g, t.Issuer, now); err != nil {
			return "", Record{}, err
		}
		rec := k.find(id)
		if rec.Note = t.Note; t.TTL > 0 {
			rec.Expires = now.Add(t.TTL).UTC().Truncate(time.Second)
		}
		return key, *rec, nil
	}
}

// Import adds a key that was made elsewhere, of 24 to 512 bytes, under a new id.
func (k *KeyFile) Import(pepper []byte, key string, g Grant, issuer string, now time.Time) (Record, error) {
	if len(key) < minKeyLen || len(key) > maxKeyLen {
		return Record{}, fmt.Errorf("identity: key length: want %d to %d bytes", minKeyLen, maxKeyLen)
	}
	for {
		if _, id := newKey(); k.find(id) == nil {
			return k.add(pepper, key, id, g, issuer, now)
		}
	}
}

func (k *KeyFile) add(pepper []byte, key, id string, g Grant, issuer string, now time.Time) (Record, error) {
	h, err := newHasher(pepper)
	if err != nil {
		return Record{}, err
	}
	if err := k.CheckPepper(pepper); err != nil {
		return Record{}, err
	}
	m := h.of([]byte(key))
	r := Record{ID: id, Grant: g, MAC: hex.EncodeToString(m[:]), Created: now.UTC().Truncate(time.Second), Issuer: issuer}
	if err := r.validate(); err != nil {
		return Record{}, fmt.Errorf("identity: %w", err)
	}
	next := KeyFile{Version: 1, PepperID: pepperID(pepper), Keys: append(slices.Clone(k.Keys), r)}
	if err := next.validate(); err != nil {
		return Record{}, err
	}
	*k = next
	return r, nil
}

func (k *KeyFile) find(id string) *Record {
	for i := range k.Keys {
		if k.Keys[i].ID == id {
			return &k.Keys[i]
		}
	}
	return nil
}

// Match returns the records that ref refers to: the record with that id; the record
// of a whole key, in the router's own form, or in any form if pepper is given; or
// the records with that note or with that label (name=value). If several records
// have the name, those of ended keys are left out.
func Match(records []Record, ref string, pepper []byte, now time.Time) []Record {
	id := ref
	if own := KeyID(ref); own != "" {
		id = own
	}
	digest := macOf(ref, pepper)
	var named, usable []Record
	for i := range records {
		r := &records[i]
		switch {
		case r.ID == id, digest != "" && r.MAC == digest:
			return []Record{*r}
		case r.named(ref):
			if named = append(named, *r); !r.Ended(now) {
				usable = append(usable, *r)
			}
		}
	}
	if len(usable) > 0 {
		return usable
	}
	return named
}

// macOf returns the hash of what may be a key, as records have it; "" without a
// pepper.
func macOf(key string, pepper []byte) string {
	h, err := newHasher(pepper)
	if err != nil || len(key) < minKeyLen || len(key) > maxKeyLen {
		return ""
	}
	m := h.of([]byte(key))
	return hex.EncodeToString(m[:])
}

// named reports whether ref is the note of r or one of its labels.
func (r *Record) named(ref string) bool {
	if r.Note == ref {
		return ref != ""
	}
	label, value, ok := strings.Cut(ref, "=")
	return ok && r.Labels[label] == value && value != ""
}

// MaxShownRef is how many characters of a reference to a key that matches none
// may be shown: fewer than any key has.
const MaxShownRef = minKeyLen - 1

// ShowRef returns a reference to a key as it may be shown and recorded: an id or a
// name, but never a pasted key.
func ShowRef(ref string) string {
	if shown := secret.Redact(ref); shown != ref {
		return shown
	}
	if len(ref) > MaxShownRef {
		return secret.Mark
	}
	return ref
}

// Revoke ends a key; the record stays. Revoking it again keeps the first time. The
// error is ErrNoKey.
func (k *KeyFile) Revoke(id string, now time.Time) error {
	r := k.find(id)
	if r == nil {
		return ErrNoKey
	}
	if r.Revoked.IsZero() {
		r.Revoked = now.UTC().Truncate(time.Second)
	}
	return nil
}

// Find returns the record of key id, nil if there is none. The record belongs to k.
func (k *KeyFile) Find(id string) *Record { return k.find(id) }

// Ended reports whether the key was revoked or has expired.
func (r *Record) Ended(now time.Time) bool {
	return !r.Revoked.IsZero() || !r.Expires.IsZero() && !now.Before(r.Expires)
}

// Rotate issues a key with the grant, note and lifetime of key id, which ends after
// grace. The error is ErrNoKey or ErrEnded.
func (k *KeyFile) Rotate(pepper []byte, id string, grace time.Duration, issuer string, now time.Time) (key string,
	r Record, err error) {
	old := k.find(id)
	switch {
	case old == nil:
		return "", Record{}, ErrNoKey
	case old.Ended(now):
		return "", Record{}, ErrEnded
	}
	t := Terms{Issuer: issuer, Note: old.Note}
	if !old.Expires.IsZero() {
		t.TTL = old.Expires.Sub(old.Created)
	}
	if key, r, err = k.IssueOn(pepper, old.Grant, t, now); err != nil {
		return "", Record{}, err
	}
	old = k.find(id)
	if end := now.Add(grace).UTC().Truncate(time.Second); old.Expires.IsZero() || end.Before(old.Expires) {
		old.Expires = end
	}
	return key, r, nil
}

// Update reads the file (a missing file counts as empty), calls change and replaces
// the file atomically with mode 0600. Several processes may call it at once. If
// change fails, the file stays as it is and the error is returned.
func Update(path string, change func(*KeyFile) error) error {
	unlock, err := filelock.Lock(path + ".lock")
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	defer unlock()
	k, err := ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		k, err = &KeyFile{Version: 1}, nil
	}
	if err != nil {
		return err
	}
	if err := change(k); err != nil {
		return err
	}
	for i := range k.Keys {
		k.Keys[i].LastUse = time.Time{}
	}
	if err := k.validate(); err != nil {
		return err
	}
	b, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	if err := atomicfile.Replace(path, append(b, '\n')); err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	return nil
}
