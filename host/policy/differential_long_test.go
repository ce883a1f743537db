//go:build long

package policy

import "testing"

// TestSnapshot_differentialLong is TestSnapshot_differential over a million
// requests.
func TestSnapshot_differentialLong(t *testing.T) { differ(t, 1_000_000/len(devious)+1) }
