package fleet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestExamples_driver checks that the driver of examples/autoscale does what an order
// asks for, also when it receives the order twice.
func TestExamples_driver(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "machines.json")
	ask := func(question string) []map[string]string {
		t.Helper()
		c := exec.Command("python3", filepath.Join("..", "..", "examples", "autoscale", "driver.py"))
		c.Env = append(os.Environ(), "DRIVER_STATE="+state, "DRIVER_ENGINE="+harness.Binary(t)+" engine")
		c.Stdin = strings.NewReader(question)
		out, err := c.Output()
		var a struct{ Machines []map[string]string }
		if err != nil || json.Unmarshal(out, &a) != nil {
			t.Fatalf("%s: %v %s", question, err, out)
		}
		return a.Machines
	}
	t.Cleanup(func() { ask(`{"op": "apply", "desired": 0}`) })
	if m := ask(`{"op": "list", "pool": "p"}`); len(m) != 0 {
		t.Fatalf("machines at first: %v", m)
	}
	const two = `{"op": "apply", "key": "a", "pool": "p", "desired": 2, "current": []}`
	m := ask(two)
	if again := ask(two); len(m) != 2 || len(again) != 2 || again[0]["url"] != m[0]["url"] ||
		again[1]["id"] != m[1]["id"] {
		t.Fatalf("called twice: %v, then %v", m, again)
	}
	harness.Await(t, 20*time.Second, "an engine", func() bool { return harness.Get(m[1]["url"]+"/health", "") == 200 })
	left := ask(`{"op": "apply", "pool": "p", "desired": 1, "remove": ["` + m[0]["id"] + `"], "current": []}`)
	if len(left) != 1 || left[0]["id"] != m[1]["id"] {
		t.Errorf("after removing %s: %v", m[0]["id"], left)
	}
}

// TestExamples_configs checks that every configuration of the examples is valid.
func TestExamples_configs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*", "kvasir.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if out, err := exec.Command(harness.Binary(t), "config", "check", f).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", f, err, out)
		}
	}
}
