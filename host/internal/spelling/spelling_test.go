package spelling

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"constraints", "cache", "cost", "prefer"}
	for word, want := range map[string]string{
		"contraints": "constraints", "cahce": "cache", "chace": "cache", "prefers": "prefer", "wholly": "", "": "",
		"cos": "cost",
	} {
		if got := Nearest(word, known); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
