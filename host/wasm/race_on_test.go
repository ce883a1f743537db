//go:build race

package wasm

// raceEnabled: the race detector makes a generated module ten times as slow.
const raceEnabled = true
