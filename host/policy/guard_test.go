package policy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// contradicting is a policy whose evaluation for the model "both" is an error.
func contradicting(t testing.TB) *Snapshot {
	t.Helper()
	return mustLoad(t, with("kvasir/decision.rego", base["kvasir/decision.rego"]+
		"\ndecision := {\"allow\": false, \"reason\": \"other\"} if input.request.model == \"both\"\n",
		"data/tenants/all.json", `{"acme": {"enabled": true, "models": {"m": true, "both": true}, "pools": ["shared"], `+
			`"limits": {}}}`), Config{})
}

func TestGuard(t *testing.T) {
	s := contradicting(t)
	var h Health
	var reported []error
	cfg := GuardConfig{Key: key32(), Health: &h, OnError: func(err error, allowed bool) {
		reported = append(reported, err)
	}}
	if _, err := NewGuard(nil, cfg).Decide(ask("acme", "m")); !errors.Is(err, ErrNotLoaded) {
		t.Errorf("got %v", err)
	}
	deny := NewGuard(s, cfg)
	if d, err := deny.Decide(ask("acme", "m")); err != nil || !d.Allow {
		t.Errorf("got %+v %v", d, err)
	}
	if d, err := deny.Decide(ask("acme", "both")); err == nil || d != nil || len(reported) != 1 ||
		!strings.Contains(h.LastError(), "conflict") || h.Fallbacks() != 0 {
		t.Errorf("got %+v %v, reported %v", d, err, reported)
	}
	cfg.Allow, cfg.Fallback = true, []Constraint{{Label: "pool", Values: []string{"spare"}}}
	d, err := NewGuard(s, cfg).Decide(ask("acme", "both"))
	if err != nil || !d.Allow || d.Salt != Salt(key32(), ScopeTenant, "acme") || d.Scope != ScopeTenant ||
		len(d.Constraints) != 1 || d.Constraints[0].Values[0] != "spare" || d.Audit != "full" || h.Fallbacks() != 1 {
		t.Errorf("got %+v %v", d, err)
	}
	if d, err := NewGuard(s, cfg).Decide(&Input{Principal: new(identity.Principal)}); err != nil || d.Allow {
		t.Errorf("without a tenant: got %+v %v", d, err)
	}
}

func TestGuard_stale(t *testing.T) {
	s := contradicting(t)
	synctest.Test(t, func(t *testing.T) {
		var h Health
		g := NewGuard(s, GuardConfig{Key: key32(), Health: &h, MaxStale: time.Hour, Allow: true})
		s.Decide(ask("acme", "m")) // evaluated before the clock is read
		decide := func() error { _, err := g.Decide(ask("acme", "m")); return err }
		h.Failed(time.Now())
		time.Sleep(40 * time.Minute)
		h.Failed(time.Now()) // does not restart the interval
		if err := decide(); err != nil {
			t.Errorf("after 40 minutes: %v", err)
		}
		time.Sleep(30 * time.Minute)
		if err := decide(); !errors.Is(err, ErrStale) {
			t.Errorf("after 70 minutes: %v", err)
		}
		h.Fine()
		if err := decide(); err != nil || h.StaleFor(time.Now()) != 0 {
			t.Errorf("after a good load: %v", err)
		}
	})
}

func TestLastGood(t *testing.T) {
	s := mustLoad(t, with(), Config{})
	path, now := filepath.Join(t.TempDir(), "policy.last"), time.Unix(1e9, 0)
	if err := SaveLastGood(path, key32(), s, "x", now); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	k, err := ReadLastGood(path, key32())
	if err != nil || !k.Saved.Equal(now) || !k.Source.Equal(s.Source()) || k.Over != "x" {
		t.Fatalf("%+v %v", k, err)
	}
	again, err := Load(k.Source, Config{Key: key32()}, nil)
	if err != nil || again.Revision() != s.Revision() {
		t.Errorf("%v", err)
	}
	b, _ := os.ReadFile(path)
	for i := 0; i < len(b); i += 1 + len(b)/97 {
		c := append([]byte(nil), b...)
		c[i] ^= 1
		if _, err := parseLastGood(c, key32()); err == nil {
			t.Errorf("a change of byte %d is not detected", i)
		}
	}
	other := key32()
	other[0]++
	if _, err := ReadLastGood(path, other); err == nil || !strings.Contains(err.Error(), "not written by this router") {
		t.Errorf("another key: %v", err)
	}
	if _, err := ReadLastGood(path+"x", key32()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestCompare: each kind of change is counted once and reported with both decisions.
func TestCompare(t *testing.T) {
	old := mustLoad(t, with(), Config{AllowPublicScope: true})
	for _, tenant := range []string{"acme", "globex", "initech", "open", "secret", "off", "unlisted"} {
		for _, m := range []string{"m", "n"} {
			in := ask(tenant, m)
			in.Principal.User = "u"
			old.Decide(in)
		}
	}
	live := old.Live(1000)
	if len(live) != 14 {
		t.Fatalf("%d live inputs, want 14", len(live))
	}
	f := func(what, tenants, key string, want, other int) {
		t.Helper()
		src, err := Read(with("data/tenants/all.json", tenants), nil)
		if err != nil {
			t.Fatal(err)
		}
		next, err := Load(src, Config{Key: key32(), AllowPublicScope: true}, old)
		if err != nil {
			t.Fatal(err)
		}
		before := old.cfg.Counters.Stats()
		d := Compare(old, next, live, time.Minute)
		if old.cfg.Counters.Stats() != before {
			t.Errorf("%s: a replay counts as traffic", what)
		}
		got := map[string]int{changeAllowToDeny: d.AllowToDeny, changeDenyToAllow: d.DenyToAllow, changeWidened: d.Widened,
			changeNamespace: d.Namespace, changeConstraints: d.Constraints, changeOther: d.Other, changeError: d.Errors}
		sum := d.Same
		for k, n := range got {
			expect := 0
			switch k {
			case key:
				expect = want
			case changeOther:
				expect = other
			}
			if sum += n; n != expect {
				t.Errorf("%s: %d of %s, want %d", what, n, k, expect)
			}
		}
		if sum != d.Compared || d.Compared != 14 || key != changeOther && len(d.Changes) != want+other {
			t.Errorf("%s: %d compared, %d the same, %d reported", what, d.Compared, d.Same, len(d.Changes))
		}
		if next.Cached() < 14 {
			t.Errorf("%s: the candidate is cold: %d", what, next.Cached())
		}
	}
	all := base["data/tenants/all.json"]
	edit := func(old, new string) string {
		if !strings.Contains(all, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(all, old, new, 1)
	}
	f("none", all, "", 0, 0)
	f("disabled", edit(`"acme": {"enabled": true`, `"acme": {"enabled": false`), changeAllowToDeny, 1, 1)
	f("enabled", edit(`"off": {"enabled": false`, `"off": {"enabled": true, "models": {"m": true}`),
		changeDenyToAllow, 1, 1)
	f("wider", edit(`"cache": "user"`, `"cache": "tenant"`), changeWidened, 2, 0)
	f("another group", edit(`"trust_group": "g"`, `"trust_group": "h"`), changeWidened, 1, 0)
	f("narrower", edit(`"cache": "public"`, `"cache": "tenant"`), changeNamespace, 1, 0)
	f("pool", edit(`"pools": ["ded"]`, `"pools": ["ded", "more"]`), changeConstraints, 2, 0)
	f("limit", edit(`"max_prompt_tokens": 1000`, `"max_prompt_tokens": 999`), changeOther, 1, 1)
}

func TestGates(t *testing.T) {
	d := &Diff{Compared: 10, Same: 7, AllowToDeny: 2, Widened: 1}
	if err := NoGates.Check(d); err != nil {
		t.Errorf("got %v", err)
	}
	err := Gates{AllowToDeny: 0.1, DenyToAllow: 0, Widened: 0.05, Errors: 0}.Check(d)
	if err == nil || !strings.Contains(err.Error(), "2 of 10 live decisions would be denied (20.0 %, "+
		"policy.gates.allow_to_deny is 10.0 %)") || !strings.Contains(err.Error(), "1 of 10 live decisions would share") ||
		strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v", err)
	}
}

// TestSnapshot_answers evaluates the shipped rules for operators and endpoints.
func TestSnapshot_answers(t *testing.T) {
	s := mustLoad(t, with(), Config{})
	if _, err := s.Admin(&AdminQuestion{Principal: &identity.Principal{}, Verb: "policy:read"}); !errors.Is(err,
		ErrNoRule) {
		t.Errorf("got %v", err)
	}
	s = mustLoad(t, with("kvasir/admin.rego", "# METADATA\n# schemas:\n# - input: schema.admin\npackage "+
		"kvasir.admin\n\ndefault allow := false\n\nallow if {\n\tinput.verb in input.principal.scopes\n\tcount(refusals) "+
		"== 0\n}\n\nrefusals contains \"own_work\" if input.object.author == input.principal.id\n",
		"schemas/admin.json", `{"type": "object"}`, "kvasir/meta.rego", ""), Config{})
	p := &identity.Principal{Method: identity.MethodAPIKey, KeyID: "k1", Scopes: []string{"policy:activate"}}
	if a, err := s.Admin(&AdminQuestion{Principal: p, Verb: "policy:activate"}); err != nil || !a.Allow {
		t.Errorf("got %+v %v", a, err)
	}
	if a, err := s.Admin(&AdminQuestion{Principal: p, Verb: "policy:activate", Author: p.Name()}); err != nil || a.Allow ||
		len(a.Refusals) != 1 || a.Refusals[0] != "own_work" {
		t.Errorf("got %+v %v", a, err)
	}
	if a, err := s.Admin(&AdminQuestion{Principal: p, Verb: "key:issue"}); err != nil || a.Allow {
		t.Errorf("got %+v %v", a, err)
	}
}
