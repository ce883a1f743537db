package jwt

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// keysOf splits a JWK set into one set for each key id.
func keysOf(t *testing.T, jwks []byte) (kids []string, without func(kid string) []byte) {
	t.Helper()
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	if err := json.Unmarshal(jwks, &set); err != nil {
		t.Fatal(err)
	}
	for _, k := range set.Keys {
		kids = append(kids, k["kid"].(string))
	}
	return kids, func(kid string) []byte {
		less := map[string]any{}
		list := []any{}
		for _, k := range set.Keys {
			if k["kid"] != kid {
				list = append(list, k)
			}
		}
		less["keys"] = list
		b, err := json.Marshal(less)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

// TestWithdraw: tokens of keys that were removed from an issuer's file, and of issuers
// that are not kept, are refused at once, also tokens that were verified before. Keys
// that the file adds are not accepted.
func TestWithdraw(t *testing.T) {
	x := load(t)
	token, now := []byte(x.Good["pyjwt es256"]), x.now()
	kids, without := keysOf(t, x.JWKS)
	all := func(string) bool { return true }
	for name, c := range map[string]struct {
		file    []byte
		keep    func(string) bool
		empties bool
		refused bool
	}{
		"as it is":           {x.JWKS, all, true, false},
		"no keys":            {[]byte(`{"keys":[]}`), all, false, true},
		"empty":              {[]byte(" \n"), all, true, true},
		"perhaps unfinished": {nil, all, false, false},
		"no JSON":            {[]byte("keys"), all, true, false},
		"no set":             {[]byte("{}"), all, true, false},
		"issuer not kept":    {x.JWKS, func(string) bool { return false }, true, true},
	} {
		path := keyFile(t, x.JWKS)
		v := verifier(t, config(path))
		if _, _, err := v.Verify(token, now); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, c.file, 0o600); err != nil {
			t.Fatal(err)
		}
		gone := v.Withdraw(c.keep, c.empties)
		if _, _, err := v.Verify(token, now); (err != nil) != c.refused || (len(gone) > 0) != c.refused {
			t.Errorf("%s: got %v, withdrawn %q", name, err, gone)
		}
		if again := v.Withdraw(c.keep, c.empties); len(again) != 0 {
			t.Errorf("%s: withdrawn again: %q", name, again)
		}
		if next, err := New([]Config{config(keyFile(t, x.JWKS))}, v); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if _, _, err := next.Verify(token, now); err != nil {
			t.Errorf("%s: accepted again by the next verifier: got %v", name, err)
		}
	}
	refused := 0
	for _, kid := range kids {
		path := keyFile(t, x.JWKS)
		v := verifier(t, config(path))
		if err := os.WriteFile(path, without(kid), 0o600); err != nil {
			t.Fatal(err)
		}
		v.Withdraw(all, true)
		if _, _, err := v.Verify(token, now); err != nil {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("the token is refused without %d of the keys, want 1", refused)
	}
}

// TestFetch_emptied: an issuer that publishes an empty set has withdrawn its keys.
func TestFetch_emptied(t *testing.T) {
	x := load(t)
	var text atomic.Pointer[[]byte]
	all := []byte(x.JWKS)
	text.Store(&all)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(*text.Load()) }))
	defer srv.Close()
	c := config("")
	c.JWKSFile, c.JWKSURL = "", srv.URL
	now := x.now()
	v, err := build([]Config{c}, nil, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if failed := v.Refresh(t.Context()); len(failed) != 0 {
		t.Fatal(failed)
	}
	token := []byte(x.Good["pyjwt es256"])
	if _, _, err := v.Verify(token, now); err != nil {
		t.Fatal(err)
	}
	none := []byte(`{"keys":[]}`)
	text.Store(&none)
	now = now.Add(time.Hour)
	if failed := v.Refresh(t.Context()); len(failed) != 1 {
		t.Errorf("an emptied set is not reported: %v", failed)
	}
	if _, _, err := v.Verify(token, now.Add(-time.Hour)); err == nil {
		t.Error("a token of a withdrawn key is accepted")
	}
}
