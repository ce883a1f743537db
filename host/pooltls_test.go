package host

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestPool_tls checks that an engine with TLS serves if the pool's ca_file contains its
// certificate authority, and that no request reaches an engine whose certificate is not
// trusted.
func TestPool_tls(t *testing.T) {
	x := newLive(t)
	engine := httptest.NewUnstartedServer(x.engineHandler())
	engine.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	engine.StartTLS()
	t.Cleanup(engine.Close)
	x.write("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: engine.Certificate().Raw})))
	const anyone = "anonymous: {tenant: acme}"
	pool := fmt.Sprintf("endpoints: [%q]", engine.URL)
	x.write("kvasir.yaml", x.yaml(anyone, pool+fmt.Sprintf(", tls: {ca_file: %q}", x.path("ca.pem")), ""))
	x.start()
	x.turns("with the engine's authority", "", http.StatusOK)
	x.write("kvasir.yaml", x.yaml(anyone, pool, ""))
	status := 0
	for end := time.Now().Add(10 * time.Second); status/100 != 5 &&
		time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		status = x.ask("")
	}
	if status != http.StatusBadGateway && status != http.StatusServiceUnavailable {
		t.Errorf("without the engine's authority: got status %d, want 502 or 503", status)
	}
}

// TestPool_fields checks that fields that the router does not know are forwarded, dropped
// or refused, as the pool's configuration specifies.
func TestPool_fields(t *testing.T) {
	x := newLive(t)
	pool := fmt.Sprintf("endpoints: [%q]", x.engine())
	config := func(fields string) string { return x.yaml("anonymous: {tenant: acme}", pool+fields, "") }
	x.write("kvasir.yaml", config(""))
	x.start()
	ask := func() int {
		t.Helper()
		resp, err := http.Post("http://"+x.Addr()+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model": "m", "zzz": 1, "messages": [{"role": "user", "content": "hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	reached := func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return strings.Contains(x.body, "zzz")
	}
	for _, c := range []struct {
		fields string
		status int
		passes bool
	}{
		{"", 200, true},
		{", fields: {unknown: drop}", 200, false},
		{", fields: {unknown: refuse}", 400, false},
	} {
		x.write("kvasir.yaml", config(c.fields))
		status := 0
		ok := false
		for end := time.Now().Add(10 * time.Second); !ok && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			status = ask()
			ok = status == c.status && (status != 200 || reached() == c.passes)
		}
		if !ok {
			t.Errorf("%q: got status %d, the field reached the engine: %v", c.fields, status, reached())
		}
	}
}
