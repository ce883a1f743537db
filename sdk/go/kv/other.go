//go:build !wasm

package kv

// Outside a host the store is a map, so that plugins can be tested natively.
var m = map[string][]byte{}

func get(key string, buf []byte) int32 {
	v, ok := m[key]
	if !ok {
		return -1
	}
	if len(v) <= len(buf) {
		copy(buf, v)
	}
	return int32(len(v))
}

func set(key string, value []byte) int32 {
	m[key] = append([]byte(nil), value...)
	return 0
}

func del(key string) int32 {
	if _, ok := m[key]; !ok {
		return 1
	}
	delete(m, key)
	return 0
}
