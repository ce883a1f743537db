// Package kv is a small key-value store that survives swaps of a plugin with
// the same state version. A plugin that imports it must be granted
// kvasir:kv/1. It works in observe, idle and configure; in filter, score and
// pick a call is a fault, because their results follow from the batch alone.
package kv

import (
	"errors"

	kvasir "github.com/kvasir-router/kvasir/sdk/go"
)

func init() { kvasir.Import("kvasir:kv/1") }

// ErrQuota is what Set returns when the plugin's bytes are used up, or a value
// is above 64 KiB.
var ErrQuota = errors.New("kv: over quota")

// Get returns the value of key.
func Get(key string) (value []byte, ok bool) {
	buf := make([]byte, 256)
	for {
		n := get(key, buf)
		if n < 0 {
			return nil, false
		}
		if int(n) <= len(buf) {
			return buf[:n], true
		}
		buf = make([]byte, n)
	}
}

// Set stores a value.
func Set(key string, value []byte) error {
	if set(key, value) != 0 {
		return ErrQuota
	}
	return nil
}

// Delete removes key and reports whether it was there.
func Delete(key string) bool { return del(key) == 0 }
