//go:build !linux || portable || !(amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

// newTransport returns the transport of a connection.
func newTransport(u *upConn, _ *watcher) (transport, error) { return newPlain(u), nil }

// sysAcked is not known on this system: a request whose connection broke counts as read.
func sysAcked(uintptr) (n uint64, ok bool) { return 0, false }
