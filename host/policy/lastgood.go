package policy

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
)

// lastGood is the content of the file after its first line. The first line is the MAC
// of the rest, in hexadecimal: a policy that another program wrote is refused.
type lastGood struct {
	Version  int               `json:"version"`
	Revision string            `json:"revision"`
	Saved    time.Time         `json:"saved"`
	Over     string            `json:"over,omitempty"`
	Files    map[string][]byte `json:"files"` // as Source.Files, in base64
}

// Kept is a policy that was in force.
type Kept struct {
	Source *Source
	Saved  time.Time
	// Over is the digest of the policy's directory at the time when a policy from
	// elsewhere was put in force; "" = the policy came from the directory.
	Over string
}

const (
	lastGoodVersion = 1
	lastGoodLabel   = "kvasir/last-good-policy/v1\n"
	maxLastGood     = 2 * maxTotalBytes
)

// SaveLastGood writes the policy in force to path, with mode 0600. A later start uses
// it if the policy's directory is broken or, with over, if the directory is unchanged:
// see Kept. key is the key of the MAC.
func SaveLastGood(path string, key []byte, s *Snapshot, over string, now time.Time) error {
	b, err := json.Marshal(lastGood{lastGoodVersion, s.revision, now.UTC(), over, s.src.Files()})
	if err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	text := append([]byte(lastGoodMAC(key, b)), '\n')
	if err := atomicfile.Replace(path, append(text, b...)); err != nil {
		return fmt.Errorf("policy: %w", err)
	}
	return nil
}

// ReadLastGood reads what SaveLastGood wrote. The error wraps fs.ErrNotExist if
// there is none.
func ReadLastGood(path string, key []byte) (*Kept, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLastGood))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	k, err := parseLastGood(text, key)
	if err != nil {
		return nil, fmt.Errorf("policy: %s: %w", path, err)
	}
	return k, nil
}

func parseLastGood(text, key []byte) (*Kept, error) {
	mac, b, _ := bytes.Cut(text, []byte("\n"))
	if !hmac.Equal(mac, []byte(lastGoodMAC(key, b))) {
		return nil, errors.New("not written by this router, or damaged")
	}
	var g lastGood
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return nil, err
	}
	if g.Version != lastGoodVersion {
		return nil, fmt.Errorf("version %d, want %d", g.Version, lastGoodVersion)
	}
	src, err := FromFiles(g.Files)
	if err != nil {
		return nil, err
	}
	return &Kept{src, g.Saved, g.Over}, nil
}

func lastGoodMAC(key, b []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(lastGoodLabel))
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}
