//go:build !linux

package bpe

// adviseHuge does nothing where there is no such advice.
func adviseHuge([]byte) {}
