package identity

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	pepper = []byte("0123456789abcdef0123456789abcdef")
	t0     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

func issue(t testing.TB, k *KeyFile, tenant string) (key, id string) {
	t.Helper()
	key, r, err := k.Issue(pepper, Grant{Tenant: tenant, User: "u", Groups: []string{"g"},
		Scopes: []string{"explain:any"}}, "test", t0)
	if err != nil {
		t.Fatal(err)
	}
	return key, r.ID
}

// live is a store and the set in force, which a test may replace.
type live struct {
	*Store
	anonymous string
	set       atomic.Pointer[Set]
}

func (l *live) Authenticate(c *Credentials) (*Principal, error) { return l.set.Load().Authenticate(c) }
func (l *live) Verify(c *Credentials) (*Principal, error)       { return l.set.Load().Verify(c) }
func (l *live) List() []Record                                  { return l.set.Load().List() }
func (l *live) SaveUses(path string) error                      { return l.Store.SaveUses(path, l.set.Load()) }

// Replace puts the keys of k, nil = there is no key file, in force.
func (l *live) Replace(k *KeyFile) error {
	set, err := l.NewSet(SetConfig{Keys: k, Anonymous: l.anonymous})
	if err == nil {
		l.set.Store(set)
	}
	return err
}

func newStore(t testing.TB, cfg Config, anonymous string, k *KeyFile) *live {
	t.Helper()
	s, err := NewStore(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := &live{Store: s, anonymous: anonymous}
	if err := l.Replace(k); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestAuthenticate(t *testing.T) {
	k := &KeyFile{Version: 1}
	acme, id := issue(t, k, "acme")
	globex, _ := issue(t, k, "globex")
	if _, err := k.Import(pepper, "sk-a-key-from-another-system", Grant{Tenant: "old"}, "", t0); err != nil {
		t.Fatal(err)
	}
	s := newStore(t, Config{Pepper: pepper}, "", k)
	f := func(auth, apiKey, tenant string, want error) {
		t.Helper()
		p, err := s.Authenticate(&Credentials{Authorization: []byte(auth), APIKey: []byte(apiKey)})
		if !errors.Is(err, want) || (p == nil) != (want != nil) || p != nil && p.Tenant != tenant {
			t.Errorf("%.20q %.8q: got %+v %v, want %s %v", auth, apiKey, p, err, tenant, want)
		}
	}
	f("Bearer "+acme, "", "acme", nil)
	f("bearer \t"+acme+" ", "", "acme", nil)
	f("", acme, "acme", nil)
	f("Basic xyz", globex, "globex", nil)
	f("Bearer "+globex, acme, "globex", nil)
	f("Bearer sk-a-key-from-another-system", "", "old", nil)
	f("", "", "", ErrNoCredentials)
	f("Basic xyz", "", "", ErrUnknownKey)
	f("Bearer ", "", "", ErrUnknownKey)
	f("Bearer "+acme[:len(acme)-1], "", "", ErrUnknownKey)
	f("Bearer "+acme+"a", "", "", ErrUnknownKey)
	f("Bearer "+strings.ToUpper(acme), "", "", ErrUnknownKey)
	f("Bearer "+id, "", "", ErrUnknownKey)
	f("Bearer "+strings.Repeat("x", 5000), "", "", ErrUnknownKey)

	p, _ := s.Authenticate(&Credentials{APIKey: []byte(acme)})
	if p.KeyID != id || p.Method != "api_key" || p.User != "u" || p.Groups[0] != "g" || !p.HasScope("explain:any") ||
		p.HasScope("x") {
		t.Errorf("got %+v", p)
	}
	if got := s.Stats(); s.set.Load().Usable() != 3 || got.Accepted != 7 || got.Missing != 1 || got.Unknown != 7 {
		t.Errorf("got %+v", got)
	}
}

func TestPrincipal(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, r, err := k.Issue(pepper, Grant{Tenant: "t", Scopes: []string{"plugin:*", "key:read"},
		Labels: map[string]string{"b": "2", "a": "1"}}, "alice", t0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := newStore(t, Config{Pepper: pepper}, "", k).Authenticate(&Credentials{APIKey: []byte(key)})
	if err != nil {
		t.Fatal(err)
	}
	if p.Issuer != "alice" || p.Name() != "key:"+r.ID || fmt.Sprint(p.Labels) != "[{a 1} {b 2}]" {
		t.Errorf("got %+v", p)
	}
	for want, p := range map[string]*Principal{
		"jwt:t/u@https://idp": {Method: MethodJWT, Tenant: "t", User: "u", Issuer: "https://idp"},
		"admin_token":         {Method: MethodRoot}, "anonymous": {Method: MethodAnonymous, Tenant: "t"},
	} {
		if got := p.Name(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for scope, want := range map[string]bool{"plugin:push": true, "plugin:activate": true, "key:read": true,
		"key:issue": false, "plugins:push": false, "plug:x": false, "": false, "plugin": true} {
		if p.HasScope(scope) != want {
			t.Errorf("%q: got %t", scope, !want)
		}
	}
}

func TestAuthenticate_anonymous(t *testing.T) {
	k := &KeyFile{Version: 1}
	s := newStore(t, Config{Pepper: pepper}, "local", nil)
	for _, c := range []Credentials{{}, {APIKey: []byte("EMPTY")}, {Authorization: []byte("Bearer EMPTY")}} {
		if p, err := s.Authenticate(&c); err != nil || p.Tenant != "local" || p.Method != "anonymous" || p.KeyID != "" {
			t.Errorf("got %+v %v", p, err)
		}
	}
	for _, keys := range []string{"none yet", "one"} {
		if keys == "one" {
			issue(t, k, "acme")
		}
		if err := s.Replace(k); err != nil {
			t.Fatal(err)
		}
		if p, err := s.Authenticate(&Credentials{}); err != nil || p.Tenant != "local" {
			t.Errorf("%s: got %+v %v", keys, p, err)
		}
		if p, err := s.Authenticate(&Credentials{APIKey: []byte("EMPTY")}); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("%s: got %+v %v: a wrong key must not become anonymous", keys, p, err)
		}
	}
}

func TestStore_life(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, id := issue(t, k, "acme")
	s := newStore(t, Config{Pepper: pepper}, "", k)
	now := t0
	s.now = func() time.Time { return now }
	ok := func(key string) bool {
		_, err := s.Authenticate(&Credentials{APIKey: []byte(key)})
		return err == nil
	}
	if !ok(key) || s.List()[0].LastUse != t0 {
		t.Errorf("got %+v", s.List())
	}
	next, _, err := k.Rotate(pepper, id, time.Hour, "test", now)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(k); err != nil {
		t.Fatal(err)
	}
	if s.List()[0].LastUse != t0 {
		t.Error("last use lost by a reload")
	}
	if now = t0.Add(time.Hour - time.Second); !ok(key) || !ok(next) {
		t.Error("rotation ended the old key before its grace")
	}
	if now = t0.Add(time.Hour); ok(key) || !ok(next) {
		t.Error("expired key accepted")
	}
	if err := k.Revoke(k.Keys[1].ID, now); err != nil {
		t.Fatal(err)
	}
	if err := s.Replace(k); err != nil {
		t.Fatal(err)
	}
	if ok(next) {
		t.Error("revoked key accepted")
	}
	if err := k.Revoke("missing", now); !errors.Is(err, ErrNoKey) {
		t.Errorf("got %v", err)
	}
	if _, _, err := k.Rotate(pepper, "missing", 0, "", now); !errors.Is(err, ErrNoKey) {
		t.Errorf("got %v", err)
	}
}

func TestRotate(t *testing.T) {
	k := &KeyFile{Version: 1}
	_, old, err := k.IssueOn(pepper, Grant{Tenant: "acme", Scopes: []string{"infer"}, Labels: map[string]string{"a": "b"}},
		Terms{Issuer: "i", Note: "n", TTL: 10 * time.Hour}, t0)
	if err != nil {
		t.Fatal(err)
	}
	now := t0.Add(time.Hour)
	_, next, err := k.Rotate(pepper, old.ID, time.Minute, "j", now)
	if err != nil {
		t.Fatal(err)
	}
	if next.ID == old.ID || next.Tenant != "acme" || next.Scopes[0] != "infer" || next.Labels["a"] != "b" ||
		next.Issuer != "j" || next.Note != "n" || next.Expires != now.Add(10*time.Hour) {
		t.Errorf("got %+v", next)
	}
	if got := k.Find(old.ID).Expires; got != now.Add(time.Minute) {
		t.Errorf("old key ends %v", got)
	}
	if _, _, err := k.Rotate(pepper, old.ID, time.Hour, "", now.Add(time.Minute)); !errors.Is(err, ErrEnded) {
		t.Errorf("expired key: got %v", err)
	}
	if err := k.Revoke(next.ID, now); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Rotate(pepper, next.ID, time.Hour, "", now); !errors.Is(err, ErrEnded) {
		t.Errorf("revoked key: got %v", err)
	}
}

// TestUses: last uses survive a restart, for keys that are still there.
func TestUses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key-use.json")
	k := &KeyFile{Version: 1}
	key, id := issue(t, k, "acme")
	_, other := issue(t, k, "globex")
	s := newStore(t, Config{Pepper: pepper}, "", k)
	now := t0
	s.now = func() time.Time { return now }
	if err := s.SaveUses(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("written although nothing was used")
	}
	if _, err := s.Authenticate(&Credentials{APIKey: []byte(key)}); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveUses(path); err != nil {
		t.Fatal(err)
	}
	s2 := newStore(t, Config{Pepper: pepper}, "", k)
	if err := s2.RestoreUses(path); err != nil {
		t.Fatal(err)
	}
	for _, r := range s2.List() {
		if r.ID == id && r.LastUse != t0 || r.ID == other && !r.LastUse.IsZero() {
			t.Errorf("got %+v", r)
		}
	}
	s2.now = func() time.Time { return t0.Add(time.Hour) }
	if _, err := s2.Authenticate(&Credentials{APIKey: []byte(key)}); err != nil {
		t.Fatal(err)
	}
	if err := s2.RestoreUses(path); err != nil || s2.List()[0].LastUse != t0.Add(time.Hour) {
		t.Errorf("an older use replaced a newer one: %v %v", s2.List()[0].LastUse, err)
	}
	uses, err := ReadUses(path)
	if err != nil || len(uses) != 1 || uses[id] != t0 {
		t.Errorf("got %v %v", uses, err)
	}
	for text, want := range map[string]string{"{": "delete it", `{"version":2}`: "version 2"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.RestoreUses(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if uses, err := ReadUses(path + "none"); uses != nil || err != nil {
		t.Errorf("got %v %v", uses, err)
	}
	s.used.Store(true)
	if err := s.SaveUses(filepath.Join(path, "x")); err == nil || !s.used.Load() {
		t.Errorf("got %v", err)
	}
}

// TestVerify: the admin listener refuses requests without credentials.
func TestVerify(t *testing.T) {
	k := &KeyFile{Version: 1}
	s := newStore(t, Config{Pepper: pepper, FailuresPerMinute: 1}, "local", k)
	for want, c := range map[error]*Credentials{ErrNoCredentials: {}, ErrUnknownKey: {APIKey: []byte("EMPTY")}} {
		if p, err := s.Verify(c); p != nil || !errors.Is(err, want) {
			t.Errorf("got %+v %v, want %v", p, err, want)
		}
	}
	if _, err := s.Verify(&Credentials{APIKey: []byte("EMPTY")}); !errors.Is(err, ErrTooManyFailures) {
		t.Errorf("got %v", err)
	}
	key, id := issue(t, k, "acme")
	if err := s.Replace(k); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Verify(&Credentials{Authorization: []byte("Bearer " + key)}); err != nil || p.KeyID != id {
		t.Errorf("got %+v %v", p, err)
	}
}

func FuzzParseUses(f *testing.F) {
	f.Add([]byte(`{"version":1,"last_use":{"a":1}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		uses, err := parseUses(b)
		if err != nil {
			return
		}
		for id, at := range uses {
			if !validName(id) || at.Unix() <= 0 {
				t.Fatalf("got %q %v", id, at)
			}
		}
	})
}

func TestStore_failures(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, _ := issue(t, k, "acme")
	s := newStore(t, Config{Pepper: pepper, FailuresPerMinute: 3}, "", k)
	now := t0
	s.now = func() time.Time { return now }
	try := func(addr, key string) error {
		_, err := s.Authenticate(&Credentials{APIKey: []byte(key), Remote: netip.MustParseAddr(addr)})
		return err
	}
	for i := range 5 {
		want := ErrUnknownKey
		if i >= 3 {
			want = ErrTooManyFailures
		}
		for _, a := range []string{fmt.Sprintf("2001:db8::%d", i), "192.0.2.1"} {
			if err := try(a, "wrong"); !errors.Is(err, want) {
				t.Errorf("%s %d: got %v, want %v", a, i, err, want)
			}
		}
	}
	if err := try("192.0.2.1", key); err != nil {
		t.Errorf("valid key: %v", err)
	}
	if err := try("::ffff:192.0.2.1", "wrong"); !errors.Is(err, ErrTooManyFailures) {
		t.Errorf("mapped address: got %v", err)
	}
	if now = t0.Add(time.Minute); !errors.Is(try("192.0.2.1", "wrong"), ErrUnknownKey) {
		t.Error("the budget was not restored")
	}
}

func TestKeyFile_macIsHMAC(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, id := issue(t, k, "acme")
	h := hmac.New(sha256.New, pepper)
	h.Write([]byte("kvasir/api-key/v1\x00" + key))
	if got, want := k.Keys[0].MAC, hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !strings.HasPrefix(key, "kv_"+id+"_") || len(key) != 3+8+1+52 {
		t.Errorf("unexpected form of the key, %d characters", len(key))
	}
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), key[12:]) {
		t.Error("the file holds the key")
	}
}

func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := Update(path, func(k *KeyFile) error {
				_, _, err := k.Issue(pepper, Grant{Tenant: fmt.Sprint("t", i)}, "", t0)
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	k, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Keys) != 8 {
		t.Errorf("got %d keys, want 8", len(k.Keys))
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("mode %o", st.Mode().Perm())
	}
	before, _ := os.ReadFile(path)
	boom := errors.New("boom")
	if err := Update(path, func(k *KeyFile) error { k.Keys = nil; return boom }); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("a failed change altered the file")
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), "0666") {
		t.Errorf("file that others can read: got %v", err)
	}
}

func TestParseFile_errors(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if _, err := ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	m := strings.Repeat("0", 64)
	f(`{`, "key file")
	f(`{"version":2}`, "version 2")
	f(`{"version":1} x`, "after the object")
	f(`{"version":1,"kyes":[]}`, "kyes")
	f(`{"version":1,"keys":[{"id":"a","tenant":"a b","mac":"`+m+`"}]}`, `invalid tenant "a b"`)
	f(`{"version":1,"keys":[{"id":"a","mac":"`+m+`"}]}`, `invalid tenant ""`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","user":"\n","mac":"`+m+`"}]}`, `invalid user`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","scopes":[""],"mac":"`+m+`"}]}`, `invalid scope ""`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","scopes":["a:b:*"],"mac":"`+m+`"}]}`, `invalid scope "a:b:*"`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","scopes":["*"],"mac":"`+m+`"}]}`, `invalid scope "*"`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","groups":["x y"],"mac":"`+m+`"}]}`, `invalid group "x y"`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","labels":{"a":"b c"},"mac":"`+m+`"}]}`, `invalid label "a": "b c"`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","groups":[`+strings.Repeat(`"g",`, 256)+`"g"],"mac":"`+m+`"}]}`,
		`at most 256`)
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","mac":"00"}]}`, "64")
	f(`{"version":1,"keys":[{"id":"a","tenant":"t","mac":"`+m+`"},{"id":"a","tenant":"t","mac":"`+m+`"}]}`, "duplicate")
	k := &KeyFile{}
	if _, err := k.Import(pepper, "short", Grant{Tenant: "t"}, "", t0); err == nil {
		t.Error("short key imported")
	}
	if _, _, err := k.Issue(pepper[:8], Grant{Tenant: "t"}, "", t0); err == nil {
		t.Error("short pepper accepted")
	}
	if _, err := NewStore(Config{Pepper: pepper[:8], FailuresPerMinute: -1}); err == nil ||
		strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v, want two errors", err)
	}
	s, _ := NewStore(Config{})
	k = &KeyFile{Version: 1}
	issue(t, k, "t")
	if _, err := s.NewSet(SetConfig{Keys: k}); err == nil {
		t.Error("keys accepted without a pepper")
	}
	if _, err := s.NewSet(SetConfig{Anonymous: " "}); err == nil {
		t.Error("a bad anonymous tenant accepted")
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"keys":[{"id":"a","tenant":"t","mac":"00","created":"2026-01-02T03:04:05Z"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ParseFile(b)
		if err != nil {
			return
		}
		s, _ := NewStore(Config{Pepper: pepper})
		if _, err := s.NewSet(SetConfig{Keys: k}); err != nil {
			t.Fatalf("accepted by ParseFile, refused by NewSet: %v", err)
		}
	})
}

// TestStore_stress authenticates while keys are replaced: a key that is in every set
// is always accepted, and a key that is in none is never accepted.
func TestStore_stress(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, _ := issue(t, k, "acme")
	s := newStore(t, Config{Pepper: pepper, FailuresPerMinute: 1 << 20}, "", k)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if p, err := s.Authenticate(&Credentials{APIKey: []byte(key)}); err != nil || p.Tenant != "acme" {
					t.Errorf("got %v %v", p, err)
					return
				}
				if _, err := s.Authenticate(&Credentials{APIKey: []byte(key + "x")}); !errors.Is(err, ErrUnknownKey) {
					t.Errorf("got %v", err)
					return
				}
				s.List()
				s.Stats()
			}
		})
	}
	for i := range 200 {
		next := &KeyFile{Version: 1, Keys: append([]Record(nil), k.Keys...)}
		issue(t, next, fmt.Sprint("t", i))
		if err := s.Replace(next); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

func BenchmarkAuthenticate(b *testing.B) {
	k := &KeyFile{Version: 1}
	key, _ := issue(b, k, "acme")
	s := newStore(b, Config{Pepper: pepper}, "", k)
	c := Credentials{Authorization: []byte("Bearer " + key)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(&c); err != nil {
			b.Fatal(err)
		}
	}
}
