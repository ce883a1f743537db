package fleet

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

// script runs a script with the Python interpreter that has the official clients.
func script(t *testing.T, args ...string) {
	t.Helper()
	python := filepath.Join(testdeps.Cache(t), "venv-clients", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("the official clients are not installed: run make deps (%v)", err)
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "ok" {
		t.Errorf("%s: %v:\n%s", args[0], err, out)
	}
}

// clients lists the scripts. Each uses a different client or API.
var clients = []string{"scripts/openai_client.py", "scripts/responses_client.py", "scripts/anthropic_client.py"}

// TestClients sends requests to the demo fleet with the official Python clients.
func TestClients(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	for _, s := range clients {
		script(t, s, d.URL, d.Tenants["acme"], d.Model)
	}
}

// TestClients_full runs the clients against a fleet that accepts one request at a
// time and is processing one.
func TestClients_full(t *testing.T) {
	t.Parallel()
	es := startEngines(t, 1, "--preset", "instant", "--faults", `{"hang":-1}`)
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools: [{name: main, endpoints: ["`+es[0].URL+`"], capacity: {max_inflight: 1}, events: {mode: "off"}}]
models: [{name: `+es[0].Model+`, pools: [main], tokenizer: {dir: `+demoDir(t)+`}}]
profiles: [{name: default, queue: {deadline: 100ms}}]
`)
	body, err := json.Marshal(chatBody(es[0].Model, "s", "u", true, 5))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- harness.Leave(ctx, r.URL+"/v1/chat/completions", "", body) }()
	harness.Await(t, 10*time.Second, "the engine received the first request",
		func() bool { return len(harness.SimRequests(t, es[0].URL)) == 1 })
	for _, s := range clients[1:] {
		script(t, s, r.URL, "any", es[0].Model, "full")
	}
	cancel()
	if err := <-left; err == nil {
		t.Error("the first request was answered")
	}
}
