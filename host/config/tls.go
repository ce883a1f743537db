package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// Certificate reads the certificate and its key; nil if t names none.
func (t *TLS) Certificate() (*tls.Certificate, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("listen.tls: %w", err)
	}
	return &cert, nil
}

// Server reads the files of t and returns what a listener serves with; nil if t
// names no certificate.
func (t *TLS) Server() (*tls.Config, error) {
	if t.CertFile == "" {
		return nil, nil
	}
	cert, err := t.Certificate()
	if err != nil {
		return nil, err
	}
	c := &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}
	if t.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(t.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("listen.tls: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("listen.tls: no certificate in %s", t.ClientCAFile)
	}
	c.ClientAuth = tls.RequireAndVerifyClientCert
	return c, nil
}
