package fleet

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// blockTokens is the block size of the simulated engines.
const blockTokens = 16

// engine is a simulated engine in its own process. The fields are those of the line
// that kvasir engine --json prints.
type engine struct {
	*harness.Process
	URL    string `json:"url"`
	Events string `json:"events"`
	Replay string `json:"replay"`
	Model  string `json:"model"`
}

// startEngine starts one kvasir engine with additional flags.
func startEngine(t testing.TB, args ...string) *engine {
	t.Helper()
	cmd := exec.Command(harness.Binary(t), append([]string{"engine", "--json", "--port", "0"}, args...)...)
	pr, pw := io.Pipe()
	cmd.Stdout = pw
	e := &engine{Process: harness.Start(t, cmd)}
	r := bufio.NewReader(pr)
	line := make(chan []byte, 1)
	go func() {
		b, _ := r.ReadBytes('\n')
		line <- b
		io.Copy(io.Discard, r)
	}()
	select {
	case b := <-line:
		if err := json.Unmarshal(b, e); err != nil {
			t.Fatalf("kvasir engine: %v: %q", err, b)
		}
	case <-e.Ended():
		t.Fatalf("kvasir engine exited:\n%s", e.Log)
	case <-time.After(30 * time.Second):
		t.Fatalf("kvasir engine printed nothing:\n%s", e.Log)
	}
	return e
}

func startEngines(t testing.TB, n int, args ...string) []*engine {
	t.Helper()
	var out []*engine
	for range n {
		out = append(out, startEngine(t, args...))
	}
	return out
}

// serve starts a router in front of engines and waits until their events arrive.
func serve(t testing.TB, engines []*engine, profile string) *harness.Router {
	t.Helper()
	return serveAs(t, engines, "{STATE}", "{anonymous: {tenant: local}}", profile)
}

func serveAs(t testing.TB, engines []*engine, state, identity, profile string) *harness.Router {
	t.Helper()
	return serveWith(t, engines, state, identity, profile, "")
}

// serveWith is serveAs with additional keys in the configuration.
func serveWith(t testing.TB, engines []*engine, state, identity, profile, more string) *harness.Router {
	t.Helper()
	var urls, sources []string
	for _, e := range engines {
		urls = append(urls, strconv.Quote(e.URL))
		sources = append(sources, fmt.Sprintf("{endpoint: %q, events: %q, replay: %q}", e.URL, e.Events, e.Replay))
	}
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "`+state+`"
identity: `+identity+`
pools: [{name: main, endpoints: [`+strings.Join(urls, ", ")+`], events: {sources: [`+strings.Join(sources, ", ")+`]}}]
models: [{name: `+engines[0].Model+`, pools: [main], tokenizer: {dir: `+demoDir(t)+`}}]
profiles: [`+profile+`]
`+more)
	live(t, r, len(engines))
	return r
}

// demoDir writes the demo model's tokenizer files to a folder.
func demoDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "demo")
	if b, err := exec.Command(harness.Binary(t), "dev", "--write-model", dir).CombinedOutput(); err != nil {
		t.Fatalf("kvasir dev --write-model: %v: %s", err, b)
	}
	return dir
}

func live(t testing.TB, r *harness.Router, n int) {
	t.Helper()
	r.EventsLive(t, n, 30*time.Second)
}
