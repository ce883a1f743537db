//go:build wasm

package hostlog

import "unsafe"

//go:wasmimport kvasir:log/1 log
func hostLog(level uint32, text unsafe.Pointer, n uint32)

func write(level uint32, text string) {
	hostLog(level, unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}
