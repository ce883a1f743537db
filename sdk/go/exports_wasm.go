//go:build wasm

package kvasir

import (
	"runtime"
	"unsafe"
)

// The exports of the ABI. All are there in every plugin; the host calls those
// the manifest lists.

var (
	manifestText string
	arena        []uint64 // kept here, so that the collector leaves it alone
)

func pointer(s string) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.StringData(s))))<<32 | uint64(len(s))
}

//go:wasmexport kvasir_abi
func exportABI() uint32 { return Major<<16 | Minor }

//go:wasmexport kvasir_manifest
func exportManifest() uint64 {
	if manifestText == "" {
		manifestText = manifest()
	}
	return pointer(manifestText)
}

//go:wasmexport kvasir_alloc
func exportAlloc(size uint32) uint32 {
	if need := int(size)/8 + 8; len(arena) < need {
		arena = make([]uint64, need)
	}
	return (uint32(uintptr(unsafe.Pointer(&arena[0]))) + 63) &^ 63
}

//go:wasmexport kvasir_error
func exportError() uint64 { return pointer(lastError) }

func batch(p uint32) *Batch { return (*Batch)(unsafe.Add(unsafe.Pointer(nil), p)) }

//go:wasmexport kvasir_filter
func exportFilter(p uint32) uint32 { return call(roleFilter, batch(p)) }

//go:wasmexport kvasir_score
func exportScore(p uint32) uint32 { return call(roleScore, batch(p)) }

//go:wasmexport kvasir_pick
func exportPick(p uint32) uint32 { return call(rolePick, batch(p)) }

//go:wasmexport kvasir_observe
func exportObserve(p uint32) uint32 { return call(roleObserve, batch(p)) }

//go:wasmexport kvasir_x_autoscale
func exportAutoscale(p uint32) uint32 { return call(roleAutoscale, batch(p)) }

//go:wasmexport kvasir_x_backend_parse
func exportBackendParse(p uint32) uint32 { return call(roleBackendParse, batch(p)) }

//go:wasmexport kvasir_x_discover
func exportDiscover(p uint32) uint32 { return call(roleDiscover, batch(p)) }

//go:wasmexport kvasir_configure
func exportConfigure(p uint32) uint32 {
	return runConfigure(unsafe.Add(unsafe.Pointer(nil), p))
}

//go:wasmexport kvasir_idle
func exportIdle(uint32) uint32 {
	runIdle()
	runtime.GC() // here, where no request waits for it
	return StatusOK
}
