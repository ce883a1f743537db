//go:build wasm

package kv

import "unsafe"

//go:wasmimport kvasir:kv/1 get
func hostGet(key unsafe.Pointer, klen uint32, val unsafe.Pointer, room uint32) int32

//go:wasmimport kvasir:kv/1 set
func hostSet(key unsafe.Pointer, klen uint32, val unsafe.Pointer, vlen uint32) int32

//go:wasmimport kvasir:kv/1 delete
func hostDelete(key unsafe.Pointer, klen uint32) int32

func get(key string, buf []byte) int32 {
	return hostGet(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)),
		unsafe.Pointer(unsafe.SliceData(buf)), uint32(len(buf)))
}

func set(key string, value []byte) int32 {
	return hostSet(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)),
		unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value)))
}

func del(key string) int32 {
	return hostDelete(unsafe.Pointer(unsafe.StringData(key)), uint32(len(key)))
}
