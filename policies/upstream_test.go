package policies_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/testdeps"
)

// opaVersion is the upstream release that scripts/deps.sh builds.
const opaVersion = "v1.22.4"

// opaPath returns the path of upstream's opa command. The test fails if the command
// does not exist.
func opaPath(t testing.TB) string {
	t.Helper()
	return testdeps.Need(t, "opa", opaVersion, "opa")
}

// opa runs upstream's command in the folder dir and returns its output. The test
// fails if the command does.
func opa(t testing.TB, dir string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(opaPath(t), args...)
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("opa %v: %v\n%s%s", args, err, out, errs.Bytes())
	}
	return out
}

// strict are the flags of every check: a misspelt field and a function that a
// decision must not use are errors.
var strict = []string{"--schema", "schemas", "--capabilities", "capabilities.json"}

func TestUpstreamChecks(t *testing.T) {
	opa(t, ".", append([]string{"check", "--strict", "kvasir", "site"}, strict...)...)
}

func TestUpstreamFormat(t *testing.T) {
	if out := opa(t, ".", "fmt", "--list", "kvasir", "site", "examples"); len(out) > 0 {
		t.Errorf("not as opa fmt writes it:\n%s", out)
	}
}

// TestUpstreamTests runs the policy's own tests in upstream OPA and checks that they
// reach nearly every line.
func TestUpstreamTests(t *testing.T) {
	opa(t, ".", append([]string{"test", "kvasir", "site", "data"}, strict...)...)
	covered(t, opa(t, ".", append([]string{"test", "--coverage", "--coverage-runs=", "kvasir", "site", "data"},
		strict...)...))
}

// ask evaluates one rule for many inputs in one process of upstream OPA: each of asked
// holds input, and its other members replace members of data. The folder dir contains
// kvasir, site and data. nil in the result is undefined.
func ask(t testing.TB, dir, rule string, asked []object) []json.RawMessage {
	t.Helper()
	wrapper := "package wrapper\n\nout := [{\"n\": n, \"v\": v} | some n, q in input; v := " + rule +
		" with input as q.input"
	for key := range asked[0] {
		if key != "input" {
			wrapper += " with data." + key + " as q." + key
		}
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	write("wrapper.rego", []byte(wrapper+"]\n"))
	write("asked.json", text)
	raw := opa(t, dir, "eval", "--format", "raw", "--strict-builtin-errors", "--input", "asked.json",
		"--data", "kvasir", "--data", "site", "--data", "data", "--data", "wrapper.rego", "data.wrapper.out")
	var answers []struct {
		N int
		V json.RawMessage
	}
	if err := json.Unmarshal(raw, &answers); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	out := make([]json.RawMessage, len(asked))
	for _, a := range answers {
		out[a.N] = a.V
	}
	return out
}

// TestCapabilities: the functions that a rule may call are those of upstream, as
// upstream declares them, except functions that would make a decision depend on more
// than its input.
func TestCapabilities(t *testing.T) {
	type capabilities struct {
		Builtins []struct {
			Name             string
			Decl             any
			Nondeterministic bool
		}
		AllowNet []string `json:"allow_net"`
	}
	read := func(text []byte) (c capabilities) {
		t.Helper()
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ours, theirs := read(files(t)["capabilities.json"]), read(opa(t, ".", "capabilities", "--current"))
	if ours.AllowNet == nil || len(ours.AllowNet) > 0 {
		t.Errorf("allow_net %v: an absent list is every host", ours.AllowNet)
	}
	known := map[string]int{}
	for i, b := range theirs.Builtins {
		known[b.Name] = i
	}
	for _, b := range ours.Builtins {
		i, ok := known[b.Name]
		if !ok || !reflect.DeepEqual(b.Decl, theirs.Builtins[i].Decl) {
			t.Errorf("%s is not upstream's: run scripts/capabilities.py", b.Name)
		}
		if theirs.Builtins[i].Nondeterministic || slices.ContainsFunc(
			[]string{"http.", "net.lookup", "time.", "rand.", "uuid.", "opa.", "io.jwt.", "json.match_schema",
				"json.verify_schema", "walk"},
			func(p string) bool { return strings.HasPrefix(b.Name, p) }) {
			t.Errorf("%s may be called", b.Name)
		}
	}
	if len(ours.Builtins) < 100 {
		t.Errorf("%d functions", len(ours.Builtins))
	}
}
