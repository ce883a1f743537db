package fleet

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/kvasir-router/kvasir/host/config"
)

// TLS is the TLS configuration for the https engines of a pool.
type TLS struct {
	Config *tls.Config // immutable
	digest string      // of the settings and the contents of their files; changes are found by it
}

// EngineTLS reads the files of a pool's TLS settings. The error names the pool and
// the file.
func EngineTLS(p *config.Pool) (TLS, error) {
	c, sum := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.TLS.ServerName}, sha256.New()
	fail := func(err error) (TLS, error) { return TLS{}, fmt.Errorf("fleet: pool %q: tls: %w", p.Name, err) }
	read := func(name string) ([]byte, error) {
		b, err := os.ReadFile(name)
		fmt.Fprintf(sum, "%d\n%s", len(b), b)
		return b, err
	}
	if f := p.TLS.CAFile; f != "" {
		b, err := read(f)
		if err != nil {
			return fail(err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(b) {
			return fail(fmt.Errorf("no certificate in %s", f))
		}
	}
	if p.TLS.CertFile != "" {
		cert, err := read(p.TLS.CertFile)
		if err != nil {
			return fail(err)
		}
		key, err := read(p.TLS.KeyFile)
		if err != nil {
			return fail(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return fail(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	fmt.Fprintf(sum, "%q", p.TLS)
	return TLS{c, hex.EncodeToString(sum.Sum(nil))}, nil
}
