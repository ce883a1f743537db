package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// madeUp is an engine that no dialect describes: it has OpenAI's API, health at /ping,
// and metrics in its own format.
type madeUp struct {
	*httptest.Server
	stats  atomic.Value // string: the response of /stats
	served atomic.Int64
}

func newMadeUp(t *testing.T, stats string) *madeUp {
	e := &madeUp{}
	e.stats.Store(stats)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, e.stats.Load()) })
	mux.HandleFunc("GET /v1/models",
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data": [{"id": "zoo"}]}`) })
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		e.served.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w,
			`{"id": "x", "object": "chat.completion", "created": 1, "model": "zoo", "choices": [{"index": 0, `+
				`"finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],`+
				`"usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}}`)
	})
	e.Server = httptest.NewServer(mux)
	t.Cleanup(e.Close)
	return e
}

// unit is the engine's line in the registry.
func (e *madeUp) unit(name, state string) string {
	host, port, _ := strings.Cut(strings.TrimPrefix(e.URL, "http://"), ":")
	return fmt.Sprintf("unit %s @ %s port %s state=%s\n", name, host, port, state)
}

// endpointFigures is the part of GET /v1/endpoints that the test reads.
type endpointFigures struct {
	URL              string
	Ready            bool
	Running, Waiting int
	KVUsage          float64 `json:"kvusage"`
	Why              string  `json:"figures_reason"`
}

func endpointsOf(t *testing.T, r *harness.Router) map[string]endpointFigures {
	t.Helper()
	status, b := harness.GetBody(r.Admin+"/v1/endpoints", r.Token)
	var all []endpointFigures
	if err := json.Unmarshal(b, &all); status != 200 || err != nil {
		t.Fatalf("%d %v %s", status, err, b)
	}
	out := map[string]endpointFigures{}
	for _, e := range all {
		out[e.URL] = e
	}
	return out
}

// TestMadeUp uses a plugin that reads the metrics and the registry of an unknown kind of
// engine. Under load, a plugin that traps replaces it, and then a valid one again. The
// engines keep serving, and no request fails.
func TestMadeUp(t *testing.T) {
	t.Parallel()
	a, b := newMadeUp(t, "q=3;busy=2;mem=41%"), newMadeUp(t, "q=0;busy=1;mem=7%")
	registry := filepath.Join(t.TempDir(), "zoo.txt")
	write := func(text string) {
		t.Helper()
		tmp := registry + ".new"
		if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, registry); err != nil {
			t.Fatal(err)
		}
	}
	write("# the zoo\n" + a.unit("alpha", "up") + b.unit("beta", "down"))
	good, err := os.ReadFile("../../examples/engine-madeup/engine_madeup.wasm")
	if err != nil {
		t.Fatal(err)
	}
	module := filepath.Join(t.TempDir(), "madeup.wasm")
	save(t, module, good)
	r := harness.Serve(t, `
listen: {LISTEN}
admin: {http: "{ADMIN}", token_file: "{TOKEN}"}
state_dir: "{STATE}"
identity: {anonymous: {tenant: local}}
plugins: [{name: madeup, file: "`+module+`"}]
pools:
- name: zoo
  dialect: openai
  parser: {plugin: madeup, metrics_path: /stats, health_path: /ping}
  discover: {file: "`+registry+`", plugin: madeup, allow: [127.0.0.0/8], every: 100ms}
models: [{name: zoo, pools: [zoo]}]
`)
	harness.Await(t, 20*time.Second, "the figures of the engine that is up", func() bool {
		e, ok := endpointsOf(t, r)[a.URL]
		return ok && e.Ready && e.Running == 2 && e.Waiting == 3 && e.KVUsage > 0.40 && e.KVUsage < 0.42
	})
	if all := endpointsOf(t, r); len(all) != 1 {
		t.Errorf("endpoints %v, want only the engine that is up", all)
	}

	stop := make(chan struct{})
	var asked atomic.Int64
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				asked.Add(1)
				res, err := harness.Post(r.URL+"/v1/chat/completions", "", chatBody("zoo", "Answer.", fmt.Sprint(c, i), false, 4))
				if err != nil || res.Status != 200 {
					t.Errorf("a request failed: %v %+v", err, res)
					return
				}
			}
		})
	}
	write(a.unit("alpha", "up") + b.unit("beta", "up"))
	harness.Await(t, 20*time.Second, "the second engine", func() bool {
		e := endpointsOf(t, r)[b.URL]
		return e.Ready &&
			e.Running == 1
	})
	harness.Await(t, 20*time.Second, "requests there", func() bool { return b.served.Load() > 0 })

	push := func(code []byte) {
		t.Helper()
		if s, body := adminDo(t, r, "POST", "/v1/plugins?name=madeup&activate=true", code); s != http.StatusOK {
			t.Fatalf("push: %d %s", s, body)
		}
	}
	for i := range 5 { // swaps under load; the figures change for each version
		push(append(append([]byte{}, good...), 0, 6, 1, 'n', byte(i), 2, 3, 4))
		a.stats.Store(fmt.Sprintf("q=%d;busy=2;mem=41%%", 10+i))
		harness.Await(t, 20*time.Second, "figures by the pushed version",
			func() bool { return endpointsOf(t, r)[a.URL].Waiting == 10+i })
	}
	hostile, err := os.ReadFile("../guests/experimental/hostile.wasm")
	if err != nil {
		t.Fatal(err)
	}
	save(t, module, hostile) // traps; the router checks pushed modules, not files of the configuration
	if s, body := adminDo(t, r, "DELETE", "/v1/plugins/madeup", nil); s != http.StatusOK {
		t.Fatalf("deactivate: %d %s", s, body)
	}
	harness.Await(t, 20*time.Second, "unknown figures", func() bool {
		e := endpointsOf(t, r)[a.URL]
		return e.Ready && e.Waiting == 0 && strings.Contains(e.Why, "trap")
	})
	write(b.unit("beta", "up"))
	harness.Await(t, 20*time.Second, "the faults are counted",
		func() bool { return metric(t, r, "kvasir_endpoint_parse_failures_total", a.URL) > 0 })
	if all := endpointsOf(t, r); len(all) != 2 || !all[a.URL].Ready || !all[b.URL].Ready {
		t.Errorf("a plugin that traps changed the fleet: %v", all)
	}
	out, err := exec.Command(harness.Binary(t), "endpoint", "list", "--admin", r.Admin, "--token",
		r.Token).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "figures unknown: ") {
		t.Errorf("kvasir endpoint list: %v\n%s", err, out)
	}
	push(good)
	harness.Await(t, 20*time.Second, "figures again, and the fleet of the registry", func() bool {
		all := endpointsOf(t, r)
		return len(all) == 1 && all[b.URL].Running == 1 && all[b.URL].Why == ""
	})
	b.stats.Store("garbage") // the plugin rejects text that it does not know
	harness.Await(t, 20*time.Second, "garbage is reported", func() bool {
		e := endpointsOf(t, r)[b.URL]
		return e.Ready &&
			e.Why != "" && e.Running == 0
	})
	write("unit evil @ 169.254.169.254 port 80 state=up\n" + a.unit("alpha", "up") + b.unit("beta", "up"))
	harness.Await(t, 20*time.Second, "the allowed endpoints of the registry",
		func() bool { all := endpointsOf(t, r); return len(all) == 2 && all[a.URL].Ready })
	if !strings.Contains(r.Log.String(), "not in discover.allow: http://169.254.169.254:80") {
		t.Error("the endpoint outside the allow-list is not reported")
	}
	close(stop)
	wg.Wait()
	t.Logf("%d requests", asked.Load())
}
