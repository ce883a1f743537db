package backend

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"time"
)

// dialsUs reports whether a publisher that is up connects to address instead of
// listening on it, and the router can listen on address: nothing listens there, and
// it belongs to this machine. The engine has just reported the address, so it is up, and
// engines bind their event sockets before they serve.
func dialsUs(ctx context.Context, address string) bool {
	hostPort := strings.TrimPrefix(address, "tcp://")
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil || !local(host) {
		return false
	}
	d := net.Dialer{Timeout: 500 * time.Millisecond}
	c, err := d.DialContext(ctx, "tcp", hostPort)
	if err == nil {
		c.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// local reports whether host is an address of this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	if ip == nil {
		return host == "localhost"
	}
	if ip.IsLoopback() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip) {
			return true
		}
	}
	return false
}
