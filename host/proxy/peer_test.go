package proxy

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/identity"
)

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{pool: x509.NewCertPool()}
	leaf := a.issue(t, "authority")
	a.cert, a.key = leaf.Leaf, leaf.PrivateKey.(*ecdsa.PrivateKey)
	a.pool.AddCert(a.cert)
	return a
}

func (a *authority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: a.cert == nil,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if u, err := url.Parse(name); err == nil && u.Scheme != "" {
		c.URIs = []*url.URL{u}
	} else {
		c.DNSNames = []string{name}
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// peerText shows the credentials that a router got of a peer.
func peerText(c *identity.Credentials) string {
	proxy := "-"
	if c.Proxy != nil {
		proxy = c.Proxy.Name()
	}
	return fmt.Sprintf("%v %s %q %q %q %s", c.Remote, proxy, c.Asserted.Tenant, c.Asserted.User, c.Asserted.Groups,
		strings.Join(identity.SANs(c.Certificate), ","))
}

const claimed = "X-Forwarded-For: 6.6.6.6, 192.0.2.7\r\nX-Tenant-Id: acme\r\nX-Forwarded-User: u1\r\n" +
	"X-Forwarded-Groups: a,b\r\n"

// TestPeer_network: X-Forwarded-For counts if it comes from a network that is
// trusted, and nothing else does.
func TestPeer_network(t *testing.T) {
	addr, captured := recorder(t)
	for _, c := range []struct{ network, want string }{
		{"127.0.0.0/8", `192.0.2.7 127.0.0.0/8 "" "" "" `}, {"10.0.0.0/8", `127.0.0.1 - "" "" "" `},
		{"", `127.0.0.1 - "" "" "" `},
	} {
		r := newRouter(addr)
		got := make(chan string, 10)
		r.auth = func(c *identity.Credentials) (*identity.Principal, error) {
			got <- peerText(c)
			return &identity.Principal{Tenant: "acme"}, nil
		}
		x := start(t, r, func(cfg *setup) {
			if c.network != "" {
				cfg.Proxies = identity.Proxies{{Networks: []netip.Prefix{netip.MustParsePrefix(c.network)}}}
			}
		})
		for _, head := range []string{claimed, strings.ToUpper(claimed),
			"X_Forwarded_For: 6.6.6.6\r\nX_Tenant_Id: evil\r\n" + claimed} {
			if resp, body := do(t, x.addr, post(plainBody, head)); resp.StatusCode != 200 {
				t.Fatalf("%s %s", resp.Status, body)
			}
			if s := <-got; s != c.want {
				t.Errorf("network %q: got %s, want %s", c.network, s, c.want)
			}
			if raw := strings.ToLower(string(<-captured)); strings.Contains(raw, "forwarded") ||
				strings.Contains(raw, "tenant") || strings.Contains(raw, "192.0.2.7") {
				t.Errorf("the engine got %q", raw)
			}
		}
	}
}

// TestPeer_certificate: only a proxy with its certificate may name the sender, and
// the router gets a client's certificate.
func TestPeer_certificate(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	addr, captured := recorder(t)
	r := newRouter(addr)
	got := make(chan string, 10)
	r.auth = func(c *identity.Credentials) (*identity.Principal, error) {
		got <- peerText(c)
		return &identity.Principal{Tenant: "acme"}, nil
	}
	x := start(t, r, func(c *setup) {
		c.TLS = &tls.Config{Certificates: []tls.Certificate{a.issue(t, "router.example")}, ClientCAs: a.pool,
			ClientAuth: tls.RequireAndVerifyClientCert}
		c.Proxies = identity.Proxies{{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			SANs: []string{"uri:spiffe://x/proxy"}, Tenant: "x-tenant-id", User: "x-forwarded-user",
			Groups: "x-forwarded-groups"}}
	})
	ask := func(cert tls.Certificate, head string) (*http.Response, error) {
		c, err := tls.Dial("tcp", x.addr, &tls.Config{RootCAs: a.pool, ServerName: "router.example",
			Certificates: []tls.Certificate{cert}})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
		io.WriteString(c, post(plainBody, head))
		return http.ReadResponse(bufio.NewReader(c), nil)
	}
	for name, want := range map[string]string{
		"spiffe://x/proxy":  `192.0.2.7 uri:spiffe://x/proxy "acme" "u1" "a,b" uri:spiffe://x/proxy`,
		"spiffe://x/client": `127.0.0.1 - "" "" "" uri:spiffe://x/client`,
		"proxy":             `127.0.0.1 - "" "" "" dns:proxy`,
	} {
		resp, err := ask(a.issue(t, name), claimed)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %v %v", name, resp, err)
		}
		if s := <-got; s != want {
			t.Errorf("%s: got %s, want %s", name, s, want)
		}
		if raw := strings.ToLower(string(<-captured)); strings.Contains(raw, "forwarded") || strings.Contains(raw, "tenant") {
			t.Errorf("the engine got %q", raw)
		}
	}
	if resp, err := ask(a.issue(t, "spiffe://x/proxy"), claimed+"x-tenant-id: globex\r\n"); err != nil ||
		resp.StatusCode != 400 {
		t.Errorf("two tenants: %v %v", resp, err)
	}
	if resp, err := ask(a.issue(t, "spiffe://x/proxy"),
		strings.Repeat("X-Forwarded-For: 192.0.2.1\r\n", 17)); err != nil || resp.StatusCode != 431 {
		t.Errorf("17 lists: %v %v", resp, err)
	}
	if resp, err := ask(other.issue(t, "spiffe://x/proxy"), claimed); err == nil {
		t.Errorf("a certificate of another authority: %s", resp.Status)
	}
}

func TestConfig_proxies(t *testing.T) {
	for header, want := range map[string]bool{"x-tenant-id": true, "x-forwarded-user": true, "x-kvasir-tenant": true,
		"x-user": false, "authorization": false, "accept": false, "X-Tenant-Id": false, "x-request-id": false} {
		c := EdgeConfig{Proxies: identity.Proxies{{Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
			SANs: []string{"dns:a"}, Tenant: header}}}
		if err := c.Validate(); (err == nil) != want || err != nil && !strings.Contains(err.Error(), "would reach engines") {
			t.Errorf("%s: got %v", header, err)
		}
	}
}
