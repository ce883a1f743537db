//go:build !race

// A run in virtual time has no goroutine: the race detector would find nothing here.

package scenario

import (
	"path/filepath"
	"testing"

	"github.com/kvasir-router/kvasir/host/scheduler"
)

// TestExamples: every scenario that ships can be read and run without recordings, and
// no scenario is in both sets.
func TestExamples(t *testing.T) {
	seen := map[string]string{}
	for _, set := range []string{"tuning", "judging"} {
		files, err := filepath.Glob("../../../examples/replay/" + set + "/*.yaml")
		if err != nil || len(files) < 8 {
			t.Fatalf("%s: %d scenarios, %v", set, len(files), err)
		}
		for _, path := range files {
			f, err := Read(path)
			if err != nil {
				t.Error(err)
				continue
			}
			if f.About == "" || f.Generate.Kind == "" {
				t.Errorf("%s: about %q, generator %q", path, f.About, f.Generate.Kind)
			}
			if other := seen[f.About]; other != "" {
				t.Errorf("%s is the same as %s", path, other)
			}
			seen[f.About] = path
			w, err := f.Open(&Sources{Traces: t.TempDir()})
			if err != nil || w.Recorded() {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if tr := w.Trace(1, 1); tr.Requests() < 100 {
				t.Errorf("%s: %d requests", path, tr.Requests())
			}
		}
	}
	f, err := Read("../../../examples/replay/tuning/slow-decode.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w, err := f.Open(&Sources{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Compare(f, w, []Policy{Product(ProductName, scheduler.Profile{})}, Options{Seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	if m := &c.Rows[0].Mean; m.Goodput < 0.5 || m.Goodput > 1 {
		t.Errorf("%+v", m)
	}
}
