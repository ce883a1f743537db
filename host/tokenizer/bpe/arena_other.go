//go:build !linux

package bpe

// adviseHuge does nothing on systems without this advice.
func adviseHuge([]byte) {}
