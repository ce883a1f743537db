package fleet

import (
	"os"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestDevEnds checks that SIGTERM ends the demo fleet and every process that it
// started, with exit code 0, and removes its state directory.
func TestDevEnds(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	if a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants["acme"],
		chatBody(d.Model, "s", "u", false, 3)); err != nil || a.Status != 200 {
		t.Fatalf("%v %+v", err, a)
	}
	if !d.Stop(15 * time.Second) {
		t.Fatal("kvasir dev still runs 15 s after SIGTERM")
	}
	if code := d.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, d.Log)
	}
	if _, err := os.Stat(d.StateDir); !os.IsNotExist(err) {
		t.Errorf("the state directory still exists: %v", err)
	}
	for _, e := range d.Engines {
		if harness.Get(e.URL+"/health", "") != 0 {
			t.Errorf("%s still answers", e.URL)
		}
	}
}

// TestServeEnds checks the same for kvasir serve.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	es := startEngines(t, 1, "--preset", "instant")
	r := serve(t, es, "{name: default, holdout: 0}")
	if !r.Stop(15 * time.Second) {
		t.Fatal("the router still runs 15 s after SIGTERM")
	}
	if code := r.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d, want 0:\n%s", code, r.Log)
	}
}
