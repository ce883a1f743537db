package rules

import (
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/config"
)

// TestProfile_sessionTTL: how long sessions keep their endpoint reaches the scheduler.
func TestProfile_sessionTTL(t *testing.T) {
	c, err := config.Parse("kvasir.yaml", []byte(`listen: 127.0.0.1:8080
identity: {anonymous: {tenant: local}}
pools: [{name: main, endpoints: ["http://10.0.0.1:8000"]}]
models: [{name: m, pools: [main], tokenizer: {dir: .}}]
profiles: [{name: fast, sticky: {ttl: 90s}}, {name: slow}]
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{90 * time.Second, 30 * time.Minute} {
		if got := Profile(&c.Profiles[i], i == 0).SessionTTL; got != want {
			t.Errorf("profile %d: got %v, want %v", i, got, want)
		}
	}
}
