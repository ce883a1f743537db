//go:build !wasm

package kvasir

import "unsafe"

// Call runs a role of the plugin outside a host, for its tests: role is "filter",
// "score", "pick", "observe", "x_autoscale", "x_backend_parse", "x_discover",
// "configure" or "idle"; arg is its argument in the layout of abi/SPEC.md, and
// receives the result. It returns the role's status and, if that is StatusError, the
// message.
func Call(role string, arg []byte) (status uint32, message string) {
	mem := make([]uint64, len(arg)/8+1) // aligned
	view := unsafe.Slice((*byte)(unsafe.Pointer(&mem[0])), len(arg))
	copy(view, arg)
	defer copy(arg, view)
	base := unsafe.Pointer(&mem[0])
	lastError = ""
	switch role {
	case "configure":
		status = runConfigure(base)
	case "idle":
		runIdle()
	default:
		at := -1
		for i, name := range roleNames {
			if name == role {
				at = i
			}
		}
		if at < 0 {
			return StatusUnsupported, ""
		}
		status = call(at, (*Batch)(base))
	}
	return status, lastError
}
