package identity

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/internal/secret"
)

// TestRedact_ownKeys: package secret recognises every key that is made here, and
// keeps its id.
func TestRedact_ownKeys(t *testing.T) {
	for range 200 {
		key, id := newKey()
		if got := secret.Redact("x " + key + " y"); got != "x kv_"+id+"_… y" {
			t.Fatalf("%s: got %q", key, got)
		}
		if KeyID(key) != id || KeyID(key[:20]) != id {
			t.Fatalf("%s: got id %q", key, KeyID(key))
		}
	}
	for _, s := range []string{"", "kv_", "kv_abc_x", "abcdefgh", "kv_abcdefgh", "sk_abcdefgh_x"} {
		if got := KeyID(s); got != "" {
			t.Errorf("%q: got id %q", s, got)
		}
	}
}

// TestMatch: a key is found by its id, by its name and by the key itself, in the
// router's format and in others.
func TestMatch(t *testing.T) {
	pepper, now := []byte(strings.Repeat("p", 32)), time.Unix(1e9, 0)
	var k KeyFile
	add := func(note string, labels map[string]string) (key, id string) {
		key, r, err := k.IssueOn(pepper, Grant{Tenant: "acme", Labels: labels}, Terms{Note: note}, now)
		if err != nil {
			t.Fatal(err)
		}
		return key, r.ID
	}
	oneKey, one := add("ci", map[string]string{"team": "sre"})
	_, two := add("ci", nil)
	_, three := add("batch", map[string]string{"team": "ml"})
	const foreign = "an-imported-key-of-another-form"
	four, err := k.Import(pepper, foreign, Grant{Tenant: "acme"}, "", now)
	if err != nil {
		t.Fatal(err)
	}
	f := func(ref string, pepper []byte, want ...string) {
		t.Helper()
		var got []string
		for _, r := range Match(k.Keys, ref, pepper, now) {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q: got %q, want %q", ref, got, want)
		}
	}
	f(one, nil, one)
	f(oneKey, nil, one)
	f("kv_"+one+"_…", nil, one)
	f("batch", nil, three)
	f("team=ml", nil, three)
	f("ci", nil, one, two)
	f(foreign, pepper, four.ID)
	f(foreign, nil)
	f(foreign, []byte(strings.Repeat("q", 32)))
	f("", nil)
	f("team=", nil)
	f("none", nil)
	if err := k.Revoke(two, now); err != nil {
		t.Fatal(err)
	}
	f("ci", nil, one)
	f(two, nil, two)
	for ref, want := range map[string]string{one: one, oneKey: "kv_" + one + "_…", foreign: "…", "ci": "ci"} {
		if got := ShowRef(ref); got != want {
			t.Errorf("%q: shown as %q", ref, got)
		}
	}
}

// TestCheckPepper: a key is not added to a file whose keys have another pepper:
// the router that uses the file would not accept it.
func TestCheckPepper(t *testing.T) {
	right, wrong := []byte(strings.Repeat("p", 32)), []byte(strings.Repeat("q", 32))
	var k KeyFile
	if err := k.CheckPepper(wrong); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	if _, _, err := k.Issue(right, Grant{Tenant: "acme"}, "", time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Issue(wrong, Grant{Tenant: "acme"}, "", time.Now()); !errors.Is(err, ErrPepper) || len(k.Keys) != 1 {
		t.Errorf("%v, %d keys", err, len(k.Keys))
	}
	if err := errors.Join(k.CheckPepper(right), k.validate()); err != nil {
		t.Error(err)
	}
	for pepper, want := range map[string]error{string(right): nil, string(wrong): ErrPepper} {
		s, err := NewStore(Config{Pepper: []byte(pepper)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.NewSet(SetConfig{Keys: &k}); !errors.Is(err, want) {
			t.Errorf("a set with the pepper %.1s: %v", pepper, err)
		}
	}
}

func TestValidScope_tenants(t *testing.T) {
	for scope, want := range map[string]bool{
		"key:issue@acme": true, "key:issue@*": true, "key:*@*": true, "key:*@acme": true, "site:x@y@z": true,
		"key:issue@": false, "key:issue@a b": false, "key:issue@*x": false, "@acme": false, "key:**@acme": false,
	} {
		if got := ValidScope(scope); got != want {
			t.Errorf("%q: got %v", scope, got)
		}
	}
}
