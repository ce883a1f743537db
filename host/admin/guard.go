package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard decides who may pass. It is immutable.
type guard struct {
	token           [sha256.Size]byte
	hosts           map[string]bool // lower case, without port
	loopbackMetrics bool
}

func newGuard(cfg *Config) guard {
	g := guard{token: sha256.Sum256([]byte(cfg.Token)), hosts: map[string]bool{"localhost": true},
		loopbackMetrics: cfg.LoopbackMetrics}
	for _, h := range cfg.Hosts {
		g.hosts[canonicalHost(h)] = true
	}
	return g
}

// canonicalHost drops the port, brackets and the last dot of a host name.
func canonicalHost(h string) string {
	if name, _, err := net.SplitHostPort(h); err == nil {
		h = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(h, "[]"), "."))
}

// hostAllowed reports whether the Host header names this listener: a loopback name
// or address, a configured name, or the address that the client connected to. None
// of them is a name that an attacker can choose.
func (g *guard) hostAllowed(r *http.Request) bool {
	host := canonicalHost(r.Host)
	if g.hosts[host] || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || ip.Zone() != "" { // no browser sends a zone, which may be any text
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip.Unmap()
}

// tokenOK compares in constant time, whatever the length of the credential.
func (g *guard) tokenOK(r *http.Request) bool {
	const scheme = "Bearer "
	a := r.Header.Get("Authorization")
	if len(a) < len(scheme) || !strings.EqualFold(a[:len(scheme)], scheme) {
		return false
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(a[len(scheme):])))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}

func fromLoopback(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// named passes on requests whose Host header names this listener.
func (g *guard) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.hostAllowed(r) {
			writeError(w, http.StatusMisdirectedRequest, "unknown_host",
				"The Host header does not name this listener; connect by its address or list the name under admin.hosts.")
			return
		}
		next.ServeHTTP(w, r)
	})
}
