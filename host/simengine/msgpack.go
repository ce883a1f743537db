package simengine

import (
	"encoding/binary"
	"math"
)

// The part of msgpack that events need, each value in its shortest form as
// msgspec writes it.

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendUint(b []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(b, byte(n))
	case n < 1<<8:
		return append(b, 0xcc, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), n)
	}
}

func appendFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(f))
}

func appendString(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n < 1<<8:
		b = append(b, 0xd9, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// appendStringOrNil writes nil for "".
func appendStringOrNil(b []byte, s string) []byte {
	if s == "" {
		return appendNil(b)
	}
	return appendString(b, s)
}

func appendArray(b []byte, n int) []byte { return appendHead(b, n, 0x90, 0xdc) }

func appendMap(b []byte, n int) []byte { return appendHead(b, n, 0x80, 0xde) }

// appendHead writes the head of a container of n elements: fix is the form for
// up to 15, wide that for up to 65535, the one after it for more.
func appendHead(b []byte, n int, fix, wide byte) []byte {
	switch {
	case n < 16:
		return append(b, fix|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, wide), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(b, wide+1), uint32(n))
	}
}
