//go:build !race

package testdeps

// Race reports whether the race detector is on. It makes code about ten times as slow.
const Race = false
