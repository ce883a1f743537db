package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Access is who may use the admin listener by the rules in force: the holder of the
// token, by an allowed name of the listener. It is immutable.
type Access struct {
	token [sha256.Size]byte
	plain string
	hosts map[string]bool // lower case, without port
}

// minToken is short enough for a token typed by hand in a test and long enough
// not to be empty by mistake.
const minToken = 8

// NewAccess returns the access with a token of at least 8 characters without white
// space. hosts are names that the Host header may have in addition to loopback
// names and addresses and the address that the client connected to. The error joins
// everything that is wrong.
func NewAccess(token string, hosts []string) (*Access, error) {
	var all []error
	if len(token) < minToken {
		all = append(all, fmt.Errorf("admin: token is shorter than %d characters", minToken))
	}
	if strings.ContainsAny(token, " \t\r\n") {
		all = append(all, errors.New("admin: token has white space"))
	}
	a := &Access{token: sha256.Sum256([]byte(token)), plain: token, hosts: map[string]bool{"localhost": true}}
	for _, h := range hosts {
		if h == "" || strings.ContainsAny(h, "/ ") {
			all = append(all, fmt.Errorf("admin: bad host name %q", h))
		}
		a.hosts[canonicalHost(h)] = true
	}
	return a, errors.Join(all...)
}

// Token returns the token, which must not be logged.
func (a *Access) Token() string { return a.plain }

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
func (a *Access) hostAllowed(r *http.Request) bool {
	host := canonicalHost(r.Host)
	if a.hosts[host] || strings.HasSuffix(host, ".localhost") {
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
func (a *Access) tokenOK(r *http.Request) bool {
	const scheme = "Bearer "
	header := r.Header.Get("Authorization")
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return false
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(header[len(scheme):])))
	return subtle.ConstantTimeCompare(sum[:], a.token[:]) == 1
}

func fromLoopback(r *http.Request) bool {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// named passes on requests whose Host header names this listener.
func (s *Server) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.access().hostAllowed(r) {
			writeError(w, http.StatusMisdirectedRequest, "unknown_host",
				"The Host header does not name this listener; connect by its address or list the name under admin.hosts.")
			return
		}
		next.ServeHTTP(w, r)
	})
}
