package rules

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
)

// Keys implements the admin API's operations on API keys. It changes the key file and
// puts the change in force in one step, without waiting for a plan.
type Keys struct{ Manager *Manager }

// Keys implements admin.Keys.
func (a Keys) Keys(context.Context) ([]identity.Record, error) {
	list := a.Manager.Credentials().List()
	for i := range list {
		list[i].MAC = "" // with it, guesses of a key can be tested
	}
	return list, nil
}

// Match implements admin.Keys.
func (a Keys) Match(_ context.Context, ref string) ([]identity.Record, error) {
	m := a.Manager
	return identity.Match(m.Credentials().List(), ref, m.opt.Pepper, m.opt.Now()), nil
}

// Issue implements admin.Keys.
func (a Keys) Issue(_ context.Context, q *admin.KeyRequest) (out admin.IssuedKey, err error) {
	err = a.Manager.changeKeys(func(f *identity.KeyFile, now time.Time) ([]string, error) {
		key, r, err := f.IssueOn(a.Manager.opt.Pepper, q.Grant, q.Terms, now)
		out = admin.Issued(key, &r)
		return []string{r.ID}, err
	})
	if err != nil {
		return admin.IssuedKey{}, keyError("", err)
	}
	return out, nil
}

// Rotate implements admin.Keys.
func (a Keys) Rotate(
	_ context.Context, id string, grace time.Duration, issuer string,
) (out admin.IssuedKey, err error) {
	err = a.Manager.changeKeys(func(f *identity.KeyFile, now time.Time) ([]string, error) {
		key, r, err := f.Rotate(a.Manager.opt.Pepper, id, grace, issuer, now)
		if err != nil {
			return nil, err
		}
		out = admin.Issued(key, &r).Follows(f.Find(id))
		return []string{r.ID, id}, nil
	})
	if err != nil {
		return admin.IssuedKey{}, keyError(id, err)
	}
	return out, nil
}

// Revoke implements admin.Keys. The key is refused when it returns, also if the
// error reports that the key file could not be changed.
func (a Keys) Revoke(_ context.Context, id string) (admin.RevokedKey, error) {
	if err := a.Manager.revoke(id); err != nil {
		return admin.RevokedKey{}, keyError(id, err)
	}
	return admin.RevokedKey{ID: id, State: "revoked"}, nil
}

// errNoKeyFile is returned for changes of keys without a key file.
var errNoKeyFile = fmt.Errorf("%w: the configuration has no identity.api_keys_file", admin.ErrRefused)

// changeKeys edits the key file and puts the records that edit returns in force.
// Other changes of the file wait for a reload.
func (m *Manager) changeKeys(edit func(f *identity.KeyFile, now time.Time) (ids []string, err error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changeKeysLocked(edit)
}

func (m *Manager) changeKeysLocked(edit func(f *identity.KeyFile, now time.Time) (ids []string, err error)) error {
	changed, err := m.editKeysLocked(edit)
	if err != nil {
		return err
	}
	return m.changeIdentityLocked(func(s *identity.Set) *identity.Set { return s.WithKeys(changed...) })
}

// editKeysLocked edits the key file and returns the records that edit names.
func (m *Manager) editKeysLocked(
	edit func(f *identity.KeyFile, now time.Time) (ids []string, err error),
) (changed []identity.Record, err error) {
	path := m.keyPath()
	if path == "" {
		return nil, errNoKeyFile
	}
	err = identity.Update(path, func(f *identity.KeyFile) error {
		m.applyPendingLocked(f)
		ids, err := edit(f, m.opt.Now())
		if err != nil {
			return err
		}
		for _, id := range ids {
			changed = append(changed, *f.Find(id))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	clear(m.pending)
	return changed, nil
}

func (m *Manager) keyPath() string {
	l := m.Acquire()
	defer l.Release()
	return l.Value().Config.Identity.APIKeysFile
}

// revoke ends a key: first in the credentials in force, then in the file. Where the
// file cannot be changed the revocation holds until the process ends, and is
// written with the next change.
func (m *Manager) revoke(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opt.Now().UTC().Truncate(time.Second)
	known, err := m.revokeLocked(id, now)
	if err != nil {
		return err
	}
	edit := func(f *identity.KeyFile, now time.Time) ([]string, error) { return []string{id}, f.Revoke(id, now) }
	if known { // the credentials in force have it already
		m.pending[id] = now
		_, err = m.editKeysLocked(edit)
	} else {
		err = m.changeKeysLocked(edit)
	}
	switch {
	case err == nil, !known:
		return err
	case errors.Is(err, identity.ErrNoKey): // it is no longer in the file
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNoKeyFile):
		return nil
	}
	return fmt.Errorf("%w: key %s is revoked in this router until it exits, but the key file could not be changed: %v",
		admin.ErrRefused, id, err)
}

// revokeLocked ends a key in the credentials in force and reports whether they have
// it.
func (m *Manager) revokeLocked(id string, now time.Time) (known bool, err error) {
	for _, r := range m.Credentials().List() {
		if r.ID != id {
			continue
		}
		if !r.Revoked.IsZero() {
			return true, nil
		}
		r.Revoked, r.LastUse = now, time.Time{}
		return true, m.changeIdentityLocked(func(s *identity.Set) *identity.Set { return s.WithKeys(r) })
	}
	return false, nil
}

// applyPending revokes in f what could not be written to the file.
func (m *Manager) applyPending(f *identity.KeyFile) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applyPendingLocked(f)
}

func (m *Manager) applyPendingLocked(f *identity.KeyFile) {
	for id, at := range m.pending {
		if r := f.Find(id); r != nil && r.Revoked.IsZero() {
			r.Revoked = at
		}
	}
}

// keyError wraps an error of a key change for the admin API.
func keyError(id string, err error) error {
	switch {
	case errors.Is(err, identity.ErrNoKey):
		return fmt.Errorf("%w: no key %q", admin.ErrNotFound, identity.ShowRef(id))
	case errors.Is(err, identity.ErrEnded):
		return fmt.Errorf("%w: key %s was revoked or has expired; issue another one", admin.ErrRefused, id)
	case errors.Is(err, admin.ErrRefused):
		return err
	}
	return fmt.Errorf("%w: %v", admin.ErrRefused, err)
}
