package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
)

func key32() []byte {
	k := make([]byte, KeyBytes)
	for i := range k {
		k[i] = byte(i)
	}
	return k
}

// TestSalt_vectors holds values computed by Python:
//
//	lp = lambda s: struct.pack('>I', len(s.encode())) + s.encode()
//	d = hmac.new(bytes(range(32)), b'kvasir/cache-salt/v1' + lp(scope) + lp(namespace), hashlib.sha256).digest()
//	base64.urlsafe_b64encode(d).rstrip(b'=')
//
// and, for the hash, the first 8 bytes under b'kvasir/namespace-hash/v1'.
func TestSalt_vectors(t *testing.T) {
	for _, v := range []struct{ scope, namespace, salt, hash string }{
		{"tenant", "acme", "UNa0W4jTuqtm7Ok9vljh2r1lEdh16bXISCbu9G6XA_k", "ba47bf4db5cc9583"},
		{"tenant", "globex", "b_QrxIygVb9F_dwJqP7uIqJA-s8HtX0WzXsb9D2J0Nk", "36d2eb90ba5774ea"},
		{"user", "acme", "CzLiLOnSy7hyn3OTPvJRvWVFe8n36Sl-3ejrMgF_oik", "64994e36e7e70dc1"},
		{"tenant", "", "uA1PbJDGL36WB4ZPtLX2-_lWtMlKyR69CJcx_9iM-_g", "583d6ec7629a5e75"},
		{"group", "Ünïcode/团队", "VfJXjaEdwy1OkHTlIVgHrnf_8FKfB-Uk6N_60PsQRho", "49002aa3aed51c18"},
		{"tenanta", "cme", "_ZKpBVDc642QnW4ZQpnEwXABjurYRiB1apLMHaR3H8Y", "c5abc8fdd330e445"},
	} {
		if got := Salt(key32(), v.scope, v.namespace); got != v.salt {
			t.Errorf("%s %s: got salt %s, want %s", v.scope, v.namespace, got, v.salt)
		}
		if got := NamespaceHash(key32(), v.scope, v.namespace); got != v.hash {
			t.Errorf("%s %s: got hash %s, want %s", v.scope, v.namespace, got, v.hash)
		}
	}
	if got := Salt(key32(), ScopePublic, "x"); got != "" {
		t.Errorf("public: got %q", got)
	}
	a, b := Salt(key32(), ScopeNone, "x"), Salt(key32(), ScopeNone, "x")
	if len(a) != 43 || a == b {
		t.Errorf("none: got %q and %q", a, b)
	}
}

func newStatic(t testing.TB, cfg StaticConfig) *Static {
	t.Helper()
	cfg.Key = key32()
	s, err := NewStatic(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(tenant, model string) *Input {
	return &Input{Principal: &identity.Principal{Tenant: tenant}, Operation: "chat.completions", Model: model}
}

func TestStatic(t *testing.T) {
	s := newStatic(t, StaticConfig{Tenants: map[string]Tenant{"acme": {
		Models: []string{"m1", "m2"}, Pools: []string{"p"},
		Constraints: []Constraint{{Label: "region", NotIn: true, Values: []string{"us"}}},
		Profile:     "fast", Priority: 3, MaxPromptTokens: 10, MaxOutputTokens: 20,
	}}})
	d, err := s.Decide(ask("acme", "m2"))
	if err != nil || !d.Allow || d.Salt != Salt(key32(), ScopeTenant, "acme") || d.Namespace != "ba47bf4db5cc9583" ||
		d.Profile != "fast" ||
		d.Priority != 3 || d.MaxPromptTokens != 10 || d.MaxOutputTokens != 20 || !slices.Contains(d.Rules, "tenant_pools") ||
		d.Revision == "" {
		t.Errorf("got %+v %v", d, err)
	}
	if len(d.Constraints) != 2 || d.Constraints[0].Label != "pool" || d.Constraints[0].Values[0] != "p" ||
		!d.Constraints[1].NotIn {
		t.Errorf("got %+v", d.Constraints)
	}
	if d, _ := s.Decide(ask("acme", "m3")); d.Allow || d.Status != 403 || d.Salt != "" || d.Reason == "" {
		t.Errorf("got %+v", d)
	}
	g, _ := s.Decide(ask("globex", "anything"))
	if !g.Allow || g.Salt == d.Salt || len(g.Salt) != 43 || g.Constraints != nil {
		t.Errorf("got %+v", g)
	}
	if again, _ := s.Decide(ask("globex", "other")); again != g {
		t.Error("the decision of a tenant was made twice")
	}
	for _, p := range []*identity.Principal{nil, {}} {
		if d, _ := s.Decide(&Input{Principal: p}); d.Allow || d.Status != 401 {
			t.Errorf("got %+v", d)
		}
	}
}

func TestStatic_denyOthers(t *testing.T) {
	s := newStatic(t, StaticConfig{DenyOthers: true, Tenants: map[string]Tenant{"acme": {}}})
	if d, _ := s.Decide(ask("acme", "m")); !d.Allow {
		t.Errorf("got %+v", d)
	}
	if d, _ := s.Decide(ask("globex", "m")); d.Allow || d.Status != 403 || d.Salt != "" {
		t.Errorf("got %+v", d)
	}
	if a, b := newStatic(t, StaticConfig{}), s; a.revision == b.revision {
		t.Error("revisions are equal")
	}
}

func TestStatic_errors(t *testing.T) {
	_, err := NewStatic(StaticConfig{Key: []byte("x"),
		Tenants: map[string]Tenant{"": {Constraints: []Constraint{{}}, MaxPromptTokens: -1}}})
	if err == nil || strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("got %v, want four faults", err)
	}
}

func TestStatic_allocs(t *testing.T) {
	s := newStatic(t, StaticConfig{})
	in := ask("acme", "m")
	if got := testing.AllocsPerRun(100, func() { s.Decide(in) }); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// TestStatic_stress decides concurrently for many tenants: each tenant gets one
// decision, with its own salt.
func TestStatic_stress(t *testing.T) {
	s := newStatic(t, StaticConfig{})
	var mu sync.Mutex // guards seen
	seen := map[string]*Decision{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 100 {
				name := fmt.Sprint("t", i)
				d, _ := s.Decide(ask(name, "m"))
				mu.Lock()
				if old := seen[name]; old != nil && old != d {
					t.Errorf("%s has two decisions", name)
				}
				seen[name] = d
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	salts := map[string]bool{}
	for _, d := range seen {
		salts[d.Salt] = true
	}
	if len(salts) != 100 {
		t.Errorf("got %d salts, want 100", len(salts))
	}
}

func BenchmarkStatic_Decide(b *testing.B) {
	s := newStatic(b, StaticConfig{Tenants: map[string]Tenant{"acme": {Models: []string{"m"}}}})
	in := ask("acme", "m")
	b.ReportAllocs()
	for b.Loop() {
		s.Decide(in)
	}
}

func TestLoadOrCreateKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "salt.key")
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			k, err := LoadOrCreateKey(path)
			if err != nil {
				t.Error(err)
			}
			keys[i] = k
		})
	}
	wg.Wait()
	for _, k := range keys {
		if len(k) != KeyBytes || !slices.Equal(k, keys[0]) {
			t.Fatal("keys differ")
		}
	}
	if st, _ := os.Stat(path); st.Mode().Perm() != 0o600 {
		t.Errorf("file mode %o", st.Mode().Perm())
	}
	if st, _ := os.Stat(filepath.Dir(path)); st.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %o", st.Mode().Perm())
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Errorf("unexpected files: %v", list)
	}
}

func TestLoadOrCreateKey_errors(t *testing.T) {
	f := func(what, want string, spoil func(dir, path string) error) {
		t.Helper()
		dir := filepath.Join(t.TempDir(), "state")
		path := filepath.Join(dir, "key")
		if _, err := LoadOrCreateKey(path); err != nil {
			t.Fatal(err)
		}
		if err := spoil(dir, path); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		if _, err := LoadOrCreateKey(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", what, err, want)
		}
		if after, _ := os.ReadFile(path); !slices.Equal(before, after) {
			t.Errorf("%s: file was changed", what)
		}
	}
	f("readable", "accessible to others", func(_, p string) error { return os.Chmod(p, 0o640) })
	f("writable directory", "is writable by", func(d, _ string) error { return os.Chmod(d, 0o777) })
	f("short", "hexadecimal", func(_, p string) error { return os.WriteFile(p, []byte("abcd\n"), 0o600) })
	f("empty", "hexadecimal", func(_, p string) error { return os.WriteFile(p, nil, 0o600) })
	f("text", "hexadecimal", func(_, p string) error { return os.WriteFile(p, []byte(strings.Repeat("zz", 32)), 0o600) })
	f("directory", "not a regular file", func(_, p string) error { os.Remove(p); return os.Mkdir(p, 0o700) })
}
