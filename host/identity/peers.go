package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// TrustedProxy is a proxy in front of the router whose statements about its clients
// are accepted.
type TrustedProxy struct {
	// Networks are the networks that it connects from; at least one.
	Networks []netip.Prefix
	// SANs are the accepted names of its verified certificate (see SANs); empty = it
	// needs no certificate.
	SANs []string

	// Names, in lower case, of the headers in which it asserts the sender; "" = none.
	// They count only if that of Tenant is present.
	Tenant, User, Groups string
}

// Validate reports all errors of p.
func (p *TrustedProxy) Validate() error {
	var all []error
	if len(p.Networks) == 0 {
		all = append(all, errors.New("missing networks: name those that the proxy connects from, such as 10.0.0.0/24"))
	}
	for _, n := range p.Networks {
		if !n.IsValid() || n.Bits() == 0 {
			all = append(all, fmt.Errorf("network %v includes every address", n))
		}
	}
	if p.Tenant != "" && len(p.SANs) == 0 {
		all = append(all, errors.New("a tenant header requires sans: an address alone does not authenticate the proxy"))
	}
	if p.Tenant == "" && p.User+p.Groups != "" {
		all = append(all, errors.New("a user or groups header requires a tenant header"))
	}
	return errors.Join(all...)
}

// Name returns the proxy's first certificate name, else its first network.
func (p *TrustedProxy) Name() string {
	if len(p.SANs) > 0 {
		return p.SANs[0]
	}
	return p.Networks[0].String()
}

// Proxies are the trusted proxies of a site. They are immutable.
type Proxies []TrustedProxy

// Match returns the trusted proxy that is the peer of a connection, nil if the peer
// is none: the address must be in one of its networks and, if it has SANs, the
// certificate must have one of them. cert must be verified; nil = none.
func (ps Proxies) Match(at netip.Addr, cert *x509.Certificate) *TrustedProxy {
	at = at.Unmap()
	for i := range ps {
		p := &ps[i]
		named := func(san string) bool { return slices.Contains(p.SANs, san) }
		if p.contains(at) && (len(p.SANs) == 0 || slices.ContainsFunc(SANs(cert), named)) {
			return p
		}
	}
	return nil
}

func (p *TrustedProxy) contains(at netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Contains(at) })
}

// maxHops is the maximum length of a chain of proxies that is followed.
const maxHops = 16

// Client returns the address of the client of a trusted proxy at peer, by the values
// of its X-Forwarded-For header fields in order. Each proxy appends the address of
// its peer, so the list is read from its end, past other trusted proxies, up to the
// first other address: what is before that may be forged.
func (ps Proxies) Client(peer netip.Addr, forwarded [][]byte) netip.Addr {
	hops := 0
	for i := len(forwarded) - 1; i >= 0; i-- {
		list := string(forwarded[i])
		for list != "" {
			var last string
			if at := strings.LastIndexByte(list, ','); at >= 0 {
				list, last = list[:at], list[at+1:]
			} else {
				list, last = "", list
			}
			a, ok := hop(last)
			if hops++; !ok || hops > maxHops {
				return peer
			}
			if peer = a; !slices.ContainsFunc(ps, func(p TrustedProxy) bool { return p.contains(a) }) {
				return peer
			}
		}
	}
	return peer
}

// hop parses one element: an address, with or without a port.
func hop(s string) (netip.Addr, bool) {
	s = strings.TrimSpace(s)
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	a, err := netip.ParseAddr(strings.Trim(s, "[]"))
	return a.Unmap().WithZone(""), err == nil
}

// SANs returns the subject alternative names of a certificate as uri:…, dns:…
// and email:…, nil for none.
func SANs(cert *x509.Certificate) (out []string) {
	if cert == nil {
		return nil
	}
	for _, u := range cert.URIs {
		out = append(out, "uri:"+u.String())
	}
	for _, n := range cert.DNSNames {
		out = append(out, "dns:"+strings.ToLower(n))
	}
	for _, a := range cert.EmailAddresses {
		out = append(out, "email:"+a)
	}
	return out
}

// ParseSAN parses the name of a certificate in a configuration: with its kind as in
// SANs, or without; it is then a URI if it contains ://, an e-mail address if it
// contains @, else a DNS name.
func ParseSAN(s string) (string, error) {
	kind, rest, ok := strings.Cut(s, ":")
	switch {
	case ok && rest != "" && !strings.HasPrefix(rest, "//") && (kind == "uri" || kind == "dns" || kind == "email"):
	case strings.Contains(s, "://"):
		s = "uri:" + s
	case strings.Contains(s, "@"):
		s = "email:" + s
	default:
		s = "dns:" + s
	}
	if strings.HasPrefix(s, "dns:") {
		s = strings.ToLower(s)
		if n := s[4:]; n == "" || strings.ContainsAny(n, "*: /") {
			return "", fmt.Errorf("%q: want the name of a certificate, such as spiffe://example.org/router or "+
				"dns:router.example.org, without wildcards", s[4:])
		}
	}
	return s, nil
}

// Certificates are the grants of client certificates, by name as in SANs.
type Certificates map[string]Grant

// Asserted is the sender of a request as asserted by a trusted proxy: the values of
// its headers. The slices are valid during the call.
type Asserted struct {
	Tenant, User, Groups []byte // groups are separated by commas
}

// principal returns the asserted sender.
func (a *Asserted) principal(proxy string) (*Principal, error) {
	g := Grant{Tenant: string(a.Tenant), User: string(a.User)}
	for _, name := range strings.Split(string(a.Groups), ",") {
		if name = strings.TrimSpace(name); name != "" {
			g.Groups = append(g.Groups, name)
		}
	}
	return g.Principal(MethodProxy, proxy)
}
