package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/harness"
)

// metric returns the sum of the values of a metric's lines that contain a text.
func metric(t testing.TB, r *harness.Router, name, label string) (sum float64) {
	t.Helper()
	_, b := harness.GetBody(r.Admin+"/metrics", r.Token)
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+"{"); ok && strings.Contains(rest, label) {
			v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// TestPlugin_observes checks that a plugin receives the outcomes of requests and that
// its scorer reads the column that it publishes. An endpoint that served a request has
// its own rate, the others keep the default. A push keeps the published values.
func TestPlugin_observes(t *testing.T) {
	code, err := os.ReadFile("../../examples/learned-rate/learned_rate.wasm")
	if err != nil {
		t.Fatal(err)
	}
	engines := startEngines(t, 2)
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}",
		"{name: default, holdout: 0, scorers: [{plugin: rate}]}",
		"plugins: [{name: rate, file: ../../examples/learned-rate/learned_rate.wasm}]\n")
	rates := func() (chosen string, all map[string]float64) {
		e := ask(t, r, engines[0].Model, time.Now().String())
		all = map[string]float64{}
		for _, c := range e.Candidates {
			all[c.Endpoint] = -float64(c.Columns["uncached_tokens"]+
				c.Columns["outstanding_uncached_tokens"]) / float64(c.Scores["rate"].Score)
		}
		return e.Chosen, all
	}
	near := func(a, b float64) bool { return a > b*0.999 && a < b*1.001 }
	first, all := rates()
	for e, x := range all {
		if !near(x, 10) {
			t.Errorf("before any outcome %s has rate %v, want the default 10", e, x)
		}
	}
	harness.Await(t, 5*time.Second, "the scorer reads a learned rate",
		func() bool { _, all = rates(); return !near(all[first], 10) })
	if x := all[first]; !(x > 0.01 && x < 1e5) {
		t.Errorf("learned %v tokens/ms", x)
	}
	if n := metric(t, r, "kvasir_plugin_observed_total", `plugin="rate"`); n < 1 {
		t.Errorf("%v outcomes observed", n)
	}
	if n := metric(t, r, "kvasir_outcomes_dropped_total", ""); n != 0 {
		t.Errorf("%v outcomes dropped", n)
	}
	code = append(code, 0, 6, 1, 'n', 1, 2, 3, 4) // another version
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=rate&activate=true", code); s != 200 {
		t.Fatalf("%d %s", s, b)
	}
	if _, all = rates(); near(all[first], 10) {
		t.Error("a push discards the published values")
	}
	harness.Await(t, 5*time.Second, "the pushed version observes", func() bool {
		rates()
		return metric(t, r, "kvasir_plugin_observed_total", digest(code)) > 0
	})
}

// TestPlugin_observesOnly checks that a plugin that no profile names observes.
func TestPlugin_observesOnly(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 2)
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}", "{name: default, holdout: 0}",
		"plugins: [{name: rate, file: ../../examples/learned-rate/learned_rate.wasm}, {name: mute, file: "+
			"testdata/plugins/first.wasm}]\n")
	harness.Await(t, 5*time.Second, "the plugin observes", func() bool {
		ask(t, r, engines[0].Model, "x")
		return metric(t, r, "kvasir_plugin_observed_total", `plugin="rate"`) > 0
	})
	if list := plugins(t, r); len(list) != 2 || list[0].Name != "leastwork" || list[1].Name != "rate" ||
		list[1].Stats.Observed == 0 {
		t.Errorf("got %+v, want the default cost and the observer: the other is not used", list)
	}
}

// TestPlugin_idles checks that idle is called on every instance once no request has
// ended for a second.
func TestPlugin_idles(t *testing.T) {
	t.Parallel()
	r, engines, _ := fleetWith(t, guest(t, "idle", 0), "{name: default, holdout: 0, scorers: [{plugin: mine}]}")
	harness.Await(t, 20*time.Second, "a call of idle on an instance", func() bool {
		time.Sleep(2500 * time.Millisecond) // longer than the second without requests
		e := ask(t, r, engines[0].Model, "x")
		return e.Plugins[0].Fault == "" && e.Candidates[0].Scores["mine"].Score >= 1
	})
}

type pluginStatus struct {
	Name, Digest string
	Stats        struct{ Observed uint64 }
	Shadow       *struct {
		Digest     string
		Decisions  uint64
		Agreement  float64 `json:"rank_agreement"`
		Elsewhere  float64 `json:"placed_elsewhere"`
		Faults     uint64
		Quarantine string
	}
}

func plugins(t testing.TB, r *harness.Router) []pluginStatus {
	t.Helper()
	s, b := adminDo(t, r, "GET", "/v1/plugins", nil)
	var list struct{ Plugins []pluginStatus }
	if err := json.Unmarshal(b, &list); s != 200 || err != nil {
		t.Fatalf("%d %v %s", s, err, b)
	}
	return list.Plugins
}

// TestPlugin_shadow checks that a shadow that equals the active plugin agrees with it,
// its reverse disagrees, and one that traps affects no request. No shadow places requests.
func TestPlugin_shadow(t *testing.T) {
	t.Run("alone", func(t *testing.T) { shadowRun(t, "[{plugin: mine}]") })
	t.Run("of two",
		func(t *testing.T) { shadowRun(t, "[{plugin: prefixfirst, weight: 0.001}, {plugin: mine, weight: 2}]") })
}

func shadowRun(t *testing.T, scorers string) {
	r, engines, _ := fleetWith(t, guest(t, "first", 0), "{name: default, holdout: 0, scorers: "+scorers+"}")
	model := engines[0].Model
	place := func(what string) {
		t.Helper()
		if e := ask(t, r, model, what); e.Chosen != e.Candidates[0].Endpoint || e.Plugins[0].Fault != "" {
			t.Errorf("%s: chosen %s, want the first; %+v", what, e.Chosen, e.Plugins)
		}
	}
	mine := func() *pluginStatus {
		list := plugins(t, r)
		for i := range list {
			if list[i].Name == "mine" {
				return &list[i]
			}
		}
		t.Fatalf("mine is not in %+v", list)
		return nil
	}
	push := func(code []byte, want int, query string) {
		t.Helper()
		if s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&"+query, code); s != want {
			t.Fatalf("%s: %d %s", query, s, b)
		}
	}
	for _, c := range []struct {
		guest          string
		tau, elsewhere float64
	}{{"first", 1, 0}, {"last", -1, 1}} {
		push(guest(t, c.guest, 0), 200, "shadow=true")
		for i := range 5 {
			place(fmt.Sprint(c.guest, i))
		}
		harness.Await(t, 5*time.Second, "five decisions compared", func() bool { return mine().Shadow.Decisions >= 5 })
		if s := mine().Shadow; s.Digest != digest(guest(t, c.guest, 0)) || s.Agreement != c.tau ||
			s.Elsewhere != c.elsewhere || s.Faults != 0 {
			t.Errorf("%s: got %+v", c.guest, s)
		}
		if n := metric(t, r, "kvasir_shadow_decisions_total", digest(guest(t, c.guest, 0))); n < 5 {
			t.Errorf("%s: the metrics report %v decisions", c.guest, n)
		}
	}
	push(guest(t, "trap", 0), 200, "shadow=true")
	for i := range 10 {
		place(fmt.Sprint("trap", i))
	}
	harness.Await(t, 5*time.Second, "ten faults", func() bool { return mine().Shadow.Faults >= 10 })
	if s := mine().Shadow; s.Decisions != 0 || s.Quarantine == "" {
		t.Errorf("trap: got %+v", s)
	}

	push(guest(t, "narrow", 0), 422, "shadow=true") // it has no scores
	push(guest(t, "last", 0), 422, "shadow=true&activate=true")
	if s, b := adminDo(t, r, "POST", "/v1/plugins?name=absent&shadow=true", guest(t, "last", 0)); s != 422 ||
		!strings.Contains(string(b), "no profile uses it as a scorer") {
		t.Errorf("%d %s", s, b)
	}
	if s, b := adminDo(t, r, "DELETE", "/v1/plugins/mine/shadow", nil); s != 200 {
		t.Errorf("%d %s", s, b)
	}
	if s, b := adminDo(t, r, "DELETE", "/v1/plugins/mine/shadow", nil); s != 404 {
		t.Errorf("%d %s", s, b)
	}
	push(guest(t, "last", 0), 200, "shadow=true")
	if mine().Shadow == nil {
		t.Error("no shadow")
	}
	push(guest(t, "last", 0), 200, "activate=true")
	if s := mine().Shadow; s != nil {
		t.Errorf("activating the shadow leaves %+v", s)
	}
}

// TestPlugin_shadowsUnderLoad adds and removes shadows, some of which trap or loop
// forever, while requests are placed. No request fails, no shadow places one, and no
// instance remains.
func TestPlugin_shadowsUnderLoad(t *testing.T) {
	r, engines, _ := fleetWith(t, guest(t, "first", 0), "{name: default, holdout: 0, scorers: [{plugin: mine}]}")
	spin, err := os.ReadFile("../guests/spin.wasm")
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var sent atomic.Int64
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, err := harness.Post(r.URL+"/v1/chat/completions", "",
					chatBody(engines[0].Model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), i%2 == 0, 4))
				sent.Add(1)
				if err != nil || a.Status != 200 {
					t.Errorf("%v %+v", err, a)
				}
			}
		})
	}
	var begun float64
	for i := range 30 {
		code := guest(t, []string{"last", "trap"}[i%2], i+1)
		if i%5 == 4 {
			code = spin
		}
		from := sent.Load()
		s, b := adminDo(t, r, "POST", "/v1/plugins?name=mine&shadow=true", code)
		if s != 200 && i%5 != 4 {
			t.Errorf("shadow %d: %d %s", i, s, b)
		}
		harness.Await(t, 30*time.Second, "requests while the shadow runs", func() bool { return sent.Load() >= from+20 })
		if i == 4 {
			begun = gauges(t, r)["go_goroutines"]
		}
	}
	e := ask(t, r, engines[0].Model, "x")
	if e.Plugins[0].Digest != digest(guest(t, "first", 0)) {
		t.Errorf("placed by %+v", e.Plugins)
	}
	stop.Store(true)
	wg.Wait()
	if s, b := adminDo(t, r, "DELETE", "/v1/plugins/mine/shadow", nil); s != 200 {
		t.Errorf("%d %s", s, b)
	}
	if n := gauges(t, r)["go_goroutines"]; n > begun+20 {
		t.Errorf("%v goroutines, %v at the start", n, begun)
	}
	t.Logf("%d requests", sent.Load())
}
