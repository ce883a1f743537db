//go:build long

package fleet

import "testing"

// TestPlugin_swapsUnderLoad_long is TestPlugin_swapsUnderLoad with 500 swaps, of
// which 20 are of Go modules.
func TestPlugin_swapsUnderLoad_long(t *testing.T) { swapUnderLoad(t, 500, 20) }
