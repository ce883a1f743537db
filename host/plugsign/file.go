package plugsign

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

const pemType = "PRIVATE KEY" // PKCS #8, as OpenSSL writes it

// NewKeyFile makes a key and writes it to a new file of mode 0600. An error
// satisfies errors.Is(err, fs.ErrExist) if there is a file.
func NewKeyFile(path string) (ed25519.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("plugsign: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("plugsign: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("plugsign: %w", err)
	}
	err = pem.Encode(f, &pem.Block{Type: pemType, Bytes: der})
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("plugsign: %w", errors.Join(err, os.Remove(path)))
	}
	return public, nil
}

// ReadKeyFile reads a private key: PKCS #8 in PEM, as NewKeyFile and openssl
// genpkey -algorithm ed25519 write it. A file that others may read is refused.
func ReadKeyFile(path string) (ed25519.PrivateKey, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("plugsign: %w", err)
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("plugsign: %s has mode %v: want a file that its owner alone may read (chmod 600)", path,
			st.Mode())
	}
	if st.Size() > 16<<10 {
		return nil, fmt.Errorf("plugsign: %s: %d bytes, not a key", path, st.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("plugsign: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return nil, fmt.Errorf("plugsign: %s holds no %q in PEM (kvasir plugin keygen makes one)", path, pemType)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("plugsign: %s: %w", path, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("plugsign: %s holds a %T, want an Ed25519 key", path, key)
	}
	return private, nil
}
