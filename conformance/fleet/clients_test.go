package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestOpenAIClient uses the demo fleet through the official Python client.
func TestOpenAIClient(t *testing.T) {
	python := filepath.Join(harness.Cache(t), "venv-clients", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the official client is not installed: run make deps (%v)", err)
	}
	d := harness.StartDev(t)
	out, err := exec.Command(python, "scripts/openai_client.py", d.URL, d.Tenants["acme"], d.Model).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Fatalf("%v:\n%s", err, out)
	}
}
