package host

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
	"github.com/kvasir-router/kvasir/host/policy"
)

// Files of the state directory. They survive restarts: without the salt key
// every cached prefix of every engine would be lost to us.
const (
	saltKeyFile    = "salt.key"    // K_epoch, from which cache salts are derived
	pepperFile     = "pepper.key"  // keys the hashes of API keys
	adminTokenFile = "admin.token" // made when the configuration names none
)

// KeyPepper returns the pepper of the API key hashes, which it creates in
// stateDir when there is none.
func KeyPepper(stateDir string) ([]byte, error) {
	return policy.LoadOrCreateKey(filepath.Join(stateDir, pepperFile))
}

// ReadKeyPepper is KeyPepper for a pepper that must be there; the error wraps
// fs.ErrNotExist if it is not.
func ReadKeyPepper(stateDir string) ([]byte, error) {
	return policy.LoadKey(filepath.Join(stateDir, pepperFile))
}

// ReadAdminToken returns the admin token of a router with these settings, which
// must have run.
func ReadAdminToken(file, stateDir string) (string, error) {
	b, err := os.ReadFile(adminTokenPath(file, stateDir))
	if err != nil {
		return "", fmt.Errorf("host: admin token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// adminTokenPath is where the admin token is: the configured file, or one in
// stateDir.
func adminTokenPath(file, stateDir string) string {
	if file == "" {
		return filepath.Join(stateDir, adminTokenFile)
	}
	return file
}

// adminToken reads the token from file, or from stateDir, where it is created
// when there is none.
func adminToken(file, stateDir string) (string, error) {
	own := file == ""
	file = adminTokenPath(file, stateDir)
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

// bearer reads a pool's token and returns the Authorization header's value, ""
// without a file.
func bearer(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("host: pool credentials: %w", err)
	}
	t := strings.TrimSpace(string(b))
	if t == "" || strings.ContainsAny(t, "\r\n") {
		return "", fmt.Errorf("host: pool credentials in %s: want one line with the token", file)
	}
	return "Bearer " + t, nil
}
