//go:build !wasm

package metrics

// Outside a host nothing is reported, so that plugins can be tested natively.
func add(string, float64) {}
func set(string, float64) {}
