//go:build !linux

package wasm

import "time"

var processStart = time.Now()

// threadTime returns the time since the start of the process: here a thread that had
// to wait counts as one that worked.
func threadTime() time.Duration { return time.Since(processStart) }
