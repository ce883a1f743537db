package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestWithdrawn: removals in a key file take effect, also if the file is invalid;
// additions do not.
func TestWithdrawn(t *testing.T) {
	k := &KeyFile{Version: 1}
	a, idA := issue(t, k, "acme")
	b, idB := issue(t, k, "globex")
	s := newStore(t, Config{Pepper: pepper}, "", k)
	s.now = func() time.Time { return t0 }
	text := func(k *KeyFile) string {
		out, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	revoked := &KeyFile{Version: 1, Keys: append([]Record(nil), k.Keys...)}
	if err := revoked.Revoke(idA, t0); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*Record)) string {
		k := &KeyFile{Version: 1, Keys: append([]Record(nil), k.Keys...)}
		change(&k.Keys[0])
		return text(k)
	}
	for name, c := range map[string]struct {
		file string
		want string // ids whose keys are refused
	}{
		"as it is":                    {text(k), ""},
		"revoked":                     {text(revoked), idA},
		"revoked and version 7":       {strings.Replace(text(revoked), `"version":1`, `"version":7`, 1), idA},
		"revoked and a bad record":    {strings.Replace(text(revoked), `"globex"`, `"no tenant"`, 1), idA + " " + idB},
		"revoked and cut off":         {text(revoked)[:len(text(revoked))-40], idA},
		"revoked before a broken one": {strings.Replace(text(revoked), `"id":"`+idB, `"id":7,"x":"`, 1), idA},
		"removed":                     {text(&KeyFile{Version: 1, Keys: k.Keys[1:]}), idA},
		"removed, with a broken one":  {`{"version":1,"keys":[{"id":7}]}`, ""},
		"all removed":                 {`{"version":1,"keys":[]}`, idA + " " + idB},
		"empty":                       {" \n", idA + " " + idB},
		"no list":                     {`{"version":1}`, ""},
		"no JSON":                     {"keys: []", ""},
		"another tenant":              {with(func(r *Record) { r.Tenant = "other" }), idA},
		"another secret":              {with(func(r *Record) { r.MAC = strings.Repeat("0", 64) }), idA},
		"expired":                     {with(func(r *Record) { r.Expires = t0.Add(-time.Second) }), idA},
		"longer, and more scopes": {with(func(r *Record) {
			r.Expires = t0.Add(time.Hour)
			r.Scopes = append(r.Scopes, "x")
		}), ""},
		"another user, note and issue": {with(func(r *Record) { r.User, r.Note, r.Issuer = "v", "n", "i" }), ""},
	} {
		path := filepath.Join(t.TempDir(), "keys.json")
		if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		file, complete, err := ScanFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set := s.set.Load()
		set = set.Without(&Withdrawal{Keys: set.Withdrawn(file, complete, t0)})
		for key, id := range map[string]string{a: idA, b: idB} {
			_, err := set.Authenticate(&Credentials{APIKey: []byte(key)})
			if (err != nil) != strings.Contains(c.want, id) {
				t.Errorf("%s: key of %s: got %v", name, id, err)
			}
		}
		if file, complete, _ := ScanFile(path); len(set.Withdrawn(file, complete, t0)) != 0 {
			t.Errorf("%s: withdrawn twice", name)
		}
	}
	if _, _, err := ScanFile(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file withdraws keys")
	}
}

// TestWithdrawn_scopes: a key that lost a scope is still accepted, without that scope.
func TestWithdrawn_scopes(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, r, err := k.Issue(pepper, Grant{Tenant: "acme", Scopes: []string{"plugin:push", "key:read"}}, "", t0)
	if err != nil {
		t.Fatal(err)
	}
	set := newStore(t, Config{Pepper: pepper}, "", k).set.Load()
	r.Scopes = []string{"key:read", "audit:read"}
	set = set.Without(&Withdrawal{Keys: set.Withdrawn(&KeyFile{Keys: []Record{r}}, true, t0)})
	p, err := set.Verify(&Credentials{Authorization: []byte("Bearer " + key)})
	if err != nil || fmt.Sprint(p.Scopes) != "[key:read]" {
		t.Errorf("got %+v %v", p, err)
	}
}

// TestWithout: certificates, tenants and the anonymous tenant can be withdrawn;
// a set that lost its last key still refuses unknown ones.
func TestWithout(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, _ := issue(t, k, "acme")
	st := newStore(t, Config{Pepper: pepper}, "local", k)
	certs := Certificates{"dns:a": {Tenant: "a"}, "dns:b": {Tenant: "b"}}
	set, err := st.NewSet(SetConfig{Keys: k, Anonymous: "local", Certificates: certs})
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, s *Set, c Credentials, want error) {
		t.Helper()
		if _, err := s.Authenticate(&c); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	byCert := func(name string) Credentials { return Credentials{Certificate: cert(t, nil, []string{name})} }
	less := set.Without(&Withdrawal{Certificates: []string{"dns:a"}, Tenants: []string{"acme"}, Anonymous: true})
	f("certificate", less, byCert("a"), ErrNoCredentials)
	f("the other certificate", less, byCert("b"), nil)
	f("tenant", less, Credentials{APIKey: []byte(key)}, ErrTenantDisabled)
	f("anonymous", less, Credentials{}, ErrNoCredentials)
	f("before", set, Credentials{APIKey: []byte(key)}, nil)
	if len(certs) != 2 || set.Same(less) || !set.Same(set.Without(&Withdrawal{})) {
		t.Error("the previous set was changed")
	}
	if _, err := less.Verify(&Credentials{APIKey: []byte(key)}); err != nil {
		t.Errorf("an operator of a disabled tenant: %v", err)
	}
	none := set.Without(&Withdrawal{Keys: set.Withdrawn(&KeyFile{}, true, t0)})
	f("an unknown key without any key", none, Credentials{APIKey: []byte("unknown")}, ErrUnknownKey)
}
