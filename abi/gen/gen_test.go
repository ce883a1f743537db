package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestGenerated_current fails where a generated file differs from its source:
// run go generate in abi.
func TestGenerated_current(t *testing.T) {
	files, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got, err := os.ReadFile(f.path)
		if err != nil {
			t.Error(err)
			continue
		}
		if !bytes.Equal(got, f.text) {
			t.Errorf("%s is not what abi/gen writes", f.path)
		}
	}
}

// TestSource_header checks that the fields of each header follow each other
// without overlap and that u64 and f64 fields are aligned.
func TestSource_header(t *testing.T) {
	for _, g := range groups {
		if !strings.Contains(g.doc, "byte offsets") {
			continue
		}
		next := uint64(0)
		for _, c := range g.consts {
			if strings.HasSuffix(c.name, "HeaderSize") {
				if c.value < next {
					t.Errorf("%s = %d, fields end at %d", c.name, c.value, next)
				}
				continue
			}
			size := uint64(4)
			if strings.HasPrefix(c.doc, "u64") || strings.HasPrefix(c.doc, "f64") {
				size = 8
			}
			if c.value != next || c.value%size != 0 {
				t.Errorf("%s is at %d, want %d", c.name, c.value, next)
			}
			next = c.value + size
		}
	}
}

func TestRegistry_unique(t *testing.T) {
	for _, reg := range [][]column{candidateColumns, requestColumns, outcomeColumns} {
		seen := map[string]bool{}
		for _, c := range reg {
			if seen[c.name] || c.meaning == "" || strings.Contains(c.name, "/") {
				t.Errorf("column %q: twice, without a meaning or with a slash", c.name)
			}
			seen[c.name] = true
		}
	}
}
