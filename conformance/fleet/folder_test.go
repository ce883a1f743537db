package fleet

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestFolder_dev checks that in kvasir dev, without any configuration, a scorer that
// prefers the worst endpoint places requests within a second after it is saved, and
// that placement by locality returns within a second after it is deleted. No request
// fails.
func TestFolder_dev(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t)
	system := strings.Repeat("You are a careful engineer. ", 60)
	place := func(user string) *harness.Explanation {
		a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants["acme"], chatBody(d.Model, system, user, false, 4))
		if err != nil || a.Status != 200 {
			t.Fatalf("%v %+v", err, a)
		}
		return harness.Explain(t, d.Admin, d.AdminToken, a.RequestID)
	}
	var stop atomic.Bool
	var sent atomic.Int64
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, err := harness.Post(d.URL+"/v1/chat/completions", d.Tenants["globex"],
					chatBody(d.Model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), i%2 == 0, 4))
				if sent.Add(1); err != nil || a.Status != 200 {
					t.Errorf("%v %+v", err, a)
				}
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)

	// matched returns how many tokens of the prompt the chosen endpoint and the best one hold.
	matched := func(e *harness.Explanation) (chosen, most float64) {
		for _, c := range e.Candidates {
			if most = max(most, c.Columns["matched_tokens"]); c.Endpoint == e.Chosen {
				chosen = c.Columns["matched_tokens"]
			}
		}
		return chosen, most
	}
	local := func(e *harness.Explanation) bool {
		chosen, most := matched(e)
		return e.Plugins[0].Name == "leastwork" && most > 0 && chosen == most
	}
	harness.Await(t, 10*time.Second, "locality places", func() bool { return local(place("0")) })
	file := filepath.Join(d.PluginDir, "mine.wasm")
	round := func() (saved, deleted time.Duration) {
		begun := time.Now()
		save(t, file, guest(t, "worst", 0))
		harness.Await(t, 10*time.Second, "the saved plugin places", func() bool {
			e := place("1")
			chosen, most := matched(e)
			return e.Plugins[0].Name == "mine" && e.Plugins[0].Fault == "" && chosen < most
		})
		saved = time.Since(begun)
		begun = time.Now()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		harness.Await(t, 10*time.Second, "locality is back", func() bool { return local(place("2")) })
		return saved, time.Since(begun)
	}
	var saved, deleted time.Duration
	for range 3 { // other load of the machine passes, a slow swap does not
		saved, deleted = round()
		t.Logf("saved: in force after %v; deleted: built-in again after %v; %d concurrent requests", saved,
			deleted, sent.Load())
		if max(saved, deleted) <= 1500*time.Millisecond {
			break
		}
	}
	if max(saved, deleted) > 1500*time.Millisecond {
		t.Errorf("saved %v, deleted %v, want within a second", saved, deleted)
	}
	select {
	case <-d.Ended():
		t.Error("a different process serves")
	default:
	}
}

// TestFolder_before checks that the folder's file takes precedence over the pushed
// version and the configuration's file. With a bad file the previous rules stay in
// force, and the log, a metric and the list give the reason. Links that leave the
// folder are refused. A router that restarts with a bad file serves.
func TestFolder_before(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 3)
	dir, set := t.TempDir(), filepath.Join(t.TempDir(), "mine.wasm")
	save(t, set, guest(t, "first", 0))
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}",
		"{name: default, holdout: 0, scorers: [{plugin: mine}]}",
		fmt.Sprintf("plugin_dir: %q\nplugins: [{name: mine, file: %q}]\n", dir, set))
	model, n := engines[0].Model, 0
	places := func(code []byte, what string) {
		t.Helper()
		harness.Await(t, 5*time.Second, what, func() bool {
			n++
			p := ask(t, r, model, strconv.Itoa(n)).Plugins[0]
			return p.Digest == digest(code) && p.Fault == ""
		})
	}
	failures := func() float64 { return gauges(t, r)["kvasir_reload_failures_total"] }
	refused := func(file, reason string) {
		t.Helper()
		before := failures()
		harness.Await(t, 5*time.Second, reason, func() bool { return failures() > before })
		_, list := adminDo(t, r, "GET", "/v1/plugins", nil)
		if !strings.Contains(string(list), `"state":"refused"`) || !strings.Contains(string(list), reason) {
			t.Errorf("the list lacks %q: %s", reason, list)
		}
		if !strings.Contains(r.Log.String(), file) || !strings.Contains(r.Log.String(), "the previous rules stay in force") {
			t.Error("the log lacks the fault")
		}
	}
	places(guest(t, "first", 0), "the file of the configuration")
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", guest(t, "last", 0)); s != 200 {
		t.Fatalf("got %d %s", s, b)
	}
	places(guest(t, "last", 0), "the pushed one")
	file := filepath.Join(dir, "mine.wasm")
	save(t, file, guest(t, "worst", 0))
	places(guest(t, "worst", 0), "the folder's")
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&activate=true", guest(t, "last", 0)); s != 200 ||
		!strings.Contains(string(b), "mine.wasm in plugin_dir takes precedence") {
		t.Errorf("push while the folder has a file: %d %s", s, b)
	}
	save(t, file, guest(t, "first", 1)[:300])
	refused("mine.wasm", "wasm: module")
	places(guest(t, "worst", 0), "the folder's after a half-written one")
	save(t, file, guest(t, "narrow", 0))
	refused("mine.wasm", "no role score")
	places(guest(t, "worst", 0), "the folder's after one without the role")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	places(guest(t, "last", 0), "the pushed one again")
	if err := os.Symlink(set, file); err != nil {
		t.Fatal(err)
	}
	refused("mine.wasm", "escapes")
	places(guest(t, "last", 0), "the pushed one beside a link")
	r.Restart(t)
	live(t, r, len(engines))
	places(guest(t, "last", 0), "the pushed one after a restart")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	save(t, file, guest(t, "worst", 1))
	places(guest(t, "worst", 1), "the folder's in the place of a link")
	r.Restart(t)
	live(t, r, len(engines))
	places(guest(t, "worst", 1), "the folder's after a restart")
}
