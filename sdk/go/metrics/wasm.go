//go:build wasm

package metrics

import "unsafe"

//go:wasmimport kvasir:metrics/1 add
func hostAdd(name unsafe.Pointer, n uint32, v float64)

//go:wasmimport kvasir:metrics/1 set
func hostSet(name unsafe.Pointer, n uint32, v float64)

func add(name string, v float64) {
	hostAdd(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), v)
}

func set(name string, v float64) {
	hostSet(unsafe.Pointer(unsafe.StringData(name)), uint32(len(name)), v)
}
