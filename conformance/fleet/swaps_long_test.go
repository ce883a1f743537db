//go:build long

package fleet

import "testing"

// TestPlugin_swapsUnderLoad_long is TestPlugin_swapsUnderLoad for 500 swaps, of
// which 20 are of Go.
func TestPlugin_swapsUnderLoad_long(t *testing.T) { swapUnderLoad(t, 500, 20) }
