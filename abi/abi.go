// Package abi is the contract between Kvasir and its Wasm plugins: names,
// numbers and memory layouts, as SPEC.md has them. It imports nothing, so that
// hosts, tests and tools can share it.
//
// The constants of abi_gen.go, of sdk/c/kvasir_abi.h, of sdk/go/abi_gen.go and
// the tables of SPEC.md are written from one source, gen/source.go.
package abi

//go:generate go run ./gen

// Type is the element type of a column or of a request slot.
type Type uint8

const (
	F32 Type = iota // IEEE 754 binary32, always finite
	U32
	U64 // request slots only
)

// String returns the word of SPEC.md.
func (t Type) String() string {
	return [...]string{"f32", "u32", "u64"}[t]
}

// Column is one entry of a registry of columns.
type Column struct {
	Name    string
	Type    Type
	Unit    string  // "tokens", "ms", …; empty = a plain number
	Default float64 // the value where the host knows none
	Meaning string
}

// EndpointID packs a slot of the endpoint table (< 4096) and the epoch of
// its use, of which the low 20 bits count, into the value of the columns
// endpoint_id.
func EndpointID(slot, epoch uint32) uint32 {
	return epoch<<EndpointSlotBits | slot&(1<<EndpointSlotBits-1)
}

// Stride returns the elements between two columns for n values: the smallest
// multiple of StrideMultiple that is at least n, and at least one multiple.
func Stride(n int) int {
	return (max(n, 1) + StrideMultiple - 1) / StrideMultiple * StrideMultiple
}
