package simengine

import (
	"encoding/binary"
	"testing"
)

// decode reads one msgpack value.
func decode(t *testing.T, b []byte) any {
	t.Helper()
	v, rest := decodeValue(t, b)
	if len(rest) != 0 {
		t.Fatalf("%d bytes after the value", len(rest))
	}
	return v
}

func decodeValue(t *testing.T, b []byte) (any, []byte) {
	t.Helper()
	c, b := b[0], b[1:]
	u := func(n int) int {
		v := 0
		for _, x := range b[:n] {
			v = v<<8 | int(x)
		}
		b = b[n:]
		return v
	}
	switch {
	case c < 0x80:
		return uint64(c), b
	case c < 0x90:
		return decodeMap(t, b, int(c&15))
	case c < 0xa0:
		return decodeList(t, b, int(c&15))
	case c < 0xc0:
		return string(b[:c&31]), b[c&31:]
	case c == 0xc0:
		return nil, b
	case c == 0xcb:
		return binary.BigEndian.Uint64(b), b[8:]
	case c >= 0xcc && c <= 0xcf:
		n := 1 << (c - 0xcc)
		var x [8]byte
		copy(x[8-n:], b[:n])
		return binary.BigEndian.Uint64(x[:]), b[n:]
	case c >= 0xd9 && c <= 0xdb:
		n := u(1 << (c - 0xd9))
		return string(b[:n]), b[n:]
	case c == 0xdc || c == 0xdd:
		n := u(2 << (c - 0xdc))
		return decodeList(t, b, n)
	case c == 0xde || c == 0xdf:
		n := u(2 << (c - 0xde))
		return decodeMap(t, b, n)
	}
	t.Fatalf("msgpack byte %#x", c)
	return nil, nil
}

func decodeList(t *testing.T, b []byte, n int) (any, []byte) {
	list := make([]any, n)
	for i := range list {
		list[i], b = decodeValue(t, b)
	}
	return list, b
}

func decodeMap(t *testing.T, b []byte, n int) (any, []byte) {
	m := make(map[string]any, n)
	for range n {
		var k any
		k, b = decodeValue(t, b)
		m[k.(string)], b = decodeValue(t, b)
	}
	return m, b
}
