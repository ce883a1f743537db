package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestReadDir_replaced reads a directory that is a link to one of two versions,
// while the link is replaced by renames: no read returns files of both.
func TestReadDir_replaced(t *testing.T) {
	root := t.TempDir()
	link := filepath.Join(root, "policy")
	for v := range 2 {
		dir := filepath.Join(root, fmt.Sprint("v", v))
		if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Appendf(nil, "# %d", v)
		for i := range 20 {
			for _, name := range []string{fmt.Sprintf("r%d.rego", i), fmt.Sprintf("data/d%d.json", i)} {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	replace := func(v int) {
		next := link + ".next"
		if err := os.Symlink(filepath.Join(root, fmt.Sprint("v", v)), next); err != nil {
			t.Error(err)
			return
		}
		if err := os.Rename(next, link); err != nil {
			t.Error(err)
		}
	}
	replace(0)
	var stop atomic.Bool
	var replaced int
	var wg sync.WaitGroup
	wg.Go(func() {
		for ; !stop.Load(); replaced++ {
			replace(replaced % 2)
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	whole := 0
	for range 1000 {
		s, err := ReadDir(link+"/", "")
		if err != nil {
			continue // the directory changed during each read, and ReadDir returned an error
		}
		whole++
		versions := map[string]bool{}
		for _, text := range s.Files() {
			versions[string(text)] = true
		}
		if len(versions) != 1 {
			t.Fatalf("one read returned files of %d versions", len(versions))
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d of 1,000 reads returned one version, %d replacements", whole, replaced)
	if whole == 0 {
		t.Error("every read failed")
	}
}
