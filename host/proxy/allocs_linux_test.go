//go:build linux && !portable && (amd64 || arm64 || loong64 || ppc64le || riscv64)

package proxy

// moreAllocs are allocations per request beyond those of the request path.
const moreAllocs = 0
