package plugsign

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// newKey returns a key that follows from seed.
func newKey(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func trusted(name string, k ed25519.PrivateKey) Key {
	return Key{name, k.Public().(ed25519.PublicKey)}
}

// module is one with a custom section of its own.
var module = []byte("\x00asm\x01\x00\x00\x00\x00\x05\x04name\x01\x04\x01\x60\x00\x00")

func sign(t *testing.T, code []byte, k ed25519.PrivateKey) []byte {
	t.Helper()
	out, err := Sign(code, k)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestVerify(t *testing.T) {
	a, b, c := newKey(1), newKey(2), newKey(3)
	trust := Trust{Required: true, Keys: []Key{trusted("release", a), trusted("ops", b)}}
	byA := sign(t, module, a)
	changed := bytes.Clone(byA)
	changed[11] ^= 1
	behind := append(bytes.Clone(byA), "\x00\x05\x04name"...)
	idOfA := bytes.Clone(sign(t, module, c)) // c signs and says it was a
	copy(idOfA[bytes.Index(idOfA, []byte(sectionName))+len(sectionName)+1:],
		byA[bytes.Index(byA, []byte(sectionName))+len(sectionName)+1:][:idBytes])
	for _, c := range []struct {
		name    string
		code    []byte
		signers []string
		want    error
		says    string
	}{
		{"signed", byA, []string{"release"}, nil, ""},
		{"by the other", sign(t, module, b), []string{"ops"}, nil, ""},
		{"by both", sign(t, sign(t, module, b), a), []string{"release", "ops"}, nil, ""},
		{"by a stranger too", sign(t, byA, c), []string{"release"}, nil, ""},
		{"not signed", module, nil, ErrUnsigned, "kvasir plugin sign FILE --key KEY"},
		{"by a stranger", sign(t, module, c), nil, ErrUntrusted, "required is release ("},
		{"changed", changed, nil, ErrBroken, "key release ("},
		{"by a stranger in the name of a key", idOfA, nil, ErrBroken, "changed after signing"},
		{"a section behind", behind, nil, ErrFormat, "after the signature"},
		{"cut", byA[:len(byA)-1], nil, ErrFormat, "beyond the end"},
		{"no module", []byte("hello, world"), nil, ErrFormat, "not a WebAssembly module"},
		{"nothing", nil, nil, ErrFormat, "not a WebAssembly module"},
	} {
		signers, err := trust.Verify(c.code)
		if !errors.Is(err, c.want) || !slices.Equal(signers, c.signers) || err != nil &&
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %q, %v, want %q, %v saying %q", c.name, signers, err, c.signers, c.want, c.says)
		}
	}
	free := Trust{Keys: trust.Keys}
	for _, code := range [][]byte{module, sign(t, module, c)} {
		if signers, err := free.Verify(code); err != nil || len(signers) > 0 {
			t.Errorf("none required: got %q, %v", signers, err)
		}
	}
	if _, err := free.Verify(changed); !errors.Is(err, ErrBroken) {
		t.Errorf("none required, but broken: got %v", err)
	}
	if _, err := (&Trust{Required: true}).Verify(byA); !errors.Is(err, ErrUntrusted) ||
		!strings.Contains(err.Error(), "none is trusted") {
		t.Errorf("no key: got %v", err)
	}
	if _, err := new(Trust).Verify(changed); err != nil {
		t.Errorf("nothing asked for: got %v", err)
	}
}

// TestVerify_anyByte: no byte of a signed module may change.
func TestVerify_anyByte(t *testing.T) {
	key := newKey(1)
	trust := Trust{Required: true, Keys: []Key{trusted("release", key)}}
	signed := sign(t, module, key)
	for i := range signed {
		for _, flip := range []byte{1, 0x80} {
			other := bytes.Clone(signed)
			other[i] ^= flip
			if _, err := trust.Verify(other); err == nil {
				t.Errorf("byte %d changed by %#x: accepted", i, flip)
			}
		}
	}
}

func TestSign_twice(t *testing.T) {
	signed := sign(t, module, newKey(1))
	if _, err := Sign(signed, newKey(1)); !errors.Is(err, ErrTwice) {
		t.Errorf("got %v", err)
	}
	for k := byte(2); k <= MaxSignatures; k++ {
		signed = sign(t, signed, newKey(k))
	}
	if _, err := Sign(signed, newKey(99)); !errors.Is(err, ErrFormat) {
		t.Errorf("the ninth: got %v", err)
	}
	body, signatures, err := Split(signed)
	if err != nil || !bytes.Equal(body, module) || len(signatures) != MaxSignatures {
		t.Errorf("%d bytes, %d signatures, %v", len(body), len(signatures), err)
	}
}

func TestParseKey(t *testing.T) {
	key := newKey(7).Public().(ed25519.PublicKey)
	if got, err := ParseKey(FormatKey(key)); err != nil || !bytes.Equal(got, key) {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "ed25519:", FormatKey(key)[8:], FormatKey(key) + "=", "ed25519:AAAA",
		"rsa:" + FormatKey(key)[8:]} {
		if _, err := ParseKey(bad); !errors.Is(err, ErrKey) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key.pem")
	public, err := NewKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewKeyFile(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over another: got %v", err)
	}
	private, err := ReadKeyFile(path)
	if err != nil || !public.Equal(private.Public()) {
		t.Errorf("%v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeyFile(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by others: got %v", err)
	}
	if err := os.WriteFile(path, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKeyFile(path); err == nil || !strings.Contains(err.Error(), "keygen") {
		t.Errorf("no key: got %v", err)
	}
}

// TestOpenSSL: OpenSSL's keys are read, and it takes our signatures.
func TestOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Logf("not compared: %v", err)
		return
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.Command("openssl", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("openssl %v: %v\n%s", args, err, out)
		}
	}
	run("genpkey", "-algorithm", "ed25519", "-out", "key.pem")
	if err := os.Chmod(filepath.Join(dir, "key.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ReadKeyFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	_, signatures, err := Split(sign(t, module, key))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"sig": signatures[0].bytes, "text": message(module),
		"pub.pem": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run("pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "pub.pem", "-sigfile", "sig", "-in", "text")
}

func FuzzSplit(f *testing.F) {
	key := newKey(1)
	f.Add(module)
	signed, err := Sign(module, key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	trust := Trust{Required: true, Keys: []Key{trusted("release", key)}}
	f.Fuzz(func(t *testing.T, code []byte) {
		body, signatures, err := Split(code)
		if err != nil {
			return
		}
		if len(signatures) == 0 && !bytes.Equal(body, code) || !bytes.HasPrefix(code, body) {
			t.Fatal("the body is not what stands before the signatures")
		}
		if _, err := trust.Verify(code); err == nil && !bytes.Equal(body, module) {
			t.Fatal("an unsigned module is accepted")
		}
	})
}
