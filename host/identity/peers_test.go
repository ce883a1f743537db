package identity

import (
	"crypto/x509"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func cert(t testing.TB, uris, dns []string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{DNSNames: dns}
	for _, s := range uris {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		c.URIs = append(c.URIs, u)
	}
	return c
}

func prefixes(s ...string) (out []netip.Prefix) {
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestProxies_Match(t *testing.T) {
	ps := Proxies{
		{Networks: prefixes("10.0.0.0/24", "2001:db8::/64")},
		{Networks: prefixes("10.0.1.0/24"), SANs: []string{"uri:spiffe://x/proxy", "dns:proxy.example"},
			Tenant: "x-tenant-id"},
	}
	proxy, other := cert(t, []string{"spiffe://x/proxy"}, nil), cert(t, []string{"spiffe://x/proxy/evil"},
		[]string{"evil.proxy.example"})
	f := func(addr string, c *x509.Certificate, want int) {
		t.Helper()
		got := ps.Match(netip.MustParseAddr(addr), c)
		if want < 0 && got != nil || want >= 0 && got != &ps[want] {
			t.Errorf("%s: got %v, want %d", addr, got, want)
		}
	}
	f("10.0.0.7", nil, 0)
	f("::ffff:10.0.0.7", nil, 0)
	f("2001:db8::5", other, 0)
	f("10.0.2.1", proxy, -1)
	f("2001:db8:0:1::5", nil, -1)
	f("10.0.1.7", nil, -1)
	f("10.0.1.7", other, -1)
	f("10.0.1.7", proxy, 1)
	f("10.0.1.7", cert(t, nil, []string{"a", "PROXY.example"}), 1)
	if (Proxies)(nil).Match(netip.Addr{}, nil) != nil {
		t.Error("a peer matched although no proxy is trusted")
	}
}

func TestProxies_Client(t *testing.T) {
	ps := Proxies{{Networks: prefixes("10.0.0.0/24", "10.9.0.0/16")}}
	f := func(want string, fields ...string) {
		t.Helper()
		var list [][]byte
		for _, s := range fields {
			list = append(list, []byte(s))
		}
		if got := ps.Client(netip.MustParseAddr("10.0.0.1"), list); got.String() != want {
			t.Errorf("%q: got %v, want %s", fields, got, want)
		}
	}
	f("10.0.0.1")
	f("10.0.0.1", "")
	f("192.0.2.1", "192.0.2.1")
	f("192.0.2.1", "6.6.6.6, 192.0.2.1")            // the client wrote the first address
	f("192.0.2.1", "6.6.6.6,192.0.2.1, 10.9.1.1")   // behind another proxy
	f("192.0.2.1", "6.6.6.6", "192.0.2.1,10.9.1.1") // in two fields
	f("192.0.2.1", "10.0.0.5, 192.0.2.1")
	f("192.0.2.1", "192.0.2.1:4711")
	f("2001:db8::1", "[2001:db8::1]:4711")
	f("2001:db8::1", "[2001:db8::1]")
	f("192.0.2.1", "::ffff:192.0.2.1")
	f("fe80::1", "fe80::1%eth0")
	f("10.9.1.1", "unknown, 10.9.1.1")
	f("10.0.0.1", "192.0.2.1, _hidden")
	f("10.0.0.1", "192.0.2.1,,")
	f("10.9.0.9", strings.Repeat("10.9.0.9, ", 100)+"10.9.0.9")
}

func TestParseSAN(t *testing.T) {
	for in, want := range map[string]string{
		"spiffe://x/y": "uri:spiffe://x/y", "uri:spiffe://x/y": "uri:spiffe://x/y", "uri:urn:a": "uri:urn:a",
		"Router.Example": "dns:router.example", "dns:a": "dns:a",
		"a@b": "email:a@b", "email:a@b": "email:a@b", "": "", "*.example": "", "dns:*.example": "", "dns:": "", "a b": "",
		"a/b": "",
	} {
		if got, err := ParseSAN(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q %v, want %q", in, got, err, want)
		}
	}
	c := cert(t, []string{"spiffe://x/y"}, []string{"A.example"})
	c.EmailAddresses = []string{"a@b"}
	if got := strings.Join(SANs(c), " "); got != "uri:spiffe://x/y dns:a.example email:a@b" || SANs(nil) != nil {
		t.Errorf("got %s", got)
	}
}

func TestTrustedProxy_Validate(t *testing.T) {
	f := func(want string, p TrustedProxy) {
		t.Helper()
		if err := p.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", p, err, want)
		}
	}
	f("", TrustedProxy{Networks: prefixes("10.0.0.0/8")})
	f("", TrustedProxy{Networks: prefixes("10.0.0.0/8"), SANs: []string{"dns:a"}, Tenant: "x-tenant-id",
		User: "x-tenant-user"})
	f("missing networks", TrustedProxy{})
	f("every address", TrustedProxy{Networks: prefixes("0.0.0.0/0")})
	f("every address", TrustedProxy{Networks: prefixes("::/0")})
	f("requires sans", TrustedProxy{Networks: prefixes("10.0.0.0/8"), Tenant: "x-tenant-id"})
	f("requires a tenant header", TrustedProxy{Networks: prefixes("10.0.0.0/8"), User: "x-tenant-user"})
}

// TestAuthenticate_peers: a credential takes precedence over the headers of a proxy,
// these over a certificate, and a certificate over the anonymous tenant.
func TestAuthenticate_peers(t *testing.T) {
	k := &KeyFile{Version: 1}
	key, _ := issue(t, k, "acme")
	s := newStore(t, Config{Pepper: pepper}, "local", k)
	set, err := s.NewSet(SetConfig{Keys: k, Anonymous: "local", Certificates: Certificates{
		"uri:spiffe://x/batch": {Tenant: "batch", User: "b", Scopes: []string{"infer"}}, "dns:two": {Tenant: "two"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.set.Store(set)
	proxy := &TrustedProxy{Networks: prefixes("10.0.0.0/8"), SANs: []string{"dns:proxy"}, Tenant: "x-tenant-id"}
	batch := cert(t, []string{"spiffe://x/batch"}, []string{"unknown"})
	says := func(tenant, user, groups string) Asserted {
		return Asserted{[]byte(tenant), []byte(user), []byte(groups)}
	}
	f := func(what, want string, c Credentials, wantErr error) {
		t.Helper()
		p, err := s.Authenticate(&c)
		got := ""
		if p != nil {
			got = p.Method + " " + p.Tenant + " " + p.User + " " + strings.Join(p.Groups, "+") + " " + p.Issuer
		}
		if strings.TrimSpace(got) != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: got %q %v, want %q %v", what, got, err, want, wantErr)
		}
	}
	auth := []byte("Bearer " + key)
	f("key", "api_key acme u g test", Credentials{Authorization: auth, Certificate: batch}, nil)
	f("certificate", "mtls batch b  uri:spiffe://x/batch", Credentials{Certificate: batch}, nil)
	f("unknown certificate", "anonymous local", Credentials{Certificate: cert(t, nil, []string{"x"})}, nil)
	f("certificate of two principals", "anonymous local",
		Credentials{Certificate: cert(t, []string{"spiffe://x/batch"}, []string{"two"})}, nil)
	f("wrong key and certificate", "", Credentials{Authorization: []byte("Bearer x"), Certificate: batch}, ErrUnknownKey)
	f("proxy", "proxy acme u1 a+b dns:proxy", Credentials{Proxy: proxy, Asserted: says("acme", "u1", "a, b,,"),
		Certificate: batch}, nil)
	f("proxy and its own certificate", "anonymous local", Credentials{Proxy: proxy, Certificate: batch}, nil)
	f("proxy and a key that agree", "api_key acme u g test",
		Credentials{Authorization: auth, Proxy: proxy, Asserted: says("acme", "other", "")}, nil)
	f("proxy and a key that disagree", "", Credentials{Authorization: auth, Proxy: proxy,
		Asserted: says("globex", "", "")}, ErrDisagree)
	f("proxy and a wrong key", "", Credentials{APIKey: []byte("x"), Proxy: proxy, Asserted: says("acme", "", "")},
		ErrUnknownKey)
	f("asserted without a proxy", "anonymous local", Credentials{Asserted: says("acme", "u1", "")}, nil)
	for _, bad := range []Asserted{says("a b", "", ""), says("acme", "u\n", ""), says("acme", "", `g"`),
		says(strings.Repeat("x", 200), "", "")} {
		f("bad words", "", Credentials{Proxy: proxy, Asserted: bad}, ErrUnknownKey)
	}
	if _, err := s.NewSet(SetConfig{Certificates: Certificates{"dns:x": {Tenant: "a b"}}}); err == nil ||
		!strings.Contains(err.Error(), "dns:x") {
		t.Errorf("got %v", err)
	}
	if p, err := s.Verify(&Credentials{Certificate: batch, Proxy: proxy, Asserted: says("acme", "", "")}); p != nil ||
		!errors.Is(err, ErrNoCredentials) {
		t.Errorf("admin listener: got %+v %v", p, err)
	}
}

// FuzzClient: header values of the client do not change the address that the proxy
// adds.
func FuzzClient(f *testing.F) {
	ps := Proxies{{Networks: prefixes("10.0.0.0/8")}}
	f.Add("6.6.6.6", "10.0.0.1")
	f.Fuzz(func(t *testing.T, a, b string) {
		got := ps.Client(netip.MustParseAddr("10.0.0.1"), [][]byte{[]byte(a), []byte(b + ", 192.0.2.1, 10.0.0.2")})
		if got != netip.MustParseAddr("192.0.2.1") {
			t.Fatalf("got %v", got)
		}
		ps.Client(netip.MustParseAddr("10.0.0.1"), [][]byte{[]byte(a), []byte(b)})
	})
}
