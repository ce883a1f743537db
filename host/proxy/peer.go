package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"

	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
)

// peer sets the credentials of the connection. Header fields count only if the peer
// is a trusted proxy; those of other peers are not read.
func (s *stream) peer(e *Edge) *llmapi.Error {
	c := &s.client.cred
	c.Remote, c.Certificate, c.Proxy, c.Asserted = remote(s.client.conn), nil, nil, identity.Asserted{}
	if t := s.p.cfg.TLS; t != nil && t.ClientCAs != nil {
		c.Certificate = certificate(s.client.conn)
	}
	proxies := e.proxies
	if len(proxies) == 0 {
		return nil
	}
	if c.Proxy = proxies.Match(c.Remote, c.Certificate); c.Proxy == nil {
		return nil
	}
	var forwarded [16][]byte
	chain := forwarded[:0]
	for i := range s.client.fields.all {
		v := &s.client.fields.all[i]
		if v.kind != kindDrop {
			continue
		}
		var at *[]byte
		switch {
		case named(v, "x-forwarded-for"):
			if len(chain) == len(forwarded) {
				return llmapi.Refuse(llmapi.CodeTooManyHeaders, "More than 16 X-Forwarded-For header fields.")
			}
			chain = append(chain, v.value)
			continue
		case named(v, c.Proxy.Tenant):
			at = &c.Asserted.Tenant
		case named(v, c.Proxy.User):
			at = &c.Asserted.User
		case named(v, c.Proxy.Groups):
			at = &c.Asserted.Groups
		default:
			continue
		}
		if *at != nil { // only one is the proxy's
			return llmapi.Refuse(llmapi.CodeDuplicateHeader, "Duplicate header field with the sender's identity.")
		}
		*at = v.value[:len(v.value):len(v.value)]
	}
	c.Remote = proxies.Client(c.Remote, chain)
	return nil
}

func named(v *field, name string) bool {
	return name != "" && len(v.name) == len(name) && bytes.EqualFold(v.name, []byte(name))
}

// certificate returns the client's certificate, nil if it has none. The handshake
// has verified it against the configured authority.
func certificate(c net.Conn) *x509.Certificate {
	t, ok := c.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	st := t.ConnectionState()
	if len(st.VerifiedChains) == 0 || len(st.PeerCertificates) == 0 {
		return nil
	}
	return st.PeerCertificates[0]
}
