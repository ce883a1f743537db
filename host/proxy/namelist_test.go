package proxy

import (
	"strings"
	"testing"
)

// Whatever is listed may be: no name is overlooked for its shape.
func TestNameList(t *testing.T) {
	for _, l := range []*nameList{disclosingNames, droppedNames} {
		var listed []string
		for _, set := range l.names {
			for name := range set {
				listed = append(listed, name)
			}
		}
		for _, p := range l.prefixes {
			for _, n := range []int{0, 1, 10, 40, 80} {
				listed = append(listed, p+strings.Repeat("z", n))
			}
		}
		for _, name := range listed {
			for _, name := range []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "-", "_")} {
				if !l.may([]byte(name)) {
					t.Errorf("%q: taken for a name that is not listed", name)
				}
			}
			if !l.has([]byte(name)) {
				t.Errorf("%q: not listed", name)
			}
		}
		for _, name := range []string{"", "content-type", "Content-Length", "date", "server", "_x", "\xff", "1"} {
			if l.may([]byte(name)) && l.has([]byte(name)) {
				t.Errorf("%q: listed", name)
			}
		}
	}
	if disclosingNames.may([]byte("Content-Type")) || disclosingNames.may([]byte("Content-Length")) {
		t.Error("the commonest names cost a look-up")
	}
}
