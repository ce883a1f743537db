package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
)

// keyAdmin is the admin API's face of API keys. It changes the key file and
// puts it in force in one step.
type keyAdmin struct{ h *Host }

// Keys implements admin.Keys.
func (a keyAdmin) Keys(context.Context) ([]identity.Record, error) {
	list := a.h.credentials().List()
	for i := range list {
		list[i].MAC = "" // whoever has it can test guesses
	}
	return list, nil
}

// Match implements admin.Keys.
func (a keyAdmin) Match(_ context.Context, ref string) ([]identity.Record, error) {
	return identity.Match(a.h.credentials().List(), ref, a.h.pepper, a.h.now()), nil
}

// Issue implements admin.Keys.
func (a keyAdmin) Issue(_ context.Context, q *admin.KeyRequest) (out admin.IssuedKey, err error) {
	err = a.change(func(f *identity.KeyFile, now time.Time) error {
		key, r, err := f.IssueOn(a.h.pepper, q.Grant, q.Terms, now)
		out = admin.Issued(key, &r)
		return err
	})
	if err != nil {
		return admin.IssuedKey{}, keyError("", err)
	}
	return out, nil
}

// Rotate implements admin.Keys.
func (a keyAdmin) Rotate(_ context.Context, id string, grace time.Duration, issuer string) (out admin.IssuedKey, err error) {
	err = a.change(func(f *identity.KeyFile, now time.Time) error {
		key, r, err := f.Rotate(a.h.pepper, id, grace, issuer, now)
		if err != nil {
			return err
		}
		out = admin.Issued(key, &r).Follows(f.Find(id))
		return nil
	})
	if err != nil {
		return admin.IssuedKey{}, keyError(id, err)
	}
	return out, nil
}

// Revoke implements admin.Keys.
func (a keyAdmin) Revoke(_ context.Context, id string) (admin.RevokedKey, error) {
	if err := a.change(func(f *identity.KeyFile, now time.Time) error { return f.Revoke(id, now) }); err != nil {
		return admin.RevokedKey{}, keyError(id, err)
	}
	return admin.RevokedKey{ID: id, State: "revoked"}, nil
}

// change alters the key file and puts it in force. A reload, which reads the
// file too, waits meanwhile, so that none brings back what was before.
func (a keyAdmin) change(edit func(f *identity.KeyFile, now time.Time) error) error {
	h := a.h
	h.reloadMu.Lock()
	defer h.reloadMu.Unlock()
	l := h.rules.Acquire()
	defer l.Release()
	path := l.Value().cfg.Identity.APIKeysFile
	if path == "" {
		return fmt.Errorf("%w: the configuration names no identity.api_keys_file", admin.ErrRefused)
	}
	var after identity.KeyFile
	err := identity.Update(path, func(f *identity.KeyFile) error {
		if err := edit(f, h.now()); err != nil {
			return err
		}
		after = *f
		return nil
	})
	if err != nil {
		return err
	}
	next, err := l.Value().withCredentials(l.Value().identity.WithKeys(after.Keys...))
	if err != nil {
		return err
	}
	h.rules.Swap(next, h.drop)
	return nil
}

// keyError says what to answer.
func keyError(id string, err error) error {
	switch {
	case errors.Is(err, identity.ErrNoKey):
		return fmt.Errorf("%w: there is no key %q", admin.ErrNotFound, identity.ShowRef(id))
	case errors.Is(err, identity.ErrEnded):
		return fmt.Errorf("%w: key %s was revoked or has expired; issue another one", admin.ErrRefused, id)
	case errors.Is(err, admin.ErrRefused):
		return err
	}
	return fmt.Errorf("%w: %v", admin.ErrRefused, err)
}

// KeyUsePath is the file in the state directory that tells when each key was
// used last.
func KeyUsePath(stateDir string) string { return filepath.Join(stateDir, "key-use.json") }

// saveUsesEvery bounds what a crash loses of the keys' last uses; it is one
// small file.
const saveUsesEvery = 30 * time.Second

// keepUses saves the keys' last uses now and then and at the end.
func (h *Host) keepUses(ctx context.Context) error {
	t := time.NewTicker(saveUsesEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			if err := h.identity.SaveUses(KeyUsePath(h.cfg.StateDir), h.credentials()); err != nil {
				h.log.Warn("last uses of keys", "err", err)
			}
			return ctx.Err()
		}
		if err := h.identity.SaveUses(KeyUsePath(h.cfg.StateDir), h.credentials()); err != nil {
			h.log.Warn("last uses of keys", "err", err)
		}
	}
}
