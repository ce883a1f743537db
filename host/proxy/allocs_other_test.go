//go:build !linux || portable || !(amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

// moreAllocs are allocations per request beyond those of the request path: reading
// ahead of the client (clientConn.begin 2, and the error of the read 2), watching the
// idle connection to the engine (plainTransport.idle 4), and writeRest 1.
const moreAllocs = 9
