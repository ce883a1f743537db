package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// certFiles creates a certificate authority and certificates with these names with
// OpenSSL and returns their directory. The files are NAME.pem and NAME.key.
func certFiles(t *testing.T, sans map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	openssl(t, nil, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
		"-subj", "/CN=authority", "-keyout", at("ca.key"), "-out", at("ca.pem"))
	for name, san := range sans {
		openssl(t, nil, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN="+name,
			"-keyout", at(name+".key"), "-out", at(name+".csr"))
		if err := os.WriteFile(at("ext"), []byte("subjectAltName="+san+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		openssl(t, nil, "x509", "-req", "-in", at(name+".csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"),
			"-CAcreateserial", "-days", "2", "-extfile", at("ext"), "-out", at(name+".pem"))
	}
	return dir
}

// TestPeers checks that a client certificate maps to a principal, and that a trusted
// proxy with its own certificate names the principal in headers. The same headers of
// other clients have no effect.
func TestPeers(t *testing.T) {
	t.Parallel()
	dir := certFiles(t, map[string]string{
		"router": "IP:127.0.0.1", "batch": "URI:spiffe://site.example/batch", "proxy": "URI:spiffe://site.example/proxy",
		"unmapped": "DNS:unmapped.example",
	})
	d := harness.StartDev(t, "--engines", "1")
	log := filepath.Join(t.TempDir(), "decisions.log")
	r := harness.Serve(t, fmt.Sprintf(`listen:
  http: "{LISTEN}"
  tls: {cert_file: %[1]s/router.pem, key_file: %[1]s/router.key, client_ca_file: %[1]s/ca.pem}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: {STATE}
identity:
  mtls: [{san: "spiffe://site.example/batch", tenant: batch, user: nightly}]
  trusted_proxies:
  - networks: [127.0.0.0/8]
    sans: ["spiffe://site.example/proxy"]
    tenant_header: X-Tenant-Id
    user_header: X-Forwarded-User
pools: [{name: main, endpoints: [%[2]q]}]
models: [{name: m, pools: [{name: main, served_as: %[3]s}]}]
telemetry: {decision_log: {file: %[4]s, sample_allow: 1}}
`, dir, d.Engines[0].URL, d.Model, log))
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	ask := func(name string, header ...string) (int, string) {
		t.Helper()
		cert, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		c := http.Client{Timeout: 20 * time.Second,
			Transport: &http.Transport{DisableKeepAlives: true,
				TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}}}
		req, err := http.NewRequest("POST", strings.Replace(r.URL, "http:", "https:", 1)+"/v1/chat/completions",
			strings.NewReader(askBody))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i+1 < len(header); i += 2 {
			req.Header.Add(header[i], header[i+1])
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
	for _, c := range []struct {
		name   string
		want   int
		tenant string
		header []string
	}{
		{"batch", 200, "batch", nil},
		{"batch", 200, "batch", []string{"X-Tenant-Id", "acme", "X-Forwarded-User", "root"}}, // batch is not a proxy
		{"proxy", 200, "acme", []string{"X-Tenant-Id", "acme", "X-Forwarded-User", "u1"}},
		{"proxy", 401, "", nil},
		{"proxy", 401, "", []string{"X-Tenant-Id", "a b"}},
		{"proxy", 400, "", []string{"X-Tenant-Id", "acme", "X-Tenant-Id", "globex"}},
		{"unmapped", 401, "", []string{"X-Tenant-Id", "acme"}},
	} {
		before := logged(t, log)
		status, body := ask(c.name, c.header...)
		if status != c.want {
			t.Errorf("%s with %q: %d %s, want %d", c.name, c.header, status, body, c.want)
			continue
		}
		if status == 200 {
			harness.Await(t, 10*time.Second, "the decision logged", func() bool { return len(logged(t, log)) == len(before)+1 })
			if got := logged(t, log)[len(before)].Tenant; got != c.tenant {
				t.Errorf("%s with %q: asked as %q, want %q", c.name, c.header, got, c.tenant)
			}
		}
	}
	// Failures count for the client that the proxy forwards for, not for the proxy.
	limited := 0
	for range 70 {
		if status, _ := ask("proxy", "X-Forwarded-For", "192.0.2.66", "Authorization", "Bearer wrong"); status == 429 {
			limited++
		}
	}
	if limited == 0 {
		t.Error("70 failures within two minutes are not limited")
	}
	if status, _ := ask("proxy", "X-Forwarded-For", "192.0.2.77", "Authorization", "Bearer wrong"); status != 401 {
		t.Errorf("another client of the proxy: %d", status)
	}
}
