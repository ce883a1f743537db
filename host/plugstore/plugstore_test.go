package plugstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kvasir-router/kvasir/host/internal/atomicfile"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, name, code string) string {
	t.Helper()
	d, err := s.Put(name, []byte(code), "")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wantActive(t *testing.T, s *Store, name, code string) {
	t.Helper()
	d, got, ok := s.Active(name)
	if ok != (code != "") || string(got) != code || ok && d != digestOf(got) {
		t.Errorf("active %s: got %q (%s, %v), want %q", name, got, d, ok, code)
	}
}

func TestStore_lifecycle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plugins")
	s := open(t, dir)
	wantActive(t, s, "a", "")
	one, two := put(t, s, "a", "one"), put(t, s, "a", "two")
	wantActive(t, s, "a", "")
	if _, err := s.Rollback("a"); !errors.Is(err, ErrNoPrevious) {
		t.Errorf("rollback of nothing: %v", err)
	}
	for _, d := range []string{one, two, two} {
		if err := s.Activate("a", d); err != nil {
			t.Fatal(err)
		}
	}
	wantActive(t, s, "a", "two")
	s = open(t, dir) // a restart
	wantActive(t, s, "a", "two")
	if d, err := s.Rollback("a"); err != nil || d != one {
		t.Errorf("rollback: %s, %v, want %s", d, err, one)
	}
	wantActive(t, open(t, dir), "a", "one")
	if d, err := s.Rollback("a"); err != nil || d != "" {
		t.Errorf("rollback of the first activation: %q, %v", d, err)
	}
	wantActive(t, s, "a", "")
	if _, err := s.Rollback("a"); !errors.Is(err, ErrNoPrevious) {
		t.Errorf("rollback beyond the first: %v", err)
	}
	if err := s.Activate("a", one); err != nil {
		t.Fatal(err)
	}
	if err := s.Deactivate("a"); err != nil {
		t.Fatal(err)
	}
	wantActive(t, s, "a", "")
	if d, err := s.Rollback("a"); err != nil || d != one {
		t.Errorf("rollback of deactivate: %s, %v", d, err)
	}
	if b, err := s.Code("a", two); err != nil || string(b) != "two" {
		t.Errorf("code: %q, %v", b, err)
	}
}

func TestStore_refusals(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "others may write") {
		t.Errorf("a directory for all: %v", err)
	}
	s := open(t, filepath.Join(dir, "mine"))
	for _, name := range []string{"", "../x", ".x", "a/b", "a b", strings.Repeat("a", 129)} {
		if _, err := s.Put(name, []byte("x"), ""); !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, code := range [][]byte{nil, make([]byte, MaxCodeBytes+1)} {
		if _, err := s.Put("a", code, ""); !errors.Is(err, ErrSize) {
			t.Errorf("%d bytes: %v", len(code), err)
		}
	}
	d := put(t, s, "a", "x")
	_, rollback := s.Rollback("b")
	_, code := s.Code("b", d)
	for i, err := range []error{s.Activate("b", d), s.Activate("a", digestOf(nil)), s.Activate("a", ""),
		s.Deactivate("b"), rollback, code} {
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if list, err := s.List(); err != nil || len(list) != 1 {
		t.Errorf("a refused change left something: %v, %v", list, err)
	}
}

// TestStore_bounds: the oldest versions go, but neither the active one nor what
// Rollback goes to, and the files go with them.
func TestStore_bounds(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	before, active := put(t, s, "a", "before"), put(t, s, "a", "active")
	for _, d := range []string{before, active} {
		if err := s.Activate("a", d); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, "other", "code 3") // shared content stays while one name has it
	for i := range 3 * MaxVersions {
		put(t, s, "a", fmt.Sprintf("code %d", i))
	}
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	a := list[0]
	if len(a.Versions) != MaxVersions || a.Versions[0].Digest != before || a.Versions[1].Digest != active ||
		a.Active != active || a.Previous != before {
		t.Errorf("kept %d versions: %+v", len(a.Versions), a)
	}
	if newest := a.Versions[MaxVersions-1].Digest; newest != digestOf([]byte("code 59")) {
		t.Errorf("newest: %s", newest)
	}
	files, err := os.ReadDir(filepath.Join(dir, "code"))
	if err != nil || len(files) != MaxVersions+1 {
		t.Errorf("%d files, %v, want %d", len(files), err, MaxVersions+1)
	}
}

// TestStore_names: the name put longest ago makes room, unless it is active.
func TestStore_names(t *testing.T) {
	s := open(t, t.TempDir())
	first, second := put(t, s, "first", "1"), put(t, s, "second", "2")
	for i := 2; i < MaxNames; i++ { // in memory: the files are not what is tested
		s.index.Plugins[fmt.Sprint("n", i)] = plugin{Active: second, Versions: s.index.Plugins["second"].Versions}
	}
	if err := s.Activate("first", first); err != nil {
		t.Fatal(err)
	}
	put(t, s, "third", "3")
	if _, err := s.Code("second", second); !errors.Is(err, ErrUnknown) {
		t.Errorf("second: %v", err)
	}
	wantActive(t, s, "first", "1")
	wantActive(t, s, "n2", "2") // has the code of the one that went
	put(t, s, "third", "4")
	if err := s.Activate("third", digestOf([]byte("3"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put("fourth", []byte("5"), ""); !errors.Is(err, ErrFull) {
		t.Errorf("all are active: %v", err)
	}
	if again := open(t, s.dir); len(again.index.Plugins) != MaxNames || len(again.Problems()) != 0 {
		t.Errorf("%d names, %v", len(again.index.Plugins), again.Problems())
	}
}

func TestPlugin_history(t *testing.T) {
	var p plugin
	for _, d := range "abc" {
		p.put(Version{Digest: string(d)})
	}
	for _, d := range "abcab" {
		p.activate(string(d))
	}
	p.drop("c")
	if got := strings.Join(p.History, ""); p.Active != "b" || got != "aba" || p.History[0] != "" {
		t.Errorf("active %s after %q, want b after none, a, b, a", p.Active, got)
	}
	p.drop("a")
	if len(p.History) != 1 || p.previous() != "" || p.Active != "b" {
		t.Errorf("active %s after %q, want b after none", p.Active, p.History)
	}
	for i := range 100 {
		p.put(Version{Digest: fmt.Sprint(i % 5)})
		p.activate(fmt.Sprint(i % 5))
	}
	if len(p.History) != MaxVersions {
		t.Errorf("%d activations kept, want %d", len(p.History), MaxVersions)
	}
}

// TestStore_tornIndex cuts the index at every byte: the state before the last
// change comes back.
func TestStore_tornIndex(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "a", "one")
	two := put(t, s, "a", "two")
	if err := s.Activate("a", two); err != nil {
		t.Fatal(err)
	}
	if err := s.Deactivate("a"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, indexName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prev, err := os.ReadFile(filepath.Join(dir, prevName))
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) - 1 { // without the last newline it is whole
		write(t, path, whole[:n])
		write(t, filepath.Join(dir, prevName), prev)
		s := open(t, dir)
		wantActive(t, s, "a", "two")
		wantProblem(t, s, path)
	}
	// With none of both left, the store is empty, and keeps the code.
	write(t, path, whole[:50])
	write(t, filepath.Join(dir, prevName), make([]byte, len(prev)))
	s = open(t, dir)
	if list, err := s.List(); err != nil || len(list) != 0 || len(s.Problems()) != 2 {
		t.Errorf("%v, %v, %v", list, err, s.Problems())
	}
	if _, err := os.Stat(s.codePath(two)); err != nil {
		t.Error(err)
	}
	put(t, s, "b", "three")
	if s = open(t, dir); len(s.Problems()) != 0 {
		t.Errorf("after the next change: %v", s.Problems())
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantProblem(t *testing.T, s *Store, path string) {
	t.Helper()
	if !slices.ContainsFunc(s.Problems(), func(err error) bool {
		return errors.Is(err, ErrTorn) &&
			strings.Contains(err.Error(), path)
	}) {
		t.Errorf("problems do not name %s: %v", path, s.Problems())
	}
}

// TestStore_tornCode: code that is not what its name says is never handed out.
func TestStore_tornCode(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"short":   func(p string) error { return os.Truncate(p, 1) },
		"zeros":   func(p string) error { return os.WriteFile(p, make([]byte, 3), 0o600) },
		"missing": os.Remove,
		"folder":  func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
	} {
		dir := t.TempDir()
		s := open(t, dir)
		one, two := put(t, s, "a", "one"), put(t, s, "a", "two")
		for _, d := range []string{one, two} {
			if err := s.Activate("a", d); err != nil {
				t.Fatal(err)
			}
		}
		path := s.codePath(two)
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		wantActive(t, s, "a", "") // while running
		wantProblem(t, s, path)
		if err := s.Activate("a", one); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Activate("a", two); !errors.Is(err, ErrTorn) {
			t.Errorf("%s: activated: %v", name, err)
		}
		if _, err := s.Rollback("a"); !errors.Is(err, ErrTorn) {
			t.Errorf("%s: rolled back: %v", name, err)
		}
		wantActive(t, s, "a", "one")
		s = open(t, dir) // after a restart
		wantActive(t, s, "a", "one")
		wantProblem(t, s, path)
		if list, err := s.List(); err != nil || len(list[0].Versions) != 1 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
		if name != "folder" {
			put(t, s, "a", "two") // pushing it again repairs it
			if err := s.Activate("a", two); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestStore_leftovers: what unfinished writes left goes at the next Open.
func TestStore_leftovers(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	one := put(t, s, "a", "one")
	unused := s.codePath(digestOf([]byte("written, but no index names it")))
	foreign := filepath.Join(dir, "notes.txt")
	temps := []string{filepath.Join(dir, atomicfile.TempPrefix+"1"),
		filepath.Join(dir, "code", atomicfile.TempPrefix+"2"), unused}
	for _, path := range append(temps, foreign) {
		write(t, path, []byte("half"))
	}
	s = open(t, dir)
	for _, path := range temps {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
	for _, path := range []string{foreign, s.codePath(one)} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if len(s.Problems()) != 0 {
		t.Error(s.Problems())
	}
}

func TestStore_stress(t *testing.T) {
	s := open(t, t.TempDir())
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			name := fmt.Sprint("p", g%3)
			for i := range 25 {
				code := fmt.Appendf(nil, "code %d", i%7) // shared by all names
				d, err := s.Put(name, code, "")
				if err != nil {
					t.Error(err)
				}
				if err := s.Activate(name, d); err != nil {
					t.Error(err)
				}
				if d, got, ok := s.Active(name); ok && digestOf(got) != d { // another may have rolled back to none
					t.Errorf("active %s: %s has other bytes", name, d)
				}
				if _, err := s.Rollback(name); err != nil && !errors.Is(err, ErrNoPrevious) {
					t.Error(err)
				}
				if _, err := s.List(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if p := s.Problems(); len(p) != 0 {
		t.Error(p)
	}
	if again := open(t, s.dir); len(again.Problems()) != 0 || len(again.index.Plugins) != 3 {
		t.Errorf("%v, %v", again.Problems(), again.index)
	}
}

func FuzzDecodeIndex(f *testing.F) {
	d := digestOf(nil)
	f.Add([]byte(`{"version":1,"plugins":{"a":{"active":"` + d + `","versions":[{"digest":"` + d + `","bytes":3,` +
		`"stored":"2026-01-02T03:04:05Z"}]}}}`))
	f.Add([]byte(`{"version":1}`))
	f.Add([]byte(`{"version":1,"plugins":{"a":{"history":[""],"versions":[]}}} x`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := decodeIndex(b)
		if err != nil {
			return
		}
		for name, p := range x.Plugins {
			if !ValidName(name) || p.Active != "" && !p.has(p.Active) || p.previous() != "" && !p.has(p.previous()) {
				t.Errorf("%q: %+v", name, p)
			}
			for i := range MaxVersions + 1 { // put always finds one that may go
				p.put(Version{Digest: fmt.Sprint(i), Bytes: 1})
			}
			if len(p.Versions) > MaxVersions || p.Active != "" && !p.has(p.Active) {
				t.Errorf("%q after puts: %+v", name, p)
			}
		}
	})
}

// TestStore_pusher: who pushed a version first stays its pusher over putting it
// again and opening; an index without pushers is read.
func TestStore_pusher(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	d, err := s.Put("a", []byte("1"), "")
	for _, who := range []string{"ada", "bob", ""} {
		if err == nil {
			d, err = s.Put("a", []byte("1"), who)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Pusher("a", d); got != "ada" {
			t.Errorf("after %q: %q", who, got)
		}
	}
	if got := open(t, dir).Pusher("a", d); got != "ada" {
		t.Errorf("opened again: %q", got)
	}
	if got := s.Pusher("b", d) + s.Pusher("a", "none"); got != "" {
		t.Errorf("pusher of nothing: %q", got)
	}
	for _, who := range []string{"\xff", strings.Repeat("x", MaxPusherBytes+1)} {
		if _, err := s.Put("a", []byte("2"), who); !errors.Is(err, ErrPusher) {
			t.Errorf("pusher of %d bytes: %v", len(who), err)
		}
	}
	old := `{"version":1,"plugins":{"a":{"versions":[{"digest":"` + d + `","bytes":1,"stored":"2026-01-02T03:04:05Z"}]}}}`
	x, err := decodeIndex([]byte(old))
	if err != nil || x.Plugins["a"].Versions[0].Pusher != "" {
		t.Errorf("an index from before: %+v, %v", x, err)
	}
}
