package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// TrustedProxy is a proxy before the router that is believed what it says of its
// clients.
type TrustedProxy struct {
	// Networks are where it connects from. They must not be empty.
	Networks []netip.Prefix
	// SANs are the names its verified certificate may have (see SANs), empty = it
	// need not have one.
	SANs []string

	// Headers in which it names who asks, in lower case; "" = it does not. They
	// count if Tenant's is there.
	Tenant, User, Groups string
}

// Validate reports all faults of p.
func (p *TrustedProxy) Validate() error {
	var all []error
	if len(p.Networks) == 0 {
		all = append(all, errors.New("no networks: name those it connects from, such as 10.0.0.0/24"))
	}
	for _, n := range p.Networks {
		if !n.IsValid() || n.Bits() == 0 {
			all = append(all, fmt.Errorf("network %v: everybody is no proxy", n))
		}
	}
	if p.Tenant != "" && len(p.SANs) == 0 {
		all = append(all, errors.New("a tenant header without sans: an address alone is no proof of who asks"))
	}
	if p.Tenant == "" && p.User+p.Groups != "" {
		all = append(all, errors.New("a user or groups header without a tenant header"))
	}
	return errors.Join(all...)
}

// Name names the proxy: its first certificate name, else its first network.
func (p *TrustedProxy) Name() string {
	if len(p.SANs) > 0 {
		return p.SANs[0]
	}
	return p.Networks[0].String()
}

// Proxies are the trusted proxies of a site. They are immutable.
type Proxies []TrustedProxy

// Match returns the proxy at the other end of a connection, nil if it is none:
// its address must be in a network and, where SANs are named, its certificate
// must have one of them. cert is verified, nil = there is none.
func (ps Proxies) Match(at netip.Addr, cert *x509.Certificate) *TrustedProxy {
	at = at.Unmap()
	for i := range ps {
		p := &ps[i]
		if p.contains(at) && (len(p.SANs) == 0 || slices.ContainsFunc(SANs(cert), func(s string) bool { return slices.Contains(p.SANs, s) })) {
			return p
		}
	}
	return nil
}

func (p *TrustedProxy) contains(at netip.Addr) bool {
	return slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Contains(at) })
}

// maxHops bounds how far back a chain of proxies is followed.
const maxHops = 16

// Client returns the address of the client that a trusted proxy at peer forwards
// for, by the values of its X-Forwarded-For header fields in their order. Each
// proxy appends who it heard, so the list is read from its end, past other
// trusted proxies: what stands before the first stranger, that stranger may have
// written.
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

// hop reads one element: an address, with or without a port.
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

// ParseSAN reads the name of a certificate as a configuration writes it: with
// its kind as SANs has it, or without, then it is a URI if it has ://, else an
// address if it has @, else a DNS name.
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
			return "", fmt.Errorf("%q: want a name of a certificate, such as spiffe://example.org/router or dns:router.example.org; wildcards are none", s[4:])
		}
	}
	return s, nil
}

// Certificates are the principals of client certificates, by name as SANs has
// it.
type Certificates map[string]Grant

// Asserted is who asks as a trusted proxy says, in its header's words. The
// slices are valid during the call.
type Asserted struct {
	Tenant, User, Groups []byte // groups are separated by commas
}

// principal returns who is asserted.
func (a *Asserted) principal(proxy string) (*Principal, error) {
	g := Grant{Tenant: string(a.Tenant), User: string(a.User)}
	for _, name := range strings.Split(string(a.Groups), ",") {
		if name = strings.TrimSpace(name); name != "" {
			g.Groups = append(g.Groups, name)
		}
	}
	return g.Principal(MethodProxy, proxy)
}
