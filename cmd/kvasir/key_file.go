package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/kvasir-router/kvasir/host"
	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/telemetry/audit"
)

// fileKeys is the keys of a key file. What it does is recorded in the audit log
// of the state directory, as the router's own deeds are.
type fileKeys struct {
	path, stateDir, auditLog string
	actor, issuer            string
}

func newFileKeys(k *keyFlags) (*fileKeys, error) {
	f := &fileKeys{path: keyName(k.file, k.stateDir, "keys.json"), stateDir: k.stateDir, auditLog: host.AuditPath(k.auditLog, k.stateDir), actor: "cli:" + whoami(), issuer: k.issuer}
	if f.issuer == "" {
		f.issuer = f.actor
	}
	return f, nil
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
		return exit(exitNo, "%v (set --state-dir, or --audit-log)", err)
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
		return exit(exitNo, "nothing was done: %v", err)
	}
	err = identity.Update(f.path, func(k *identity.KeyFile) error { return edit(k, e.Detail) })
	if e.Result = audit.OK; err != nil {
		e.Result, e.Detail["why"] = audit.Failed, err.Error()
	}
	if logErr := log.Append(e); err == nil && logErr != nil {
		return exit(exitNo, "it was done, but its end is not in the audit log: %v", logErr)
	}
	if err != nil {
		return exit(exitNo, "%v", err)
	}
	return nil
}

func (f *fileKeys) issue(q *admin.KeyRequest) (out admin.IssuedKey, err error) {
	pepper, err := host.KeyPepper(f.stateDir)
	if err != nil {
		return out, exit(exitNo, "%v", err)
	}
	e := audit.Event{Verb: admin.ScopeKeyIssue, Object: "tenant/" + q.Tenant, Detail: map[string]string{"user": q.User, "scopes": fmt.Sprint(q.Scopes), "groups": fmt.Sprint(q.Groups)}}
	q.Terms.Issuer = f.issuer
	err = f.change(e, func(k *identity.KeyFile, detail map[string]string) error {
		key, r, err := k.IssueOn(pepper, q.Grant, q.Terms, time.Now())
		detail["key"] = r.ID
		out = admin.Issued(key, &r)
		return err
	})
	return out, err
}

func (f *fileKeys) rotate(id string, grace time.Duration) (out admin.IssuedKey, err error) {
	pepper, err := host.KeyPepper(f.stateDir)
	if err != nil {
		return out, exit(exitNo, "%v", err)
	}
	e := audit.Event{Verb: "key:rotate", Object: "key/" + id, Detail: map[string]string{"grace": grace.String()}}
	err = f.change(e, func(k *identity.KeyFile, detail map[string]string) error {
		key, r, err := k.Rotate(pepper, id, grace, f.issuer, time.Now())
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		detail["key"], detail["tenant"] = r.ID, r.Tenant
		out = admin.Issued(key, &r).Follows(k.Find(id))
		return nil
	})
	return out, err
}

func (f *fileKeys) revoke(id string) error {
	return f.change(audit.Event{Verb: admin.ScopeKeyRevoke, Object: "key/" + id}, func(k *identity.KeyFile, _ map[string]string) error {
		if err := k.Revoke(id, time.Now()); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		return nil
	})
}

func (f *fileKeys) list() ([]identity.Record, error) {
	k, err := identity.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		k, err = &identity.KeyFile{Version: 1}, nil
	}
	if err != nil {
		return nil, exit(exitNo, "%v", err)
	}
	uses, err := identity.ReadUses(host.KeyUsePath(f.stateDir))
	if err != nil {
		return nil, exit(exitNo, "%v", err)
	}
	for i := range k.Keys {
		k.Keys[i].MAC, k.Keys[i].LastUse = "", uses[k.Keys[i].ID]
	}
	return k.Keys, nil
}
