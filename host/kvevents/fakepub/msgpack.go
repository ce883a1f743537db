package fakepub

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Map is a msgpack map in the order given: key, value, key, value, …
type Map []any

// Msgpack encodes nil, bool, ints, float64, string, []byte, and slices and Maps
// of them, each integer in its shortest form. Other types panic.
func Msgpack(v any) []byte { return appendValue(nil, v) }

// Batch encodes an event batch in the form of arrays: [ts, events, rank].
func Batch(ts float64, events ...any) []byte { return Msgpack([]any{ts, events, 0}) }

// Stored describes a BlockStored event of any form.
type Stored struct {
	Hashes []uint64
	Parent any // nil or uint64
	Tokens []uint32
	Block  int
	Salt   string
	Lora   string
	Medium string
}

func (s Stored) medium() any {
	if s.Medium == "" {
		return "GPU"
	}
	return s.Medium
}

func (s Stored) lora() any {
	if s.Lora == "" {
		return nil
	}
	return s.Lora
}

func (s Stored) extra() any {
	out := make([]any, len(s.Hashes))
	for i := range out {
		var keys []any
		if s.Lora != "" {
			keys = append(keys, s.Lora)
		}
		if i == 0 && s.Parent == nil && s.Salt != "" {
			keys = append(keys, s.Salt)
		}
		if keys != nil {
			out[i] = keys
		}
	}
	return out
}

// Map returns the event as vLLM sends it since 0.24.
func (s Stored) Map() Map {
	return Map{"type", "BlockStored", "block_hashes", s.Hashes, "parent_block_hash", s.Parent, "token_ids", s.Tokens,
		"block_size", s.Block, "lora_id", nil, "medium", s.medium(), "lora_name", s.lora(), "extra_keys", s.extra(),
		"group_idx", 0, "kv_cache_spec_kind", "full_attention"}
}

// Array returns the event as vLLM sent it before.
func (s Stored) Array() []any {
	return []any{"BlockStored", s.Hashes, s.Parent, s.Tokens, s.Block, nil, s.medium(), s.lora(), s.extra()}
}

// Removed returns a BlockRemoved event as vLLM sends it since 0.24.
func Removed(medium string, hashes ...uint64) Map {
	return Map{"type", "BlockRemoved", "block_hashes", hashes, "medium", medium, "group_idx", 0}
}

// Cleared returns an AllBlocksCleared event.
func Cleared() Map { return Map{"type", "AllBlocksCleared"} }

func appendValue(b []byte, v any) []byte {
	switch x := v.(type) {
	case nil:
		return append(b, 0xc0)
	case bool:
		if x {
			return append(b, 0xc3)
		}
		return append(b, 0xc2)
	case int:
		return appendInt(b, int64(x))
	case int64:
		return appendInt(b, x)
	case uint64:
		return appendUint(b, x)
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(x))
	case string:
		b = appendHead(b, len(x), 0xa0, 32, 0xd9)
		return append(b, x...)
	case []byte:
		b = appendHead(b, len(x), 0, 0, 0xc4)
		return append(b, x...)
	case []any:
		return appendList(b, x)
	case []uint64:
		return appendList(b, x)
	case []uint32:
		b = appendHead(b, len(x), 0x90, 16, 0xdb)
		for _, t := range x {
			b = appendUint(b, uint64(t))
		}
		return b
	case Map:
		b = appendHead(b, len(x)/2, 0x80, 16, 0xdd)
		for _, e := range x {
			b = appendValue(b, e)
		}
		return b
	}
	panic(fmt.Sprintf("BUG: no msgpack for %T", v))
}

func appendList[T any](b []byte, l []T) []byte {
	b = appendHead(b, len(l), 0x90, 16, 0xdb)
	for _, e := range l {
		b = appendValue(b, e)
	}
	return b
}

// appendHead appends a type byte and a length: short is the fix form for lengths
// below limit; wide is the form with one byte of length, followed by those with
// two and four. Arrays and maps have no form with one byte.
func appendHead(b []byte, n int, short byte, limit int, wide byte) []byte {
	switch {
	case n < limit:
		return append(b, short|byte(n))
	case n < 256 && wide != 0xdb && wide != 0xdd:
		return append(b, wide, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, wide+1), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, wide+2), uint32(n))
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, 0xd0, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(v))
}

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 128:
		return append(b, byte(v))
	case v < 1<<8:
		return append(b, 0xcc, byte(v))
	case v < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
	case v < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
}
