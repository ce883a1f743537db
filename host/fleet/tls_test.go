package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
)

func TestEngineTLS_faults(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]config.EngineTLS{
		"no certificate in " + empty: {CAFile: empty},
		"no such file":               {CAFile: empty + "x"},
		"failed to find":             {CertFile: empty, KeyFile: empty},
	} {
		if _, err := EngineTLS(&config.Pool{Name: "p", TLS: c}); err == nil || !strings.Contains(err.Error(), `pool "p"`) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", c, err, want)
		}
	}
	a, err := EngineTLS(&config.Pool{Name: "p"})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := EngineTLS(&config.Pool{Name: "p", TLS: config.EngineTLS{ServerName: "x"}})
	if a.digest == b.digest || b.Config.ServerName != "x" {
		t.Errorf("the server name is not part of the digest, or not set: %+v", b)
	}
}
