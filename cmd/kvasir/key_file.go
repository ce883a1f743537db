package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/statedir"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// fileKeys is the keys of a key file. What it does is recorded in the audit log
// of the state directory, as the router records its own changes.
type fileKeys struct {
	path, stateDir, auditLog string
	actor, issuer            string

	// namedState reports that the user named the state directory, or a configuration
	// that does. Then a pepper may be made in it.
	namedState bool
	confirm    *router // the router that uses the file; nil = not known
}

// whoami names who runs the command, as the system knows it.
func whoami() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint("uid ", os.Getuid())
}

// change alters the key file between two lines of the audit log.
func (f *fileKeys) change(e audit.Event, edit func(*identity.KeyFile, map[string]string) error) error {
	log, err := audit.Open(f.auditLog)
	if err != nil {
		return exit(exitNo, "%v (name the router's configuration with -c, its state_dir with --state-dir, or --audit-log)",
			err)
	}
	defer log.Close()
	e.Actor, e.Result = f.actor, audit.Begun
	if e.Detail == nil {
		e.Detail = map[string]string{}
	}
	if e.Detail["file"], err = filepath.Abs(f.path); err != nil {
		return exit(exitNo, "%v", err)
	}
	if err := log.Append(e); err != nil {
		return exit(exitNo, "the key file is unchanged: %v", err)
	}
	err = identity.Update(f.path, func(k *identity.KeyFile) error { return edit(k, e.Detail) })
	if e.Result = audit.OK; err != nil {
		e.Result, e.Detail["why"] = audit.Failed, err.Error()
	}
	if logErr := log.Append(e); err == nil && logErr != nil {
		return exit(exitNo, "the key file is changed, but the audit log does not record the result: %v", logErr)
	}
	if err != nil {
		return exit(exitNo, "%v", err)
	}
	return nil
}

// pepper returns the pepper of the router that uses the file. It makes one only
// in a state directory that was named, for a file without keys: with a pepper of
// any other origin the router would accept no key.
func (f *fileKeys) pepper() ([]byte, error) {
	p, err := statedir.ReadPepper(f.stateDir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return p, asExit(err)
	}
	const how = "name the router's configuration with -c kvasir.yaml, or its state_dir with --state-dir DIR"
	if !f.namedState {
		return nil, exit(exitNo, "there is no pepper in %s, so no router would accept the key: %s", f.stateDir, how)
	}
	k, err := f.read()
	if err != nil {
		return nil, err
	}
	if len(k.Keys) > 0 {
		return nil, exit(exitNo, "%s has keys, but there is no pepper in %s, so it is not the state_dir of the router that "+
			"uses them: %s",
			f.path, f.stateDir, how)
	}
	if err := os.MkdirAll(f.stateDir, 0o700); err != nil { // as the router does when it starts first
		return nil, asExit(err)
	}
	p, err = statedir.Pepper(f.stateDir)
	return p, asExit(err)
}

func asExit(err error) error {
	if err == nil {
		return nil
	}
	return exit(exitNo, "%v", err)
}

// read returns the content of the file; none is one without keys.
func (f *fileKeys) read() (*identity.KeyFile, error) {
	k, err := identity.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		k, err = &identity.KeyFile{Version: 1}, nil
	}
	return k, asExit(err)
}

// find returns the one key that ref refers to.
func (f *fileKeys) find(ref string) (*identity.Record, error) {
	k, err := f.read()
	if err != nil {
		return nil, err
	}
	pepper, err := statedir.ReadPepper(f.stateDir)
	if err != nil {
		pepper = nil // it is needed for keys of other forms only
	}
	r, err := oneKey(identity.Match(k.Keys, ref, pepper, time.Now()), ref)
	if err != nil {
		return nil, exit(exitNo, "%v in %s", err, f.path)
	}
	return r, nil
}

func (f *fileKeys) issue(q *admin.KeyRequest) (out admin.IssuedKey, err error) {
	pepper, err := f.pepper()
	if err != nil {
		return out, err
	}
	e := audit.Event{Verb: string(admin.ActionKeyIssue), Object: "tenant/" + q.Tenant, Detail: map[string]string{
		"user": q.User, "scopes": fmt.Sprint(q.Scopes), "groups": fmt.Sprint(q.Groups),
	}}
	q.Terms.Issuer = f.issuer
	err = f.change(e, func(k *identity.KeyFile, detail map[string]string) error {
		key, r, err := k.IssueOn(pepper, q.Grant, q.Terms, time.Now())
		detail["key"] = r.ID
		out = admin.Issued(key, &r)
		return err
	})
	return out, err
}

func (f *fileKeys) rotate(ref string, grace time.Duration) (out admin.IssuedKey, err error) {
	old, err := f.find(ref)
	if err != nil {
		return out, err
	}
	pepper, err := f.pepper()
	if err != nil {
		return out, err
	}
	e := audit.Event{Verb: string(admin.ActionKeyRotate), Object: "key/" + old.ID,
		Detail: map[string]string{"grace": grace.String(), "tenant": old.Tenant}}
	err = f.change(e, func(k *identity.KeyFile, detail map[string]string) error {
		key, r, err := k.Rotate(pepper, old.ID, grace, f.issuer, time.Now())
		if err != nil {
			return fmt.Errorf("key %s: %w", old.ID, err)
		}
		detail["key"] = r.ID
		out = admin.Issued(key, &r).Follows(k.Find(old.ID))
		return nil
	})
	return out, err
}

func (f *fileKeys) revoke(ref string) (revocation, error) {
	r, err := f.find(ref)
	if err != nil {
		return revocation{}, err
	}
	e := audit.Event{Verb: string(admin.ActionKeyRevoke), Object: "key/" + r.ID,
		Detail: map[string]string{"tenant": r.Tenant}}
	err = f.change(e, func(k *identity.KeyFile, _ map[string]string) error { return k.Revoke(r.ID, time.Now()) })
	if err != nil {
		return revocation{}, err
	}
	return f.confirmed(r.ID), nil
}

// confirmFor bounds how long a router is asked whether it has read the file: it
// looks at it twice a second, and reading it takes less than one.
var confirmFor = 5 * time.Second

// confirmed asks the router that uses the file whether it refuses a key.
func (f *fileKeys) confirmed(id string) revocation {
	out := revocation{ID: id, State: "revoked", File: f.path}
	if f.confirm == nil {
		out.Why = "no router is known that uses the file"
		return out
	}
	out.Router = f.confirm.url
	keysOf := routerKeys{f.confirm}
	for end := time.Now().Add(confirmFor); ; time.Sleep(100 * time.Millisecond) {
		keys, err := keysOf.list()
		if err != nil {
			out.Why = err.Error()
			return out
		}
		i := slices.IndexFunc(keys, func(r identity.Record) bool { return r.ID == id })
		switch {
		case i < 0:
			out.Why = fmt.Sprintf("the router at %s does not list the key", out.Router)
			return out
		case !keys[i].Revoked.IsZero():
			out.Confirmed = true
			return out
		}
		if time.Now().After(end) {
			out.Why, out.Accepted = fmt.Sprintf("the router at %s has not read the file within %v", out.Router, confirmFor), true
			return out
		}
	}
}

func (f *fileKeys) list() ([]identity.Record, error) {
	k, err := f.read()
	if err != nil {
		return nil, err
	}
	uses, err := identity.ReadUses(statedir.KeyUsePath(f.stateDir))
	if err != nil {
		return nil, exit(exitNo, "%v", err)
	}
	for i := range k.Keys {
		k.Keys[i].MAC, k.Keys[i].LastUse = "", uses[k.Keys[i].ID]
	}
	return k.Keys, nil
}
