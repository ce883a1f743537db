package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/statedir"
)

// keySite is a configuration with a state directory and a key file.
type keySite struct{ config, state, keys string }

func newKeySite(t *testing.T, adminAddr string) keySite {
	t.Helper()
	t.Setenv("KVASIR_ADMIN", "")
	dir := t.TempDir()
	s := keySite{filepath.Join(dir, "kvasir.yaml"), filepath.Join(dir, "state"), filepath.Join(dir, "keys.json")}
	text := fmt.Sprintf("listen: 127.0.0.1:1\nstate_dir: %s\nidentity: {api_keys_file: %s}\nadmin: {http: %q}\npools: "+
		"[{name: main, endpoints: [\"http://127.0.0.1:1\"]}]\n"+
		"models: [{name: m, pools: [main]}]\n", s.state, s.keys, adminAddr)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// issue issues a key on the file.
func (s *keySite) issue(t *testing.T, args ...string) admin.IssuedKey {
	t.Helper()
	var k admin.IssuedKey
	out := mustRun(t, append([]string{"key", "issue", "-c", s.config, "--tenant", "acme", "--output", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &k); err != nil || k.Key == "" {
		t.Fatalf("%v: %s", err, out)
	}
	return k
}

// accepts reports whether a router with the state directory accepts a key.
func (s *keySite) accepts(t *testing.T, key string) bool {
	t.Helper()
	pepper, err := statedir.ReadPepper(s.state)
	if err != nil {
		t.Fatal(err)
	}
	store, err := identity.NewStore(identity.Config{Pepper: pepper})
	if err != nil {
		t.Fatal(err)
	}
	k, err := identity.ReadFile(s.keys)
	if err != nil {
		t.Fatal(err)
	}
	set, err := store.NewSet(identity.SetConfig{Keys: k})
	if err != nil {
		t.Fatal(err)
	}
	_, err = set.Verify(&identity.Credentials{Authorization: []byte("Bearer " + key)})
	return err == nil
}

// TestKeyIssue_pepper: a key is made with the pepper of the router that uses the
// file, or not at all.
func TestKeyIssue_pepper(t *testing.T) {
	s := newKeySite(t, "127.0.0.1:1")
	f := func(want string, args ...string) {
		t.Helper()
		before, _ := os.ReadFile(s.keys)
		out, code, err := run(t, append([]string{"key", "issue", "--tenant", "acme", "--file", s.keys}, args...)...)
		after, _ := os.ReadFile(s.keys)
		if code != exitNo || !strings.Contains(err.Error(), want) || !bytes.Equal(before, after) ||
			strings.Contains(out, "kv_") {
			t.Errorf("%q: code %d, %v: %s", args, code, err, out)
		}
	}
	f("-c kvasir.yaml") // it is not known which router's pepper to use
	k := s.issue(t)
	if !s.accepts(t, k.Key) {
		t.Error("the router does not accept the key")
	}
	f("-c kvasir.yaml")
	other := t.TempDir()
	f("there is no pepper in "+other, "--state-dir", other)
	if _, err := os.Stat(filepath.Join(other, "pepper.key")); err == nil {
		t.Error("a pepper was made")
	}
	if _, err := statedir.Pepper(other); err != nil {
		t.Fatal(err)
	}
	f("hashed with another pepper", "--state-dir", other)
	if out := mustRun(t, "key", "issue", "--tenant", "acme", "--file", s.keys, "--state-dir", s.state); !s.accepts(t,
		lastLine(out)) {
		t.Errorf("the router does not accept the key: %s", out)
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// TestKeyRevoke_file: a key is found by id, by itself and by name; it says that no
// router confirmed, and the key is in no output and not in the audit log.
func TestKeyRevoke_file(t *testing.T) {
	s := newKeySite(t, "127.0.0.1:1")
	for _, how := range []string{"id", "key", "note", "label"} {
		k := s.issue(t, "--note", "note of "+how, "--label", "app="+how)
		ref := map[string]string{"id": k.ID, "key": k.Key, "note": "note of " + how, "label": "app=" + how}[how]
		if out := mustRun(t, "key", "show", ref, "-c", s.config); !strings.Contains(out, `"id": "`+k.ID+`"`) ||
			strings.Contains(out, k.Key) {
			t.Errorf("show by %s: %s", how, out)
		}
		next := mustRun(t, "key", "rotate", ref, "-c", s.config, "--grace", "1h")
		mustRun(t, "key", "revoke", lastLine(next), "-c", s.config)
		out := mustRun(t, "key", "revoke", ref, "-c", s.config)
		if !strings.Contains(out, "revoked "+k.ID) || !strings.Contains(out, "not confirmed by a running router") ||
			!strings.Contains(out, "kvasir key revoke "+k.ID+" --admin") || strings.Contains(out, k.Key) {
			t.Errorf("by %s: %s", how, out)
		}
		if s.accepts(t, k.Key) {
			t.Errorf("by %s: the key is still accepted", how)
		}
		log, err := os.ReadFile(filepath.Join(s.state, "audit.log"))
		if err != nil || bytes.Contains(log, []byte(k.Key)) || bytes.Contains(log, []byte(lastLine(next))) ||
			!bytes.Contains(log, []byte(`"key/`+k.ID+`"`)) {
			t.Errorf("by %s: %v, audit log\n%s", how, err, log)
		}
	}
	_, code, err := run(t, "key", "revoke", "kv_aaaaaaaa_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst", "-c",
		s.config)
	if code != exitNo || strings.Contains(err.Error(), "abcdefghij") {
		t.Errorf("code %d, %v", code, err)
	}
	s.issue(t, "--note", "twins")
	s.issue(t, "--note", "twins")
	if _, code, err := run(t, "key", "revoke", "twins", "-c", s.config); code != exitNo ||
		!strings.Contains(err.Error(), "names 2 keys") {
		t.Errorf("code %d, %v", code, err)
	}
}

// TestKeyRevoke_confirmed: with the configuration of a running router the command
// says whether that router refuses the key.
func TestKeyRevoke_confirmed(t *testing.T) {
	confirmFor = 300 * time.Millisecond
	defer func() { confirmFor = 5 * time.Second }()
	var s keySite
	behind := 1 // reads of the router that still show the key as it was
	router := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k, err := identity.ReadFile(s.keys)
		if err != nil || r.Header.Get("Authorization") != "Bearer the-token" {
			t.Errorf("%v, %s", err, r.Header.Get("Authorization"))
			return
		}
		if behind--; behind >= 0 {
			for i := range k.Keys {
				k.Keys[i].Revoked = time.Time{}
			}
		}
		json.NewEncoder(w).Encode(admin.KeyList{Keys: k.Keys})
	}))
	defer router.Close()
	s = newKeySite(t, strings.TrimPrefix(router.URL, "http://"))
	if err := os.Mkdir(s.state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.state, "admin.token"), []byte("the-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := mustRun(t, "key", "revoke", s.issue(t).ID, "-c", s.config); !strings.Contains(out,
		"confirmed: the router at "+router.URL+" refuses it") {
		t.Errorf("got %s", out)
	}
	behind = 1000
	id := s.issue(t).ID
	if out, code, err := run(t, "key", "revoke", id, "-c", s.config); code != exitNo ||
		!strings.Contains(err.Error(), "may still accept it") || !strings.Contains(out, "not confirmed") {
		t.Errorf("code %d, %v: %s", code, err, out)
	}
	router.Close()
	var r revocation
	out := mustRun(t, "key", "revoke", id, "-c", s.config, "--output", "json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Confirmed || !strings.Contains(r.Why, "no router at") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestReport_secrets: a key that was pasted into a configuration or an argument is
// not printed.
func TestReport_secrets(t *testing.T) {
	const key = "kv_abcdefg2_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst"
	s := newKeySite(t, key)
	text, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config, append(text, key+": 1\nlisten: {http: "+key+"}\nregion: ["+key+"\n"...),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"config", "check", s.config}, {key}, {"key", "issue", "--" + key}, {"key", "show", key, "-c", s.config}, {"key",
			"revoke", key, "--admin", "http://127.0.0.1:1"},
		{"explain", "--request", key, "--admin", "http://127.0.0.1:1"}, {"tokenize", "--dir", key, "--text", key},
	} {
		out, _, err := run(t, args...)
		if err == nil {
			t.Errorf("%q: no error", args)
			continue
		}
		var b bytes.Buffer
		if code := report(&b, err); code == 0 || strings.Contains(b.String()+out, "abcdefghij") {
			t.Errorf("%q: code %d: %s%s", args, code, out, b.String())
		}
	}
}
