package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/admin"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
	"github.com/kvasir-router/kvasir/host/exchange"
	"github.com/kvasir-router/kvasir/host/identity"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/plugstore"
	"github.com/kvasir-router/kvasir/host/rules"
	"github.com/kvasir-router/kvasir/host/scheduler"
	"github.com/kvasir-router/kvasir/plugins"
)

// startHost creates a router with the state directory state and three ready endpoints,
// and does not run it. rest is the rest of its configuration.
func startHost(t testing.TB, state, rest string) (*Host, *strings.Builder) {
	t.Helper()
	src := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {http: \"127.0.0.1:0\"}\nidentity: {anonymous: {tenant: local}}\n"+
		"state_dir: %s\n"+
		"pools: [{name: main, endpoints: [\"http://10.0.0.1:8000\", \"http://10.0.0.2:8000\", "+
		"\"http://10.0.0.3:8000\"]}]\nmodels: [{name: m, pools: [main]}]\n%s", state, rest)
	file := filepath.Join(t.TempDir(), "kvasir.yaml")
	save(t, file, src)
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	log := new(strings.Builder)
	h, err := New(cfg, Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.closeListeners()
		if err := h.closeRules(); err != nil {
			t.Error(err)
		}
	})
	for i := range h.store.Load().N {
		h.store.Update(endpoint.ID(i), func(s *endpoint.State) { s.Ready, s.Trust = true, 1 })
	}
	return h, log
}

// placeOne places a request and returns its explanation.
func placeOne(t testing.TB, h *Host, id string) *scheduler.Explanation {
	t.Helper()
	var api llmapi.Request
	if err := api.Scan(llmapi.OpChat, []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`)); err != nil {
		t.Fatal(err)
	}
	l := h.rules.Acquire()
	defer l.Release()
	p, err := l.Value().Scheduler.Schedule(&scheduler.Request{API: &api,
		Principal: &identity.Principal{Tenant: "local"}, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	p.Done(exchange.Outcome{Status: 200, End: exchange.EndComplete})
	e, ok := l.Value().Scheduler.Explain("local", id)
	if !ok {
		t.Fatal("not explained")
	}
	return e
}

func shippedDigest(t testing.TB, name string) string {
	t.Helper()
	code, err := plugins.Code(name)
	if err != nil {
		t.Fatal(err)
	}
	return digestOf(code)
}

// digestOf returns the SHA-256 of a module in hex.
func digestOf(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:])
}

// activeDigest returns the digest of the active stored version of a plugin.
func activeDigest(t testing.TB, h *Host, name string) string {
	t.Helper()
	store, err := plugstore.Open(filepath.Join(h.cfg.StateDir, "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	digest, _, _ := store.Active(name)
	return digest
}

// aside describes the modules that the rules in force have set aside.
func aside(h *Host) []string {
	l := h.rules.Acquire()
	defer l.Release()
	return l.Value().Plugins.Aside()
}

// listed returns the rows of the plugin list as JSON lines.
func listed(t testing.TB, h *Host) string {
	t.Helper()
	v, err := h.plugins.Plugins(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// metricsText returns the metrics of plugins and scheduler.
func metricsText(t testing.TB, h *Host) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.registry.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var out strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "kvasir_plugin_") || strings.HasPrefix(line, "kvasir_scheduler_") {
			out.WriteString(line)
		}
	}
	return out.String()
}

// demands fails the test unless got contains every word.
func demands(t testing.TB, what, got string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(got, w) {
			t.Errorf("%s lacks %q:\n%s", what, w, got)
		}
	}
}

// TestStart_defaultPlugin checks that the shipped plugin scores for a profile that names
// no scorers and reports its terms, and that {builtin: leastwork} uses only the native
// code.
func TestStart_defaultPlugin(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "profiles: [{name: d, holdout: 0}]\n")
	e := placeOne(t, h, "a")
	if len(e.Plugins) != 1 ||
		e.Plugins[0] != (scheduler.PluginUse{Name: "leastwork", Digest: shippedDigest(t, "leastwork")}) {
		t.Errorf("got %+v", e.Plugins)
	}
	if s := e.Candidates[0].Scores["leastwork"]; s.Terms["own"] == 0 || s.Score != e.Candidates[0].Total {
		t.Errorf("got %+v, total %v", s, e.Candidates[0].Total)
	}
	if n := h.state.Stats().Faults; n != 0 {
		t.Errorf("%d faults", n)
	}
	b, _ := startHost(t, t.TempDir(), "profiles: [{name: d, holdout: 0, scorers: [{builtin: leastwork}]}]\n")
	if e := placeOne(t, b, "a"); len(e.Plugins) != 1 || e.Plugins[0].Digest != "builtin" ||
		strings.Contains(listed(t, b), `"source"`) {
		t.Errorf("got %+v, loaded %s", e.Plugins, listed(t, b))
	}
}

// TestStart_quarantined checks that the native cost scores where the result of the
// default plugin is ignored, and that this is counted and explained.
func TestStart_quarantined(t *testing.T) {
	state := t.TempDir()
	code, err := os.ReadFile("../conformance/fleet/testdata/plugins/trap.wasm")
	if err != nil {
		t.Fatal(err)
	}
	store, err := plugstore.Open(filepath.Join(state, "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	activate(t, store, "leastwork", code)
	h, _ := startHost(t, state, "profiles: [{name: d, holdout: 0}]\n")
	e := placeOne(t, h, "a")
	if len(e.Plugins) != 2 || e.Plugins[0].Fault == "" ||
		e.Plugins[1] != (scheduler.PluginUse{Name: "leastwork", Digest: "builtin"}) {
		t.Errorf("got %+v", e.Plugins)
	}
	if e.Candidates[0].Scores["leastwork"].Terms["own"] == 0 {
		t.Errorf("got %+v", e.Candidates[0].Scores)
	}
	demands(t, "metrics", metricsText(t, h), "kvasir_scheduler_builtin_total 1\n",
		`kvasir_plugin_faults_total{digest="`+e.Plugins[0].Digest+`",plugin="leastwork",reason="trap"} 1`)
}

func activate(t testing.TB, s *plugstore.Store, name string, code []byte) {
	t.Helper()
	digest, err := s.Put(name, code, "")
	if err == nil {
		err = s.Activate(name, digest)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestStart_aside checks that a stored version that does not load does not prevent a
// start. The previously active version, the file or the shipped plugin is used instead,
// and the log, the metrics, the list and explain report this. Later revisions keep the
// replacement until a version that loads is pushed.
func TestStart_aside(t *testing.T) {
	good, err := os.ReadFile("../conformance/fleet/testdata/plugins/first.wasm")
	if err != nil {
		t.Fatal(err)
	}
	filter, err := os.ReadFile("../conformance/fleet/testdata/plugins/narrow.wasm")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		plugin string
		stored [][]byte // activated one after the other
		source string   // source of the replacement, "" for the built-in
		why    string
	}{
		"previous":  {"mine", [][]byte{good, good[:100]}, "previous", "module"},
		"shipped":   {"leastwork", [][]byte{[]byte("no module")}, "shipped", "module"},
		"builtin":   {"mine", [][]byte{[]byte("no module"), good[:50]}, "", "module"},
		"no role":   {"mine", [][]byte{good, filter}, "previous", "no role score"},
		"no module": {"mine", [][]byte{[]byte("no module")}, "", "module"},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			store, err := plugstore.Open(filepath.Join(state, "plugins"))
			if err != nil {
				t.Fatal(err)
			}
			for _, code := range tc.stored {
				activate(t, store, tc.plugin, code)
			}
			h, log := startHost(t, state, "plugins: [{name: "+tc.plugin+
				"}]\nprofiles: [{name: d, holdout: 0, scorers: [{plugin: "+tc.plugin+"}]}]\n")
			digest := digestOf(tc.stored[len(tc.stored)-1])
			e := placeOne(t, h, "a")
			if u := e.Plugins[0]; tc.source != "" {
				if u.Fault != "" || len(u.Digest) != 64 || u.Digest == digest {
					t.Errorf("got %+v", u)
				}
				demands(t, "note", u.Note, "using the "+tc.source+" module", tc.why)
			} else if len(e.Plugins) != 2 || u.Digest != "none" || e.Plugins[1].Digest != "builtin" {
				t.Errorf("got %+v", e.Plugins)
			} else {
				demands(t, "fault", u.Fault, tc.why)
			}
			demands(t, "list", listed(t, h), `"state": "aside"`, digest, tc.why)
			demands(t, "metrics", metricsText(t, h), `kvasir_plugin_aside{digest="`+digest+`",plugin="`+tc.plugin+
				`",source="stored"} 1`)
			demands(t, "log", log.String(), "level=ERROR", "failed to load")
			if _, err := h.Reload(); err != nil {
				t.Errorf("a reload is refused: %v", err)
			}
			if len(aside(h)) == 0 {
				t.Error("a reload drops the modules that are set aside")
			}
			pushValid(t, h, tc.plugin, digest)
		})
	}
}

// pushValid pushes a version that loads and checks that no module is set aside, and that
// a rollback to the version that was set aside is refused.
func pushValid(t *testing.T, h *Host, name, digest string) {
	t.Helper()
	code, err := plugins.Code("leastwork")
	if err != nil {
		t.Fatal(err)
	}
	code = append(code, 0, 3, 1, 'n', 'n')
	if _, err := h.plugins.Push(context.Background(), name, code, true, ""); err != nil {
		t.Fatal(err)
	}
	if u := placeOne(t, h, "b").Plugins[0]; u.Note != "" || u.Fault != "" || u.Digest != digestOf(code) {
		t.Errorf("after a push: %+v", u)
	}
	if lines := aside(h); len(lines) != 0 {
		t.Errorf("after a push %v are set aside", lines)
	}
	if _, err := h.plugins.Rollback(context.Background(), name); !errors.Is(err, admin.ErrRefused) {
		t.Errorf("a rollback to %.8s: got %v", digest, err)
	}
	if got := activeDigest(t, h, name); got != digestOf(code) {
		t.Errorf("%.8s is active after a refused rollback", got)
	}
}

// TestStart_unlike checks that scorers whose scores cannot be added do not prevent a
// start either. A reload that would add such scorers is refused, and one that normalizes
// the scores is accepted.
func TestStart_unlike(t *testing.T) {
	code, err := plugins.Code("leastwork")
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	store, err := plugstore.Open(filepath.Join(state, "plugins"))
	if err != nil {
		t.Fatal(err)
	}
	activate(t, store, "mine", code)
	const profile = "profiles: [{name: d, holdout: 0, scorers: [{builtin: roundrobin}, {plugin: mine, required: true}]}]\n"
	h, _ := startHost(t, state, "plugins: [{name: mine}]\n"+profile)
	e := placeOne(t, h, "a")
	demands(t, "fault", e.Plugins[1].Fault, "unit cost_tokens, those of roundrobin unit unit", "normalize: minmax or rank")
	if len(e.Plugins) != 3 || e.Plugins[2].Digest != "builtin" {
		t.Errorf("got %+v: the built-in must replace a required scorer", e.Plugins)
	}
	change := func(from, to string) error {
		s, err := os.ReadFile(h.cfg.File)
		if err != nil {
			t.Fatal(err)
		}
		save(t, h.cfg.File, strings.Replace(string(s), from, to, 1))
		_, err = h.Reload()
		return err
	}
	if err := change("{name: d,", "{name: d, normalize: rank,"); err != nil {
		t.Fatal(err)
	}
	if e := placeOne(t, h, "b"); len(e.Plugins) != 2 || e.Plugins[1].Fault != "" ||
		e.Candidates[0].Scores["mine"].Counted == nil {
		t.Errorf("got %+v", e)
	}
	if err := change("normalize: rank", "normalize: \"off\""); err == nil ||
		!strings.Contains(err.Error(), "cannot be added") {
		t.Errorf("got %v", err)
	}
}

// TestStart_fileMissing checks that a missing plugin file does not prevent a start, and
// that a reload uses the file once it exists. A file that is deleted while the router
// runs changes nothing.
func TestStart_fileMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.wasm")
	h, log := startHost(t, t.TempDir(),
		fmt.Sprintf("plugins: [{name: mine, file: %q}]\nprofiles: [{name: d, holdout: 0, filters: [mine], picker: mine, "+
			"scorers: [{plugin: mine, weight: 2}, {plugin: roundrobin}]}]\n", file))
	e := placeOne(t, h, "a")
	if len(e.Plugins) != 4 {
		t.Fatalf("got %+v", e.Plugins)
	}
	for i, works := range []bool{false, true, false, false} { // scorers, filter, picker
		if u := e.Plugins[i]; (u.Fault == "") != works || !works && !strings.Contains(u.Fault, "mine.wasm") {
			t.Errorf("got %+v", u)
		}
	}
	demands(t, "log", log.String(), "plugin file not found", "kvasir.yaml:7: plugins[0].file")
	demands(t, "list", listed(t, h), `"state": "aside"`, `"source": "file"`)
	demands(t, "metrics", metricsText(t, h), `kvasir_plugin_aside{digest="",plugin="mine",source="file"} 1`)

	code, err := os.ReadFile("../conformance/fleet/testdata/plugins/last.wasm")
	if err != nil {
		t.Fatal(err)
	}
	save(t, file, string(code))
	if _, err := h.Reload(); err == nil || !strings.Contains(err.Error(), "no role") {
		t.Errorf("got %v for a module without the roles that the profile names", err)
	}
	s, err := os.ReadFile(h.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	save(t, h.cfg.File, strings.Replace(string(s), "filters: [mine], picker: mine, ", "", 1))
	if _, err := h.Reload(); err != nil {
		t.Fatal(err)
	}
	if u := placeOne(t, h, "b").Plugins[0]; u.Fault != "" || u.Digest != digestOf(code) {
		t.Errorf("got %+v", u)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Reload(); err == nil || !strings.Contains(err.Error(), "mine.wasm") {
		t.Errorf("got %v for a deleted file", err)
	}
	if u := placeOne(t, h, "c").Plugins[0]; u.Fault != "" {
		t.Errorf("got %+v", u)
	}
}

// TestReload_changes checks that the admin API reports what a reload changed: keys of the
// configuration, and modules of plugins.
func TestReload_changes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.wasm")
	module := func(name string) string {
		t.Helper()
		code, err := os.ReadFile("../conformance/fleet/testdata/plugins/" + name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		save(t, file, string(code))
		return digestOf(code)[:12]
	}
	first := module("first")
	h, _ := startHost(t, t.TempDir(),
		fmt.Sprintf("plugins: [{name: mine, file: %q}]\nprofiles: [{name: d, holdout: 0, scorers: [{plugin: mine}]}]\n",
			file))
	reload := func() string {
		t.Helper()
		v, err := rules.Reloader{Manager: h.rules}.Reload(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	demands(t, "answer", reload(), `"changed":[]`, `"revision":2`)
	last := module("last")
	demands(t, "answer", reload(), `"changed":["plugin mine: `+first+` → `+last+`"]`)
	s, err := os.ReadFile(h.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	save(t, h.cfg.File, strings.Replace(string(s), "holdout: 0, scorers: [{plugin: mine}]", "holdout: 0.5", 1))
	demands(t, "answer", reload(), "profiles[d].holdout: 0 → 0.5", "profiles[d].scorers[mine]: removed",
		"profiles[d].scorers[leastwork]: added",
		"plugin leastwork: "+shippedDigest(t, "leastwork")[:12]+" in force", "plugin mine: "+last+" no longer used")
	save(t, h.cfg.File, string(s)+"nonsense: 1\n")
	if _, err := (rules.Reloader{Manager: h.rules}).Reload(t.Context()); !errors.Is(err, admin.ErrRefused) ||
		!strings.Contains(err.Error(), "nonsense: unknown key") {
		t.Errorf("got %v", err)
	}
}

// TestStages checks that one metric reports the time of every stage of completed
// requests, whichever package measures it.
func TestStages(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	for i := range 3 {
		placeOne(t, h, fmt.Sprint(i))
	}
	w := httptest.NewRecorder()
	h.registry.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	demands(t, "metrics", text[strings.Index(text, "# HELP kvasir_stage_seconds"):],
		`kvasir_stage_seconds_count{stage="policy"} 3`, `kvasir_stage_seconds_count{stage="place"} 3`,
		`kvasir_stage_seconds_count{stage="prompt"} 0`, `kvasir_stage_seconds_count{stage="lookup"} 0`,
		`kvasir_stage_seconds_bucket{stage="place",le="1.048576"} 3`,
		`kvasir_stage_seconds_bucket{stage="place",le="+Inf"} 3`, `stage="read"`, `stage="scan"`, `stage="schedule"`,
		`stage="connect"`, `stage="response_head"`)
	if strings.Contains(text, `kvasir_stage_seconds_sum{stage="place"} 0`+"\n") {
		t.Error("placing took no time")
	}
	if n := strings.Count(text, "kvasir_stage_seconds_count"); n != 9 {
		t.Errorf("%d stages, want 9", n)
	}
}

// TestStart_time checks that the default plugin, compiled once per state directory,
// hardly delays a start.
func TestStart_time(t *testing.T) {
	state := t.TempDir()
	start := func(rest string) time.Duration {
		t0 := time.Now()
		h, _ := startHost(t, state, rest)
		d := time.Since(t0)
		h.closeListeners()
		h.unlockState()
		return d
	}
	first := start("")
	native, plugin := time.Hour, time.Hour
	for range 5 {
		native = min(native, start("profiles: [{name: d, scorers: [{builtin: leastwork}]}]\n"))
		plugin = min(plugin, start(""))
	}
	t.Logf("first start %v, further ones %v, without the plugin %v", first, plugin, native)
	if plugin > native+200*time.Millisecond {
		t.Errorf("a start takes %v with the default plugin, %v without", plugin, native)
	}
}

// TestStart_lockedState checks that a second router does not start with the state
// directory of a running router and names that router's process, and that it starts
// once that process has stopped.
func TestStart_lockedState(t *testing.T) {
	state := t.TempDir()
	h, _ := startHost(t, state, "")
	cfg, err := config.Load(h.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg, Options{}); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) || !strings.Contains(err.Error(), state) {
		t.Errorf("got %v", err)
	}
	h.unlockState()
	startHost(t, state, "")
}

// TestStart_policyMetrics checks that the metrics of a policy are served.
func TestStart_policyMetrics(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "policy")
	writeNumbered(t, dir, 0)
	h, _ := startHost(t, t.TempDir(), fmt.Sprintf("policy: {dir: %q}\n", dir))
	w := httptest.NewRecorder()
	h.registry.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	demands(t, "metrics", w.Body.String(), "kvasir_policy_loads_total 1\n", "kvasir_policy_load_failures_total 0\n",
		"kvasir_policy_loaded{revision=")
}
