package wasm_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance"
	"github.com/kvasir-router/kvasir/host/hostmod"
	"github.com/kvasir-router/kvasir/host/wasm"
)

// Arguments that make the test program a child of one kind or another.
const (
	childServes = "__serves"
	childOnce   = "__once"  // ends after one module
	childDies   = "__dies"  // when it is asked
	childHangs  = "__hangs" // when it is asked
)

func TestMain(m *testing.M) {
	if len(os.Args) != 2 || !strings.HasPrefix(os.Args[1], "__") {
		os.Exit(m.Run())
	}
	in, out := io.Reader(os.Stdin), io.Writer(os.Stdout)
	switch os.Args[1] {
	case childOnce:
		out = firstAnswer{out}
	case childDies:
		_, _ = io.ReadFull(in, make([]byte, 4))
		fmt.Fprintln(os.Stderr, "no more\nof this")
		os.Exit(7)
	case childHangs:
		_, _ = io.Copy(io.Discard, in)
	}
	if err := wasm.ServeChild(in, out, hostmod.Alone(), nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// firstAnswer exits the process after the first write.
type firstAnswer struct{ out io.Writer }

func (f firstAnswer) Write(p []byte) (int, error) {
	if _, err := f.out.Write(p); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
	return len(p), nil
}

// withChild returns a runtime whose child is of a kind, its cache and its log.
func withChild(t testing.TB, kind string) (rt *wasm.Runtime, cache string, logged *bytes.Buffer) {
	t.Helper()
	cache, logged = filepath.Join(t.TempDir(), "cache"), new(bytes.Buffer)
	command, err := wasm.SelfCommand(kind)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "" {
		command = []string{filepath.Join(t.TempDir(), "nothing")}
	}
	rt, err = wasm.New(context.Background(), wasm.Config{CacheDir: cache, Child: command, Modules: hostmod.Alone(),
		Log: slog.New(slog.NewTextHandler(logged, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt, cache, logged
}

// cached returns the times of change of a cache's files.
func cached(t testing.TB, dir string) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info os.FileInfo
			info, err = d.Info()
			out[path] = info.ModTime()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHostile_child runs the conformance suite where a child loads first.
func TestHostile_child(t *testing.T) {
	rt, cache, logged := withChild(t, childServes)
	conformance.Run(t, suiteHost{t, rt})
	if strings.Contains(logged.String(), "in this process") || len(cached(t, cache)) == 0 {
		t.Errorf("%d files in the cache; %s", len(cached(t, cache)), logged)
	}
}

// TestLoad_child: what the child has compiled is found by this process, which
// otherwise would write a file of its own.
func TestLoad_child(t *testing.T) {
	rt, cache, _ := withChild(t, childServes)
	for k, file := range []string{"ok", "nan", "abstain"} {
		load(t, rt, file, wasm.Options{})
		if n := len(cached(t, cache)); n != k+1 {
			t.Errorf("%d files after %d modules of one form each", n, k+1)
		}
	}
	before := cached(t, cache)
	load(t, newRuntime(t, cache), "ok", wasm.Options{})
	for path, at := range cached(t, cache) {
		if !before[path].Equal(at) {
			t.Errorf("%s was written again", filepath.Base(path))
		}
	}
}

// TestLoad_childEnded: a child that ended is replaced, and its end is not
// taken for the fault of a module it was not asked about.
func TestLoad_childEnded(t *testing.T) {
	rt, _, logged := withChild(t, childOnce)
	for _, file := range []string{"ok", "abstain", "spin", "nan"} {
		load(t, rt, file, wasm.Options{Instances: 1})
	}
	if logged.Len() > 0 {
		t.Errorf("logged %s", logged)
	}
}

// TestLoad_noChild: without a child modules are compiled in the process.
func TestLoad_noChild(t *testing.T) {
	rt, _, logged := withChild(t, "")
	load(t, rt, "ok", wasm.Options{})
	load(t, rt, "nan", wasm.Options{})
	if n := strings.Count(logged.String(), "compiled in this process"); n != 1 {
		t.Errorf("logged %d times: %s", n, logged)
	}
}

// TestLoad_childDies: a module that kills the child is refused with its output.
func TestLoad_childDies(t *testing.T) {
	rt, _, _ := withChild(t, childDies)
	_, err := rt.Load(t.Context(), okModule(t), wasm.Options{})
	le, ok := errors.AsType[*wasm.LoadError](err)
	if !ok || le.Step != "compile" || !strings.HasSuffix(err.Error(), "exit status 7: no more") {
		t.Errorf("got %v, want a refusal in step compile with the child's last words", err)
	}
}

// TestLoad_childHangs: a caller whose context ends returns at once.
func TestLoad_childHangs(t *testing.T) {
	rt, _, _ := withChild(t, childHangs)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := rt.Load(ctx, okModule(t), wasm.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("waited %v", d)
	}
}

func okModule(t testing.TB) []byte {
	t.Helper()
	code, err := os.ReadFile("../../conformance/guests/ok.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return code
}
