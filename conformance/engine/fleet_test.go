//go:build engine

package engine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

// vllm is a running vLLM.
type vllm struct {
	*harness.Process
	URL string
}

func scripts(t testing.TB) string {
	t.Helper()
	p, err := filepath.Abs("scripts")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func engineDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(testdeps.Cache(t), "engine")
	if _, err := os.Stat(filepath.Join(dir, "tiny.gguf")); err != nil {
		t.Fatalf("the engines are not installed: run make deps-engine (%v)", err)
	}
	return dir
}

// startVLLM starts n engines side by side, with further flags, and waits until
// all serve.
func startVLLM(t testing.TB, n int, flags ...string) []*vllm {
	t.Helper()
	dir := engineDir(t)
	var out []*vllm
	for range n {
		http, events := harness.FreePort(t), harness.FreePort(t)
		args := []string{filepath.Join(scripts(t), "vllm-run.sh"), filepath.Join(dir, "vllm"), filepath.Join(dir,
			"tiny-qwen3"), strconv.Itoa(http), strconv.Itoa(events),
			"--enable-auto-tool-choice", "--tool-call-parser", "hermes", "--enable-scale-out"}
		cmd := exec.Command("bash", append(args, flags...)...)
		cmd.Env = append(os.Environ(), "VLLM_ENABLE_RESPONSES_API_STORE=1")
		out = append(out, &vllm{harness.Start(t, cmd), fmt.Sprintf("http://127.0.0.1:%d", http)})
	}
	for _, e := range out {
		harness.Await(t, 4*time.Minute, "vLLM serves", func() bool {
			select {
			case <-e.Ended():
				t.Fatalf("vLLM ended:\n%s", e.Log)
			default:
			}
			return harness.Get(e.URL+"/health", "") == 200
		})
	}
	return out
}

// metric sums a metric of an engine over the series that contain label.
func metric(t testing.TB, url, name, label string) float64 {
	t.Helper()
	status, b := harness.GetBody(url+"/metrics", "")
	if status != 200 {
		t.Fatalf("%s/metrics: status %d", url, status)
	}
	sum := 0.0
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, name) || !strings.Contains(line, label) {
			continue
		}
		f := strings.Fields(line)
		v, err := strconv.ParseFloat(f[len(f)-1], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += v
	}
	return sum
}

// fleet is two vLLM engines behind a router with two tenants.
type fleet struct {
	engines      []*vllm
	router       *harness.Router
	acme, globex string // keys
	keys, state  string // paths
}

func startFleet(t testing.TB) *fleet {
	t.Helper()
	f := &fleet{engines: startVLLM(t, 2), keys: filepath.Join(t.TempDir(), "keys.json"), state: t.TempDir()}
	f.acme, f.globex = harness.IssueKey(t, f.keys, f.state, "acme"), harness.IssueKey(t, f.keys, f.state, "globex")
	f.router = f.serve(t, f.engines)
	return f
}

// serve starts a router before engines and waits until their events arrive.
func (f *fleet) serve(t testing.TB, engines []*vllm) *harness.Router {
	t.Helper()
	var urls []string
	for _, e := range engines {
		urls = append(urls, strconv.Quote(e.URL))
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: `+f.state+`
identity: {api_keys_file: `+f.keys+`}
pools: [{name: main, endpoints: [`+strings.Join(urls, ", ")+`]}]
models: [{name: tiny, pools: [main], tokenizer: {dir: `+filepath.Join(engineDir(t), "tiny-qwen3")+`}}]
profiles: [{name: default, holdout: 0}]
`)
	r.EventsLive(t, len(engines), 60*time.Second)
	return r
}

// live waits until the events of every engine arrive.
func (f *fleet) live(t testing.TB) {
	t.Helper()
	f.router.EventsLive(t, len(f.engines), 60*time.Second)
}

// leave posts a streaming request and closes the connection after the first
// bytes of the answer.
func leave(t testing.TB, url, key string, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := harness.Leave(ctx, url, key, body); err != nil {
		t.Fatal(err)
	}
}
