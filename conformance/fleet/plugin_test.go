package fleet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// guest returns a module of testdata/plugins. A number makes it a distinct module, by
// an unused custom section.
func guest(t testing.TB, name string, number int) []byte {
	t.Helper()
	code, err := os.ReadFile(filepath.Join("testdata", "plugins", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	if number == 0 {
		return code
	}
	code = append(code, 0, 6, 1, 'n')
	return binary.LittleEndian.AppendUint32(code, uint32(number))
}

// adminDo sends a request to the admin API and returns status and body.
func adminDo(t testing.TB, r *harness.Router, method, path string, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequest(method, r.Admin+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, b
}

// fleetWith serves three engines with the plugin "mine" from a file.
func fleetWith(t testing.TB, code []byte, profile string) (r *harness.Router, engines []*engine, file string) {
	t.Helper()
	engines = startEngines(t, 3)
	file = filepath.Join(t.TempDir(), "mine.wasm")
	save(t, file, code)
	r = serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}", profile,
		fmt.Sprintf("plugins: [{name: mine, file: %q}]\n", file))
	return r, engines, file
}

func save(t testing.TB, file string, code []byte) {
	t.Helper()
	if err := os.WriteFile(file, code, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ask sends one short chat and returns its explanation.
func ask(t testing.TB, r *harness.Router, model, user string) *harness.Explanation {
	t.Helper()
	a, err := harness.Post(r.URL+"/v1/chat/completions", "",
		chatBody(model, strings.Repeat("You are a careful engineer. ", 30), user, false, 4))
	if err != nil || a.Status != 200 {
		t.Fatalf("%v %+v", err, a)
	}
	return harness.Explain(t, r.Admin, r.Token, a.RequestID)
}

// TestPlugin_savingSwaps checks that a scorer that prefers the worst endpoint places
// requests within a second after it is saved, in the same process. A file that is not a
// plugin changes nothing. Saving the previous module restores it.
func TestPlugin_savingSwaps(t *testing.T) {
	t.Parallel()
	r, engines, file := fleetWith(t, guest(t, "first", 0), "{name: default, holdout: 0, scorers: [{plugin: mine}]}")
	model := engines[0].Model
	for i := range 3 {
		e := ask(t, r, model, strconv.Itoa(i))
		c := e.Candidates[0]
		if e.Chosen != c.Endpoint {
			t.Fatalf("first: chosen %s, want %s", e.Chosen, c.Endpoint)
		}
		c = e.Candidates[1]
		if s := c.Scores["mine"]; s.Score != -1 || s.Terms["number"] != -1 ||
			s.Terms["uncached"] != c.Columns["uncached_tokens"] {
			t.Errorf("got %+v, columns %v", s, c.Columns)
		}
		if p := e.Plugins[0]; p.Name != "mine" || len(p.Digest) != 64 || p.Fault != "" {
			t.Errorf("got %+v", p)
		}
	}
	pid := r.Cmd.Process.Pid
	var e *harness.Explanation
	swap := func(name string) time.Duration {
		saved := time.Now()
		save(t, file, guest(t, name, 0))
		harness.Await(t, 10*time.Second, "the saved plugin places", func() bool {
			e = ask(t, r, model, "x")
			return e.Plugins[0].Digest == digest(guest(t, name, 0))
		})
		return time.Since(saved)
	}
	took := swap("worst")
	for range 2 { // other load of the machine passes, a slow swap does not
		if t.Logf("in force after %v", took); took <= 1500*time.Millisecond {
			break
		}
		swap("first")
		took = swap("worst")
	}
	if took > 1500*time.Millisecond {
		t.Errorf("in force after %v, want within a second", took)
	}

	// All requests went to the first endpoint; the others hold no blocks.
	if c := e.Candidates; e.Chosen == c[0].Endpoint || c[0].Columns["matched_tokens"] == 0 ||
		c[1].Columns["matched_tokens"] != 0 {
		t.Errorf("worst: chosen %s of %+v", e.Chosen, c)
	}
	save(t, file, guest(t, "first", 0)[:200])
	harness.Await(t, 5*time.Second, "the broken file is refused in the log",
		func() bool { return strings.Contains(r.Log.String(), "the previous rules stay in force") })
	if e = ask(t, r, model, "y"); e.Plugins[0].Digest != digest(guest(t, "worst", 0)) || e.Plugins[0].Fault != "" {
		t.Errorf("after a broken file: chosen %s, %+v", e.Chosen, e.Plugins)
	}
	save(t, file, guest(t, "first", 0))
	harness.Await(t, 5*time.Second, "the previous plugin places again", func() bool {
		e = ask(t, r, model, "x")
		return e.Chosen == e.Candidates[0].Endpoint && e.Plugins[0].Digest == digest(guest(t, "first", 0))
	})
	if r.Cmd.Process.Pid != pid || harness.Get(r.Admin+"/readyz", "") != 200 {
		t.Error("a different process serves")
	}
	if !r.Stop(20*time.Second) || !strings.Contains(r.Log.String(), "msg=stopped") {
		t.Error("the router did not stop")
	}
}

func digest(code []byte) string {
	sum := sha256.Sum256(code)
	return hex.EncodeToString(sum[:])
}

// TestPlugin_traps checks that a guest that traps fails no request, and that explain,
// the metrics and the log give the reason.
func TestPlugin_traps(t *testing.T) {
	t.Parallel()
	r, engines, _ := fleetWith(t, guest(t, "trap", 0), "{name: default, holdout: 0, scorers: [{plugin: mine}]}")
	e := ask(t, r, engines[0].Model, "0")
	if len(e.Plugins) != 2 || !strings.Contains(e.Plugins[0].Fault, "trap") || e.Plugins[1].Name != "leastwork" ||
		e.Plugins[1].Digest != "builtin" {
		t.Errorf("got %+v", e.Plugins)
	}
	for i := range 20 {
		e = ask(t, r, engines[0].Model, strconv.Itoa(i))
		if e.Plugins[0].Fault == "" || e.Candidates[0].Scores["leastwork"].Terms["own"] == 0 {
			t.Errorf("got %+v %+v", e.Plugins, e.Candidates[0].Scores)
		}
	}
	// A quarantine ends with a trial, whose request reports the trap alone.
	harness.Await(t, 20*time.Second, "explain, the metrics and the list name the quarantine", func() bool {
		e = ask(t, r, engines[0].Model, "again")
		_, metrics := harness.GetBody(r.Admin+"/metrics", r.Token)
		_, list := adminDo(t, r, "GET", "/v1/plugins", nil)
		labels := `{digest="` + e.Plugins[0].Digest + `",plugin="mine"`
		return strings.Contains(e.Plugins[0].Fault, "quarantine") && strings.Contains(e.Plugins[0].Fault, "trap") &&
			strings.Contains(string(metrics), "kvasir_plugin_faults_total"+labels+`,reason="trap"}`) &&
			strings.Contains(string(metrics), "kvasir_plugin_quarantined"+labels+"} 1") &&
			strings.Contains(string(list), `"state":"quarantined"`)
	})
	if !strings.Contains(r.Log.String(), "plugin fault") {
		t.Error("the log lacks the fault")
	}
}

// TestPlugin_filterAndPicker checks that a filter drops candidates with its reason and
// a picker orders the rest. The scores are those of the built-in scorer.
func TestPlugin_filterAndPicker(t *testing.T) {
	t.Parallel()
	r, engines, _ := fleetWith(t, guest(t, "narrow", 0),
		"{name: default, holdout: 0, filters: [mine]}, "+
			"{name: other, scorers: [{plugin: leastwork, weight: 2}], picker: mine}")
	e := ask(t, r, engines[0].Model, "0")
	if c := e.Candidates; e.Chosen != c[1].Endpoint || c[0].State != "filtered" || c[0].Reason != "mine: is even" ||
		c[2].State != "filtered" {
		t.Errorf("chosen %s of %+v", e.Chosen, c)
	}
	b, err := os.ReadFile(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), "filters: [mine]", "scorers: [{plugin: leastwork, weight: 2}], picker: mine", 1)
	save(t, r.Config, []byte(s))
	harness.Await(t, 5*time.Second, "the picker picks", func() bool {
		e = ask(t, r, engines[0].Model, "1")
		return len(e.Plugins) == 2 && e.Plugins[1].Name == "mine" && e.Candidates[0].State == "kept"
	})
	if e.Chosen != e.Candidates[2].Endpoint || e.Plugins[1].Name != "mine" {
		t.Errorf("chosen %s, %+v", e.Chosen, e.Plugins)
	}
	own := e.Candidates[0]
	if sc := own.Scores["leastwork"]; sc.Terms["speed"] != 1 || sc.Score*2 != own.Total {
		t.Errorf("got %+v, total %v", own.Scores, own.Total)
	}
}

// TestPlugin_push checks that the admin API stores versions, activates them, rolls back
// and deactivates.
func TestPlugin_push(t *testing.T) {
	t.Parallel()
	r, engines, _ := fleetWith(t, guest(t, "first", 0), "{name: default, holdout: 0, scorers: [{plugin: mine}]}")
	model := engines[0].Model
	chosen := func(want int, what string) {
		t.Helper()
		if e := ask(t, r, model, what); e.Chosen != e.Candidates[want].Endpoint {
			t.Errorf("%s: chosen %s, want %s", what, e.Chosen, e.Candidates[want].Endpoint)
		}
	}
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", []byte("no module")); s != 422 {
		t.Errorf("got %d %s", s, b)
	}
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine", guest(t, "last", 0)); s != 200 {
		t.Fatalf("got %d %s", s, b)
	}
	chosen(0, "stored only")
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", guest(t, "last", 0)); s != 200 ||
		!strings.Contains(string(b), `"used":true`) {
		t.Fatalf("got %d %s", s, b)
	}
	chosen(2, "activated")
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", guest(t, "narrow", 0)); s != 422 ||
		!strings.Contains(string(b), "no role score") {
		t.Errorf("got %d %s", s, b)
	}
	chosen(2, "refused")
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", guest(t, "first", 1)); s != 200 {
		t.Fatalf("got %d %s", s, b)
	}
	chosen(0, "second version")
	r.Restart(t)
	live(t, r, len(engines))
	chosen(0, "after a restart")
	if s, b := adminDo(t, r, "POST", "/v1/plugins/mine/rollback", nil); s != 200 {
		t.Fatalf("got %d %s", s, b)
	}
	chosen(2, "rolled back")
	if s, b := adminDo(t, r, "DELETE", "/v1/plugins/mine", nil); s != 200 {
		t.Fatalf("got %d %s", s, b)
	}
	chosen(0, "the file again")
	if s, b := adminDo(t, r, "POST", "/v1/plugins/absent/rollback", nil); s != 404 {
		t.Errorf("got %d %s", s, b)
	}
	_, b := adminDo(t, r, "GET", "/v1/plugins", nil)
	var list struct {
		Plugins []struct {
			Name, Source, State, Version string
			Roles                        []string
			Versions                     []struct{ Digest string }
		}
	}
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	if p := list.Plugins; len(p) != 1 || p[0].Source != "file" || p[0].State != "active" || p[0].Version != "1.0.0" ||
		p[0].Roles[0] != "score" || len(p[0].Versions) < 2 {
		t.Errorf("got %s", b)
	}
}

// gauges reads the metrics without labels.
func gauges(t testing.TB, r *harness.Router) map[string]float64 {
	t.Helper()
	_, b := harness.GetBody(r.Admin+"/metrics", r.Token)
	out := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			out[name], _ = strconv.ParseFloat(v, 64)
		}
	}
	return out
}

// TestPlugin_go pushes a plugin built with Go's standard toolchain, whose compilation
// takes seconds, under load, replaces it with one in C, and pushes it again.
func TestPlugin_go(t *testing.T) {
	t.Parallel()
	code := goScorer(t)
	r, engines, _ := fleetWith(t, guest(t, "first", 0), "{name: default, holdout: 0, scorers: [{plugin: mine}]}")
	model := engines[0].Model
	var stop atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex // guards took
	var took []time.Duration
	for c := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, err := harness.Post(r.URL+"/v1/chat/completions", "",
					chatBody(model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), true, 4))
				if err != nil || a.Status != 200 {
					t.Errorf("%v %+v", err, a)
					continue
				}
				mu.Lock()
				took = append(took, a.FirstByte)
				mu.Unlock()
			}
		})
	}
	for i := range 3 {
		begun := time.Now()
		if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", code); s != 200 {
			t.Fatalf("got %d %s", s, b)
		}
		t.Logf("push %d of Go: %v", i, time.Since(begun))
		e := ask(t, r, model, strconv.Itoa(i))
		if p := e.Plugins[0]; p.Fault != "" || p.Digest != digest(code) {
			t.Errorf("got %+v", p)
		}
		if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", guest(t, "last", i+1)); s != 200 {
			t.Fatalf("got %d %s", s, b)
		}
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(took)
	t.Logf("%d requests, first byte: median %v, p99 %v, longest %v", len(took), took[len(took)/2], took[len(took)*99/100],
		took[len(took)-1])
}
