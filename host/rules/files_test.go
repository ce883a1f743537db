package rules

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFiles: a change is seen even where size and time stay the same, while it
// is fresh; an old file is not read again.
func TestFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	write := func(s string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(name, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	var f files
	if f.sum(name) != [32]byte{} {
		t.Error("an absent file has a digest")
	}
	now := time.Now()
	write("one", now)
	one := f.sum(name)
	write("two", now)
	if f.sum(name) == one {
		t.Error("a second write in the same instant is not seen")
	}
	old := now.Add(-time.Hour)
	write("one", old)
	if f.sum(name) != one {
		t.Error("another time is not seen")
	}
	write("two", old)
	if f.sum(name) != one {
		t.Error("an old file was read again")
	}
}
