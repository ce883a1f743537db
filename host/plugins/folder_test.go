package plugins

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/plugstore"
)

func save(t testing.TB, file, s string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFolder_look: only regular files of the folder with a plugin's name and a
// bounded size are modules; of the others the reason is known.
func TestFolder_look(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out.wasm")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"good.wasm", ".good.wasm.swp", ".hidden.wasm", "good.wasm~", "README", "bad name.wasm"} {
		save(t, in(name), name)
	}
	save(t, out, "outside")
	if err := os.Symlink(out, in("link.wasm")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("good.wasm", in("alias.wasm")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(in("pipe.wasm"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(in("dir.wasm"), 0o700); err != nil {
		t.Fatal(err)
	}
	save(t, in("large.wasm"), "")
	if err := os.Truncate(in("large.wasm"), plugstore.MaxCodeBytes+1); err != nil {
		t.Fatal(err)
	}
	f := newFolder(dir)
	now, err := f.look(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"good.wasm": "", "alias.wasm": "", "bad name.wasm": "invalid plugin name",
		"link.wasm": "escapes", "pipe.wasm": "not a regular file",
		"dir.wasm": "not a regular file", "large.wasm": "more than"}
	for file, fault := range want {
		_, there := now[file]
		got := f.stats[file].fault
		if !there || (got == nil) != (fault == "") || got != nil && !strings.Contains(got.Error(), fault) {
			t.Errorf("%s: there %v, got %v, want %q", file, there, got, fault)
		}
	}
	if len(now) != len(want) || now["good.wasm"] != sha256.Sum256([]byte("good.wasm")) ||
		now["alias.wasm"] != now["good.wasm"] {
		t.Errorf("got %d files: %x", len(now), now)
	}
	for i := range maxFolderFiles {
		save(t, in("m"+string(rune('A'+i))+"0.wasm"), "")
	}
	if _, err := f.look(time.Now()); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("got %v for too many files", err)
	}
}

// TestFolder_due: a change counts when two looks agree, once; what was refused
// is tried again under another configuration; what is gone goes first.
func TestFolder_due(t *testing.T) {
	f, cfg := newFolder("x"), new(config.Config)
	one, two := sha256.Sum256([]byte("one")), sha256.Sum256([]byte("two"))
	look := func(cfg *config.Config, settle bool, now map[string][sha256.Size]byte, want string) {
		t.Helper()
		if got := strings.Join(f.due(now, cfg, settle), " "); got != want {
			t.Errorf("due %q, want %q", got, want)
		}
	}
	type m = map[string][sha256.Size]byte
	look(cfg, false, m{"a.wasm": one}, "a.wasm")
	f.tried["a.wasm"] = triedFile{one, false, cfg}
	look(cfg, true, m{"a.wasm": one}, "")
	look(cfg, true, m{"a.wasm": two}, "")
	look(cfg, true, m{"a.wasm": one}, "")
	look(cfg, true, m{"a.wasm": two, "b.wasm": one}, "")
	look(cfg, true, m{"a.wasm": two, "b.wasm": one}, "a.wasm b.wasm")
	f.tried["a.wasm"], f.tried["b.wasm"] = triedFile{two, true, cfg}, triedFile{one, false, cfg}
	look(cfg, true, m{"a.wasm": two, "b.wasm": one}, "")
	look(new(config.Config), true, m{"a.wasm": two, "b.wasm": one}, "a.wasm")
	look(cfg, true, m{"a.wasm": one}, "")
	look(cfg, true, m{"a.wasm": one}, "b.wasm a.wasm")
}
