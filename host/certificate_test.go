package host

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"strings"
	"testing"
	"time"
)

// certificate writes a certificate of a name and its key.
func (x *liveRouter) certificate(name string) {
	x.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		x.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		x.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		x.t.Fatal(err)
	}
	x.write("server.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	x.write("server.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
}

// presented returns the name in the certificate that the clients' listener presents.
func (x *liveRouter) presented() string {
	x.t.Helper()
	c, err := tls.Dial("tcp", x.Addr(), &tls.Config{InsecureSkipVerify: true}) // the name is what is tested
	if err != nil {
		x.t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestReload_certificate: a renewed certificate is presented to the next connections, also
// without a reload that is asked for; files that are no pair change nothing.
func TestReload_certificate(t *testing.T) {
	x := newLive(t)
	x.certificate("first")
	x.write("kvasir.yaml", strings.Replace(
		x.yaml("anonymous: {tenant: acme}", "endpoints: [\""+x.engine()+"\"]", ""), "listen: 127.0.0.1:0",
		"listen: {http: \"127.0.0.1:0\", tls: {cert_file: "+x.path("server.pem")+", key_file: "+x.path("server.key")+"}}", 1))
	x.start()
	if got := x.presented(); got != "first" {
		t.Errorf("at first: presents %q", got)
	}
	open, err := tls.Dial("tcp", x.Addr(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	x.certificate("second")
	end := time.Now().Add(20 * time.Second)
	got := x.presented()
	for ; got != "second" && time.Now().Before(end); got = x.presented() {
		time.Sleep(20 * time.Millisecond)
	}
	if got != "second" {
		t.Errorf("after a renewal: presents %q", got)
	}
	if _, err := open.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Errorf("a connection that was open: %v", err)
	}
	if n, err := open.Read(make([]byte, 64)); err != nil || n == 0 {
		t.Errorf("a connection that was open: %d bytes, %v", n, err)
	}
	x.write("server.pem", "no certificate")
	if _, err := x.Reload(); err == nil || !strings.Contains(err.Error(), "listen.tls") {
		t.Errorf("got %v, want an error about the certificate", err)
	}
	if got := x.presented(); got != "second" {
		t.Errorf("after a refused reload: presents %q", got)
	}
}

// TestReload_logLevel: the level of the process's log follows the configuration.
func TestReload_logLevel(t *testing.T) {
	x := newLive(t)
	x.level = new(slog.LevelVar)
	pool := "endpoints: [\"" + x.engine() + "\"]"
	x.write("kvasir.yaml", x.yaml("anonymous: {tenant: acme}", pool, "telemetry: {log_level: warn}\n"))
	x.start()
	if got := x.level.Level(); got != slog.LevelWarn {
		t.Errorf("at first: level %v", got)
	}
	x.write("kvasir.yaml", x.yaml("anonymous: {tenant: acme}", pool, "telemetry: {log_level: debug}\n"))
	out, err := x.Reload()
	if err != nil || len(out.Restart) != 0 {
		t.Fatalf("%v, waits for a restart: %q", err, out.Restart)
	}
	if got := x.level.Level(); got != slog.LevelDebug {
		t.Errorf("after a reload: level %v", got)
	}
}
