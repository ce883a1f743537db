package host

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/endpoint"
)

// urls lists the endpoints of the store.
func urls(h *Host) string {
	snap := h.store.Load()
	var out []string
	for id := range snap.N {
		if info := snap.Info(endpoint.ID(id)); info != nil {
			out = append(out, info.URL)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestReload_refusedDriver checks that refused rules with an unusable driver do not
// change the endpoints.
func TestReload_refusedDriver(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	before, dir := urls(h), t.TempDir()
	save(t, dir+"/secret", "short")
	b, err := os.ReadFile(h.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	src := strings.Replace(string(b), `["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000"]`,
		`["http://10.0.0.9:8000"], autoscale: {max: 2, `+
			`driver: {webhook: {url: "http://127.0.0.1:1", secret_file: `+dir+`/secret}}}`, 1)
	save(t, h.cfg.File, src)
	if _, err := h.Reload(); err == nil || !strings.Contains(err.Error(), "at least 16 characters") {
		t.Fatalf("got %v", err)
	}
	if got := urls(h); got != before {
		t.Errorf("endpoints %s, want those of the rules in force: %s", got, before)
	}
}
