// Package testdeps finds what tests need beside Go: tokenizers, interpreters and
// compilers that make deps installs. Nothing but tests imports it.
package testdeps

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Cache returns the folder in which make deps keeps what tests compare with:
// KVASIR_CACHE, else .cache/kvasir in the home directory.
func Cache(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("KVASIR_CACHE"); p != "" {
		return p
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, ".cache", "kvasir")
}

// Need returns a path in Cache and fails the test if it does not exist. With
// -short, which is for tests that need Go alone, it skips the test.
func Need(t testing.TB, path ...string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs what make deps installs")
	}
	p := filepath.Join(append([]string{Cache(t)}, path...)...)
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("%v: run make deps", err)
	}
	return p
}

// Sequential skips a test under the race detector: a long test in one goroutine, in
// which the detector can find nothing. The test function itself must call it, as its
// first statement. In make test, .ci/norace.sh runs such tests, and those that run fewer
// rounds under the detector, without it.
func Sequential(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("sequential: .ci/norace.sh runs it without the race detector")
	}
}

// TinyGo returns the TinyGo that plugins/scripts/tinygo.sh makes. Where that did not
// run ok is false, and a log line says so.
func TinyGo(t testing.TB) (path string, ok bool) {
	t.Helper()
	path, err := exec.LookPath(filepath.Join(Cache(t), "tinygo", "bin", "tinygo"))
	if err != nil {
		t.Logf("no TinyGo (plugins/scripts/tinygo.sh makes it): %v", err)
	}
	return path, err == nil
}

// RustWasm reports whether cargo can build for WebAssembly; where it cannot, a log
// line says so.
func RustWasm(t testing.TB) bool {
	t.Helper()
	root, err := exec.Command("rustc", "--print", "sysroot").Output()
	if err == nil {
		_, err = os.Stat(filepath.Join(strings.TrimSpace(string(root)), "lib", "rustlib", "wasm32-unknown-unknown"))
	}
	if err != nil {
		t.Logf("Rust does not build for WebAssembly here (rustup target add wasm32-unknown-unknown): %v", err)
	}
	return err == nil
}
