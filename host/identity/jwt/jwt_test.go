package jwt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// tokens is testdata/tokens.json, written by PyJWT and joserfc (tokens.py).
type tokens struct {
	Now                    int64
	JWKS, One_key, Rotated json.RawMessage
	Good                   map[string]string
	No_kid, Minimal        string
	Bad                    map[string]map[string]string // by reason
}

func load(t testing.TB) *tokens {
	t.Helper()
	b, err := os.ReadFile("testdata/tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var x tokens
	if err := json.Unmarshal(b, &x); err != nil {
		t.Fatal(err)
	}
	return &x
}

func (x *tokens) now() time.Time { return time.Unix(x.Now, 0) }

func config(file string) Config {
	return Config{
		Issuer: "https://idp.example", Audience: "kvasir", JWKSFile: file, TenantClaim: "tenant", Tenants: []string{"acme",
			"globex"},
		Algorithms:  []string{"RS256", "RS512", "PS256", "PS384", "ES256", "ES384", "ES512", "EdDSA"},
		LabelClaims: map[string]string{"data_class": "class"},
	}
}

func keyFile(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func verifier(t testing.TB, c ...Config) *Verifier {
	t.Helper()
	v, err := New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestVerify_foreign verifies tokens of other implementations.
func TestVerify_foreign(t *testing.T) {
	x := load(t)
	c := config(keyFile(t, x.JWKS))
	v := verifier(t, c)
	for name, token := range x.Good {
		for range 2 { // verified, then cached
			p, admin, err := v.Verify([]byte(token), x.now())
			if err != nil || admin {
				t.Errorf("%s: %v", name, err)
				break
			}
			if p.Tenant != "acme" || p.User != "u1" || fmt.Sprint(p.Groups, p.Scopes, p.Labels) != "[eng ml] [infer "+
				"plugin:push] [{data_class phi}]" ||
				p.Method != identity.MethodJWT || p.Issuer != "https://idp.example" || p.KeyID != "" {
				t.Errorf("%s: got %+v", name, p)
			}
		}
	}
	if st := v.Stats(); st.Verified != uint64(len(x.Good)) || st.CacheHits != st.Verified {
		t.Errorf("got %+v", st)
	}
	p, _, err := v.Verify([]byte(x.Minimal), x.now())
	if err != nil || p.User != "" || p.Groups != nil || p.Scopes != nil || p.Labels != nil {
		t.Errorf("minimal: got %+v %v", p, err)
	}

	c.GroupsClaim, c.UserClaim, c.Admin, c.Tenants = "/realm/roles", "class", true, nil
	p, admin, err := verifier(t, c).Verify([]byte(x.Good["pyjwt rs256"]), x.now())
	if err != nil || !admin || fmt.Sprint(p.Groups) != "[r1]" || p.User != "phi" {
		t.Errorf("other claims: got %+v %v", p, err)
	}
	c = config(keyFile(t, x.One_key))
	c.Tenant, c.TenantClaim, c.Tenants = "fixed", "", nil
	if p, _, err := verifier(t, c).Verify([]byte(x.No_kid), x.now()); err != nil || p.Tenant != "fixed" {
		t.Errorf("one key and no kid: got %+v %v", p, err)
	}
}

// TestVerify_attacks: every token is refused for its own reason, the first time and
// again.
func TestVerify_attacks(t *testing.T) {
	x := load(t)
	v := verifier(t, config(keyFile(t, x.JWKS)))
	n := uint64(0)
	for reason, list := range x.Bad {
		for name, token := range list {
			for range 2 {
				p, _, err := v.Verify([]byte(token), x.now())
				e, ok := errors.AsType[*Error](err)
				if p != nil || !ok || e.Reason != reason || !errors.Is(err, identity.ErrUnknownKey) {
					t.Errorf("%s: got %+v %v, want %s", name, p, err, reason)
				}
				n++
			}
		}
		if got := v.Stats().Refused[reason]; got != uint64(2*len(list)) {
			t.Errorf("%s: counted %d, want %d", reason, got, 2*len(list))
		}
	}
	if n < 190 {
		t.Errorf("only %d attempts", n)
	}
}

// TestVerify_time: a cached token expires at its time.
func TestVerify_time(t *testing.T) {
	x := load(t)
	v := verifier(t, config(keyFile(t, x.JWKS)))
	token := []byte(x.Good["pyjwt es256"])
	for _, s := range []struct {
		at   int64
		want string
	}{{0, ""}, {629, ""}, {630, ReasonExpired}, {629, ""}, {-10 - 31, ""}} { // the last one is cached
		_, _, err := v.Verify(token, time.Unix(x.Now+s.at, 0))
		if e, _ := errors.AsType[*Error](err); (e == nil) != (s.want == "") || e != nil && e.Reason != s.want {
			t.Errorf("at %+d: got %v, want %q", s.at, err, s.want)
		}
	}
}

// site serves a key set.
type site struct {
	*httptest.Server
	body  atomic.Pointer[[]byte]
	code  atomic.Int64
	asked atomic.Int64
}

func serve(t *testing.T, b []byte) *site {
	s := &site{}
	s.body.Store(&b)
	s.code.Store(200)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		if r.URL.Path == "/hop" {
			http.Redirect(w, r, "/keys", http.StatusFound)
			return
		}
		w.WriteHeader(int(s.code.Load()))
		w.Write(*s.body.Load())
	}))
	t.Cleanup(s.Close)
	return s
}

// clock is a time that tests set.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(c.at.Load(), 0) }
func (c *clock) forward(d time.Duration) { c.at.Add(int64(d / time.Second)) }

// TestFetch tests an issuer that changes its keys, fails briefly, and fails for long.
func TestFetch(t *testing.T) {
	x := load(t)
	s := serve(t, x.One_key)
	clk := &clock{}
	clk.at.Store(x.Now)
	c := config("")
	c.JWKSURL, c.Refresh, c.MaxStale = s.URL+"/keys", time.Minute, time.Hour
	v, err := build([]Config{c}, nil, clk.now)
	if err != nil {
		t.Fatal(err)
	}
	f := func(what, token, want string, asked int64) {
		t.Helper()
		_, _, err := v.Verify([]byte(token), clk.now())
		e, _ := errors.AsType[*Error](err)
		if got := s.asked.Load(); (e == nil) != (want == "") || e != nil && e.Reason != want || got != asked {
			t.Errorf("%s: got %v and %d fetches, want %q and %d", what, err, got, want, asked)
		}
	}
	first, second := x.Good["pyjwt rs256"], x.Good["key with alg"]

	f("the first token fetches", first, "", 1)
	f("cached", first, "", 1)
	f("unknown key, fetched just before", second, ReasonKey, 1)
	clk.forward(minFetch)
	f("unknown key, fetched again", second, ReasonKey, 2)
	s.body.Store((*[]byte)(&x.Rotated))
	f("unknown key, too soon", second, ReasonKey, 2)
	clk.forward(minFetch)
	f("the issuer has another key", second, "", 3)
	f("a cached token of a removed key", first, ReasonKey, 3)

	s.code.Store(500)
	clk.forward(61 * time.Second)
	for n := range 3 { // one fetch; the next is due later
		if failed := v.Refresh(context.Background()); (failed["https://idp.example"] != nil) != (n == 0) {
			t.Errorf("%d: got %v", n, failed)
		}
	}
	f("the issuer fails; its keys stay in use", second, "", 4)
	clk.forward(30 * time.Second)
	v.Refresh(context.Background())
	if st := v.Stats().Issuers[0]; st.Failed != 2 || st.Age != 91*time.Second || st.Keys != 1 {
		t.Errorf("got %+v", st)
	}
	clk.forward(time.Hour)
	f("for too long", second, ReasonNoKeys, 6) // one more fetch
	s.code.Store(200)
	clk.at.Store(x.Now + 60 + 3600)
	v.Refresh(context.Background())
	clk.at.Store(x.Now + 590)
	f("it recovers", second, "", s.asked.Load())
}

// TestFetch_bounds: fetches are bounded and follow no redirect.
func TestFetch_bounds(t *testing.T) {
	x := load(t)
	s := serve(t, nil)
	c := config("")
	c.JWKSURL = s.URL + "/keys"
	many := `{"keys":[` + strings.Repeat(`{"kty":"x"},`, maxKeys) + `{"kty":"x"}]}`
	for what, b := range map[string]string{
		"not a JSON": "<html>", "key set is empty": `{"keys":[]}`, "larger than": `{"keys":[],"x":"` + strings.Repeat("x",
			maxJWKS) + `"}`, "101 keys": many,
		"none of 1": `{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`,
	} {
		body := []byte(b)
		s.body.Store(&body)
		v := verifier(t, c)
		if err := v.Refresh(context.Background())["https://idp.example"]; err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %q", err, what)
		}
	}
	s.body.Store((*[]byte)(&x.JWKS))
	c.JWKSURL = s.URL + "/hop"
	if err := verifier(t, c).Refresh(context.Background())["https://idp.example"]; err == nil ||
		!strings.Contains(err.Error(), "302") {
		t.Errorf("redirect: got %v", err)
	}
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hang.Close()
	c.JWKSURL = hang.URL
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if failed := verifier(t, c).Refresh(ctx); failed != nil {
		t.Errorf("ended: got %v", failed)
	}
	begin := time.Now()
	if _, _, err := verifier(t, c).Verify([]byte(x.Good["pyjwt rs256"]), x.now()); err == nil ||
		time.Since(begin) > 2*fetchWait {
		t.Errorf("hanging issuer: %v after %v", err, time.Since(begin))
	}
}

// TestNew_keeps: a reload keeps keys and cached tokens of issuers that did not
// change, and drops those of others.
func TestNew_keeps(t *testing.T) {
	x := load(t)
	s := serve(t, x.One_key)
	c := config("")
	c.JWKSURL = s.URL
	v := verifier(t, c)
	v.Refresh(context.Background())
	again, err := New([]Config{c}, v)
	if err != nil || again != v {
		t.Errorf("nothing changed: got %v", err)
	}
	other := config(keyFile(t, x.JWKS))
	other.Issuer = "https://other.example"
	more, err := New([]Config{c, other}, v)
	if err != nil || more == v || more.order[0] != v.order[0] || s.asked.Load() != 1 {
		t.Errorf("one more: got %v", err)
	}
	same, err := New([]Config{c, other}, more)
	if err != nil || same != more {
		t.Errorf("the file is the same: got %v", err)
	}
	if err := os.WriteFile(other.JWKSFile, x.Rotated, 0o600); err != nil {
		t.Fatal(err)
	}
	same, err = New([]Config{c, other}, more)
	if err != nil || same == more || same.order[1] == more.order[1] || same.order[0] != more.order[0] {
		t.Errorf("the file changed: got %v", err)
	}
	c.Audience = "somebody else"
	if next, err := New([]Config{c}, v); err != nil || next.order[0] == v.order[0] {
		t.Errorf("the audience changed: got %v", err)
	}
}

func TestNew_errors(t *testing.T) {
	x := load(t)
	good := config(keyFile(t, x.JWKS))
	for want, edit := range map[string]func(*Config){
		"missing issuer": func(c *Config) { c.Issuer = "" }, "missing audience": func(c *Config) { c.Audience = "" },
		"one of jwks_url and jwks_file":  func(c *Config) { c.JWKSURL = "https://x" },
		"https://…":                      func(c *Config) { c.JWKSFile, c.JWKSURL = "", "http://idp.example/keys" },
		"missing algorithms":             func(c *Config) { c.Algorithms = nil },
		`algorithm "HS256"`:              func(c *Config) { c.Algorithms = []string{"HS256"} },
		`algorithm "none"`:               func(c *Config) { c.Algorithms = []string{"none"} },
		"one of tenant and tenant_claim": func(c *Config) { c.TenantClaim = "" },
		"invalid tenant":                 func(c *Config) { c.Tenants = []string{"a b"} },
		"requires tenant_claim": func(c *Config) {
			c.Tenant,
				c.TenantClaim = "t", ""
		},
		"invalid label":            func(c *Config) { c.LabelClaims = map[string]string{"a": ""} },
		"leeway 1h":                func(c *Config) { c.Leeway = time.Hour },
		"refresh 1s":               func(c *Config) { c.Refresh = time.Second },
		"max_stale 1s":             func(c *Config) { c.MaxStale = time.Second },
		"no such file":             func(c *Config) { c.JWKSFile += "x" },
		"not a JSON Web Key Set":   func(c *Config) { c.JWKSFile = keyFile(t, []byte("x")) },
		"none of 1 keys can check": func(c *Config) { c.JWKSFile, c.Algorithms = keyFile(t, x.One_key), []string{"ES256"} },
	} {
		c := good
		edit(&c)
		if _, err := New([]Config{c}, nil); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "jwt[0]: ") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := New([]Config{good, good}, nil); err == nil || !strings.Contains(err.Error(), "duplicate issuer") {
		t.Errorf("got %v", err)
	}
	for u, want := range map[string]bool{"https://a/b": true, "http://127.0.0.1:1/b": true, "http://localhost/": true,
		"http://[::1]/": true, "http://a": false,
		"ftp://a": false, "https://u:p@a": false, "": false, "https://": false, "http://127.0.0.1.evil": false,
		"http://localhost.evil": false} {
		if goodURL(u) != want {
			t.Errorf("%q: got %t", u, !want)
		}
	}
}

// TestNoSecrets: neither errors nor statistics contain a part of a token.
func TestNoSecrets(t *testing.T) {
	x := load(t)
	v := verifier(t, config(keyFile(t, x.JWKS)))
	for _, list := range x.Bad {
		for _, token := range list {
			_, _, err := v.Verify([]byte(token), x.now())
			text := fmt.Sprintf("%v %+v %#v", err, err, v.Stats())
			for _, part := range strings.Split(token, ".") {
				if len(part) > 16 && strings.Contains(text, part[:16]) {
					t.Fatalf("%q contains a part of the token", text)
				}
			}
		}
	}
}

// TestVerifier_stress verifies while the keys change: a token of a key that is in
// every set is always accepted, and a forged token never.
func TestVerifier_stress(t *testing.T) {
	x := load(t)
	s := serve(t, x.JWKS)
	c := config("")
	c.JWKSURL = s.URL
	clk := &clock{}
	clk.at.Store(x.Now)
	v, err := build([]Config{c}, nil, clk.now)
	if err != nil {
		t.Fatal(err)
	}
	v.Refresh(context.Background())
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
				if _, _, err := v.Verify([]byte(x.Good["pyjwt rs256"]), x.now()); err != nil {
					t.Error(err)
					return
				}
				for _, name := range []string{"unknown kid", "oct key"} {
					if p, _, err := v.Verify([]byte(x.Bad["key"][name]), x.now()); err == nil {
						t.Errorf("got %+v", p)
						return
					}
				}
				v.Stats()
			}
		})
	}
	for n := range 60 {
		if n%2 == 0 {
			s.body.Store((*[]byte)(&x.One_key))
		} else {
			s.body.Store((*[]byte)(&x.JWKS))
		}
		clk.forward(c.Refresh + 5*time.Minute)
		if failed := v.Refresh(context.Background()); failed != nil {
			t.Error(failed)
		}
	}
	close(stop)
	wg.Wait()
}

// FuzzVerify: no input is accepted except the tokens that the other implementations
// signed.
func FuzzVerify(f *testing.F) {
	x := load(f)
	good := map[string]bool{x.No_kid: true, x.Minimal: true}
	for _, token := range x.Good {
		f.Add(token)
		good[token] = true
	}
	for _, list := range x.Bad {
		for _, token := range list {
			f.Add(token)
		}
	}
	v := verifier(f, config(keyFile(f, x.JWKS)))
	f.Fuzz(func(t *testing.T, token string) {
		if p, _, err := v.Verify([]byte(token), x.now()); (err == nil) && !good[token] {
			t.Fatalf("accepted as %+v", p)
		}
	})
}

// FuzzParseKeys: of any input, the keys that are kept are public and usable.
func FuzzParseKeys(f *testing.F) {
	x := load(f)
	for _, b := range [][]byte{x.JWKS, x.One_key, x.Rotated} {
		f.Add(b)
	}
	c := config("x")
	algs := c.algorithms()
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseKeys(b, algs)
		if err != nil {
			return
		}
		for i := range s.keys {
			if k := &s.keys[i]; !k.IsPublic() || !usable(k, algs) {
				t.Fatalf("kept %v", k.KeyID)
			}
		}
	})
}

// TestStore: a store accepts tokens beside keys, counts failures of both against the
// address, and accepts only some issuers on the admin listener.
func TestStore(t *testing.T) {
	x := load(t)
	c := config(keyFile(t, x.JWKS))
	st, err := identity.NewStore(identity.Config{FailuresPerMinute: 3})
	if err != nil {
		t.Fatal(err)
	}
	with := func(v identity.Tokens) *identity.Set {
		set, err := st.NewSet(identity.SetConfig{Anonymous: "local", Tokens: v})
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	s := with(nil)
	ask := func(f func(*identity.Credentials) (*identity.Principal, error), token string) (string, error) {
		p, err := f(&identity.Credentials{Authorization: []byte("Bearer " + token)})
		if err != nil {
			return "", err
		}
		return p.Tenant, nil
	}
	good, bad := x.Good["pyjwt es256"], x.Bad["signature"]["signed by somebody else"]
	if tenant, err := ask(s.Authenticate, good); tenant != "local" {
		t.Errorf("no issuer: got %q %v", tenant, err)
	}
	s = with(&at{verifier(t, c), x.now()})
	if tenant, err := ask(s.Authenticate, good); tenant != "acme" {
		t.Errorf("got %q %v", tenant, err)
	}
	if _, err := ask(s.Verify, good); !errors.Is(err, identity.ErrUnknownKey) {
		t.Errorf("an issuer of clients on the admin listener: got %v", err)
	}
	for n := range 4 { // there was one failure before
		_, err := ask(s.Authenticate, bad)
		if e, ok := errors.AsType[*Error](err); n < 2 && (!ok || e.Reason != ReasonSignature) ||
			n >= 2 && !errors.Is(err, identity.ErrTooManyFailures) {
			t.Errorf("%d: got %v", n, err)
		}
	}
	if tenant, err := ask(s.Authenticate, good); tenant != "acme" {
		t.Errorf("a good token of that address: got %q %v", tenant, err)
	}
	c.Admin = true
	s = with(&at{verifier(t, c), x.now()})
	if tenant, err := ask(s.Verify, good); tenant != "acme" {
		t.Errorf("an issuer of operators: got %q %v", tenant, err)
	}
	s = with(nil)
	if tenant, err := ask(s.Authenticate, good); tenant != "local" {
		t.Errorf("issuer removed: got %q %v", tenant, err)
	}
}

// at returns a verifier at a fixed time.
type at struct {
	*Verifier
	now time.Time
}

func (a *at) Verify(token []byte, _ time.Time) (*identity.Principal, bool, error) {
	return a.Verifier.Verify(token, a.now)
}

func BenchmarkStore(b *testing.B) {
	x := load(b)
	st, err := identity.NewStore(identity.Config{})
	if err != nil {
		b.Fatal(err)
	}
	s, err := st.NewSet(identity.SetConfig{Tokens: &at{verifier(b, config(keyFile(b, x.JWKS))), x.now()}})
	if err != nil {
		b.Fatal(err)
	}
	c := identity.Credentials{Authorization: []byte("Bearer " + x.Good["pyjwt rs256"])}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Authenticate(&c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	x := load(b)
	v := verifier(b, config(keyFile(b, x.JWKS)))
	for _, name := range []string{"pyjwt rs256", "pyjwt es256"} {
		token := []byte(x.Good[name])
		b.Run("hot/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := v.Verify(token, x.now()); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("cold/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, reason := v.verify(token, x.now()); reason != "" {
					b.Fatal(reason)
				}
			}
		})
	}
}
