//go:build !hf

package hf

import "testing"

func TestLoad_notBuilt(t *testing.T) {
	if _, err := Load(t.TempDir()); err != ErrNotBuilt || Available() {
		t.Errorf("Load: %v, available %v", err, Available())
	}
}
