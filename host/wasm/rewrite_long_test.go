//go:build long

package wasm

import (
	"testing"
	"time"
)

// longRun is how long each generator is run.
const longRun = 10 * time.Minute

// seedOfToday differs from run to run, so that each looks elsewhere; a fault
// names the seed of its module.
func seedOfToday() uint64 { return uint64(time.Now().Unix()) << 20 }

func TestRewriteFuel_generatedLong(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(longRun)
	generated(t, seedOfToday(), func(int) bool { return time.Now().After(end) })
}

func TestRewriteFuel_smithLong(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(longRun)
	smith(t, seedOfToday(), func(int) bool { return time.Now().After(end) })
}
