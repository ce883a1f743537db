package policies_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/kvasir-router/kvasir/host/policy"
	"github.com/kvasir-router/kvasir/policies"
)

// key is K_epoch of the tests.
var key = bytes.Repeat([]byte{7}, policy.KeyBytes)

// budget bounds one evaluation: the default is too short on a machine that runs other
// tests at the same time.
const budget = 3 * time.Second

// files returns a policy folder overlaid with examples.
func files(t testing.TB, examples ...string) map[string][]byte {
	t.Helper()
	out, err := policies.Files(examples...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// folder writes files to a temporary folder.
func folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read reads files as the router does.
func read(files map[string][]byte) (*policy.Source, error) {
	f := fstest.MapFS{}
	for name, text := range files {
		f[name] = &fstest.MapFile{Data: text}
	}
	return policy.Read(f, nil)
}

// load loads files as the router does.
func load(files map[string][]byte) (*policy.Snapshot, error) {
	src, err := read(files)
	if err != nil {
		return nil, err
	}
	return policy.Load(src, policy.Config{Key: key, AllowPublicScope: true, Budget: budget}, nil)
}

func mustLoad(t testing.TB, files map[string][]byte) *policy.Snapshot {
	t.Helper()
	s, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestExamples overlays the shipped policy with each example, and with all together,
// and runs the tests of both in upstream OPA and in the router's engine.
func TestExamples(t *testing.T) {
	sets := [][]string{policies.Examples()}
	for _, name := range policies.Examples() {
		sets = append(sets, []string{name})
	}
	for _, set := range sets {
		t.Run(strings.Join(set, "+"), func(t *testing.T) {
			all := files(t, set...)
			dir := folder(t, all)
			opa(t, dir, append([]string{"check", "--strict", "kvasir", "site"}, strict...)...)
			covered(t, opa(t, dir, append([]string{"test", "--coverage", "--coverage-runs=", "kvasir", "site", "data"},
				strict...)...))
			if n := mustLoad(t, all).Tests(); n < 90 {
				t.Errorf("the router ran %d tests", n)
			}
			for _, name := range set {
				if !bytes.Contains(all["site/"+name+".md"], []byte("policy init my-policy --example "+name+" ")) {
					t.Errorf("%s: the README does not describe how to install it", name)
				}
			}
		})
	}
}

// covered checks that the policy's tests reach nearly every line of every file. It
// assumes that all of them passed.
func covered(t *testing.T, report []byte) {
	t.Helper()
	var r struct {
		Coverage float64
		Files    map[string]struct {
			Coverage float64
			Missed   []json.RawMessage `json:"not_covered"`
		}
	}
	if err := json.Unmarshal(report, &r); err != nil {
		t.Fatal(err)
	}
	if r.Coverage < 95 {
		t.Errorf("%.1f %% of the lines are reached, want 95", r.Coverage)
	}
	for name, f := range r.Files {
		if !strings.HasSuffix(name, "_test.rego") && len(f.Missed) > 0 && f.Coverage < 95 {
			t.Errorf("%s: %.1f %% of the lines are reached, want 95", name, f.Coverage)
		}
	}
}

// digest identifies the contents of a folder.
func digest(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %d ", name, len(files[name]))
		h.Write(files[name])
	}
	return string(h.Sum(nil))
}
