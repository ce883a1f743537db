package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
)

// TestPlacement: a profile outside a router has its scorers, as plugins, and no control
// arm; nothing is left behind.
func TestPlacement(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kvasir.yaml")
	text := `
listen: 127.0.0.1:0
state_dir: ` + filepath.Join(dir, "state") + `
identity: {anonymous: {tenant: local}}
pools: [{name: main, endpoints: ["http://127.0.0.1:1"]}]
models: [{name: m, pools: [main]}]
profiles:
- {name: default, holdout: 0.5}
- {name: spread, scorers: [{plugin: roundrobin}]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenPlacement(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, scorer := range map[string]string{"": "leastwork", "spread": "roundrobin"} {
		got, err := p.Profile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Scorers) != 1 || got.Scorers[0].Scorer.Name() != scorer || got.Holdout != 0 || got.Decided != nil {
			t.Errorf("profile %q: %+v", name, got)
		}
	}
	if _, err := p.Profile("x"); err == nil || !strings.Contains(err.Error(), `no profile "x"`) {
		t.Errorf("error %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("the copy of the state directory is left: %v", err)
	}
}
