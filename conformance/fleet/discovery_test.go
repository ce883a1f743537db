package fleet

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestDiscovery_file adds and removes endpoints with a file under load. A broken file
// changes nothing, and one endpoint is drained by an operator. No request fails.
func TestDiscovery_file(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 3, "--speed", "20")
	dir := t.TempDir()
	file := filepath.Join(dir, "fleet.json")
	list := func(es ...*engine) {
		t.Helper()
		var urls []string
		for _, e := range es {
			urls = append(urls, e.URL)
		}
		b, err := json.Marshal(urls)
		if err == nil {
			err = os.WriteFile(file+".next", b, 0o600)
		}
		if err == nil {
			err = os.Rename(file+".next", file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	list(engines[0], engines[1])
	model := filepath.Join(dir, "model")
	if out, err := exec.Command(harness.Binary(t), "dev", "--write-model", model).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools: [{name: main, discover: {file: `+file+`, every: 100ms}, events: {mode: "off"}}]
models: [{name: demo, pools: [main], tokenizer: {dir: `+model+`}}]
`)
	ready := func() []string {
		_, b := harness.GetBody(r.Admin+"/v1/endpoints", r.Token)
		var es []struct {
			URL   string
			Ready bool
		}
		if err := json.Unmarshal(b, &es); err != nil {
			t.Fatalf("%v %s", err, b)
		}
		var out []string
		for _, e := range es {
			if e.Ready {
				out = append(out, e.URL)
			}
		}
		slices.Sort(out)
		return out
	}
	await := func(what string, es ...*engine) {
		t.Helper()
		var want []string
		for _, e := range es {
			want = append(want, e.URL)
		}
		slices.Sort(want)
		harness.Await(t, 20*time.Second, what, func() bool { return slices.Equal(ready(), want) })
	}
	await("two endpoints", engines[0], engines[1])
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
			}
			a, err := harness.Post(r.URL+"/v1/chat/completions", "",
				chatBody("demo", "Answer.", strings.Repeat("word ", n%50), n%2 == 0, 8))
			if err != nil || a.Status != 200 {
				t.Errorf("request %d: %v %+v", n, err, a)
			}
			n++
		}
	}()
	list(engines...)
	await("a third endpoint", engines...)
	if err := os.WriteFile(file, []byte(`["http://`), 0o600); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, 10*time.Second, "the broken file in the log", func() bool {
		return strings.Contains(r.Log.String(), "discovery failed")
	})
	await("three endpoints still", engines...)
	list(engines[1], engines[2])
	await("without the first", engines[1], engines[2])

	kvasir := func(args ...string) string {
		t.Helper()
		c := exec.Command(harness.Binary(t), append(args, "--admin", r.Admin, "--token", r.Token)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("kvasir %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	kvasir("endpoint", "drain", engines[1].URL, "--wait", "20s")
	await("without the drained one", engines[2])
	if out := kvasir("endpoint", "list"); !strings.Contains(out, "held drained") ||
		!strings.Contains(out, "drained by an operator") {
		t.Errorf("kvasir endpoint list:\n%s", out)
	}
	kvasir("endpoint", "uncordon", engines[1].URL)
	await("with it again", engines[1], engines[2])
	close(stop)
	t.Logf("%d requests", <-done)
}

// TestDiscovery_admitted checks that the policy decides on the endpoints that a file
// lists. A refused endpoint is omitted, and the log gives the reason.
func TestDiscovery_admitted(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--speed", "20")
	dir := t.TempDir()
	policy, model, file := filepath.Join(dir, "policy"), filepath.Join(dir, "model"), filepath.Join(dir, "fleet.json")
	for _, args := range [][]string{{"policy", "init", policy}, {"dev", "--write-model", model}} {
		if out, err := exec.Command(harness.Binary(t), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(policy, "data", "backends", "backends.json"),
		`{"main": {"plain_http": true, "networks": ["127.0.0.0/8"]}}`)
	write(file, `["`+e.URL+`", "http://10.255.0.1:9"]`)
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
pools: [{name: main, discover: {file: `+file+`, every: 100ms}, events: {mode: "off"}}]
models: [{name: demo, pools: [main], tokenizer: {dir: `+model+`}}]
policy: {dir: `+policy+`, admit_endpoints: true}
`)
	harness.Await(t, 20*time.Second, "the refusal in the log", func() bool {
		return strings.Contains(r.Log.String(), "policy refuses http://10.255.0.1:9: address_not_allowed")
	})
	_, b := harness.GetBody(r.Admin+"/v1/endpoints", r.Token)
	if !strings.Contains(string(b), e.URL) || strings.Contains(string(b), "10.255.0.1") {
		t.Errorf("endpoints %s", b)
	}
}
