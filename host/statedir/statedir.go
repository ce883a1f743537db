// Package statedir knows the files of a router's state directory: keys that must
// survive restarts, the operators' token, the audit log, and the lock that makes
// one router its only user. Package plugins and package live keep files of their
// own there.
package statedir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
	"github.com/kvasir-router/kvasir/host/internal/filelock"
	"github.com/kvasir-router/kvasir/host/policy"
)

// Names of the files. If the salt key is lost, the router can no longer use any prefix
// that engines have cached.
const (
	saltKeyFile    = "salt.key"    // cache salts are derived from it
	pepperFile     = "pepper.key"  // keys the hashes of API keys
	adminTokenFile = "admin.token" // made when the configuration names none
	auditFile      = "audit.log"
	keyUseFile     = "key-use.json"
	lockFile       = "router.lock"
	pluginFolder   = "plugins"
)

// Make creates dir, readable by its owner alone, if it is not there.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("host: state_dir: %w", err)
	}
	return nil
}

// Lock makes this process the only router that uses dir, until unlock is called or
// the process ends. The error says which process uses it.
func Lock(dir string) (unlock func(), err error) {
	unlock, err = filelock.TryLock(filepath.Join(dir, lockFile), fmt.Sprintf("process %d", os.Getpid()))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("host: state_dir %s is used by another router (%v): stop that router, "+
			"or give each router its own state_dir", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("host: state_dir: %w", err)
	}
	return unlock, nil
}

// SaltKey returns the key that cache salts are derived from. It creates one when
// there is none: the key is then fresh, no engine holds a block under it.
func SaltKey(dir string) (key []byte, fresh bool, err error) {
	file := filepath.Join(dir, saltKeyFile)
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		fresh = true
	}
	key, err = policy.LoadOrCreateKey(file)
	return key, fresh, err
}

// Pepper returns the pepper of the API key hashes, which it creates when there is
// none.
func Pepper(dir string) ([]byte, error) {
	return policy.LoadOrCreateKey(filepath.Join(dir, pepperFile))
}

// ReadPepper is Pepper for a pepper that must be there; the error wraps
// fs.ErrNotExist if it is not.
func ReadPepper(dir string) ([]byte, error) {
	return policy.LoadKey(filepath.Join(dir, pepperFile))
}

// AuditPath is where the audit log is: the configured file, or one in dir.
func AuditPath(file, dir string) string { return or(file, dir, auditFile) }

// KeyUsePath is the file with the last use of each API key.
func KeyUsePath(dir string) string { return filepath.Join(dir, keyUseFile) }

// AdminTokenPath is where the admin token is: the configured file, or one in dir.
func AdminTokenPath(file, dir string) string { return or(file, dir, adminTokenFile) }

func or(file, dir, name string) string {
	if file == "" {
		return filepath.Join(dir, name)
	}
	return file
}

// AdminToken reads the admin token from the configured file, or from dir, where it
// creates one when there is none.
func AdminToken(file, dir string) (string, error) {
	own := file == ""
	file = AdminTokenPath(file, dir)
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && own {
		raw := make([]byte, 24)
		rand.Read(raw)
		b = []byte(hex.EncodeToString(raw))
		err = atomicfile.Create(file, append(b, '\n'))
	}
	if err != nil {
		return "", fmt.Errorf("host: admin token: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if len(t) < 8 {
		return "", fmt.Errorf("host: admin token in %s is shorter than 8 characters", file)
	}
	return t, nil
}

// ReadAdminToken returns the admin token of a router with these settings, which
// must have run.
func ReadAdminToken(file, dir string) (string, error) {
	b, err := os.ReadFile(AdminTokenPath(file, dir))
	if err != nil {
		return "", fmt.Errorf("host: admin token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// Copy copies what a plan of rules reads from the state directory from, which need not
// exist, to the directory to.
func Copy(from, to string) error {
	for _, name := range []string{saltKeyFile, pepperFile, adminTokenFile} {
		b, err := os.ReadFile(filepath.Join(from, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("host: state_dir: %w", err)
		default:
			if err := os.WriteFile(filepath.Join(to, name), b, 0o600); err != nil {
				return err
			}
		}
	}
	plugins := filepath.Join(from, pluginFolder)
	if _, err := os.Stat(plugins); err != nil {
		return nil
	}
	return os.CopyFS(filepath.Join(to, pluginFolder), os.DirFS(plugins))
}
