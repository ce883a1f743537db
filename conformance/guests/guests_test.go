package guests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAll(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		if _, err := g.Code(); err != nil {
			t.Error(err)
		}
		reactions := 0
		for _, set := range []bool{g.Load != "", len(g.Fault) > 0, g.OK, g.Abstain} {
			if set {
				reactions++
			}
		}
		if reactions != 1 {
			t.Errorf("%s: %d reactions, want 1", g.File, reactions)
		}
	}
	sources, err := filepath.Glob("*.wat")
	if err != nil || len(sources) != len(all) {
		t.Errorf("%d sources for %d guests (%v)", len(sources), len(all), err)
	}
}

// TestAll_current compares the committed modules with what wat2wasm makes of
// their sources, where it is installed.
func TestAll_current(t *testing.T) {
	if _, err := exec.LookPath("wat2wasm"); err != nil {
		t.Log("wat2wasm is not installed: sources not compared")
		return
	}
	dir := t.TempDir()
	if out, err := exec.Command("./build.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, _ := filepath.Glob(filepath.Join(dir, "*.wasm"))
	for _, f := range made {
		a, _ := os.ReadFile(f)
		b, err := os.ReadFile(filepath.Base(f))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs from what its source compiles to (%v)", strings.TrimPrefix(f, dir), err)
		}
	}
}
