package host

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/autoscale"
	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/endpoint"
)

// urls lists the endpoints of the store.
func urls(h *Host) string {
	snap := h.store.Load()
	var out []string
	for id := range snap.N {
		if info := snap.Info(endpoint.ID(id)); info != nil {
			out = append(out, info.URL)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func machineAt(id, url string) func(map[string]autoscale.Machine) {
	return func(had map[string]autoscale.Machine) { had[id] = autoscale.Machine{ID: id, URL: url} }
}

// TestFleet_betweenRules: what a driver tells while rules come into force does not
// bring the endpoints of the rules before back.
func TestFleet_betweenRules(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	l := h.rules.Acquire()
	defer l.Release()
	g, cfg := *l.Value(), *l.Value().cfg
	cfg.Pools = append([]config.Pool(nil), cfg.Pools...)
	cfg.Pools[0].Endpoints = []string{"http://10.0.0.9:8000"}
	g.cfg = &cfg
	if err := h.fleet.sync(&g); err != nil {
		t.Fatal(err)
	}
	if err := h.fleet.setMade("main", machineAt("a", "http://127.0.0.1:7")); err != nil {
		t.Fatal(err)
	}
	if got := urls(h); !strings.Contains(got, "10.0.0.9") || strings.Contains(got, "10.0.0.1:") || !strings.Contains(got, "127.0.0.1:7") {
		t.Errorf("endpoints %s", got)
	}
}

// TestFleet_full: a machine too many is refused, and is in nobody's way after.
func TestFleet_full(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	before := urls(h)
	err := h.fleet.setMade("main", func(had map[string]autoscale.Machine) {
		for i := range config.MaxEndpoints + 1 {
			id := fmt.Sprint("m", i)
			had[id] = autoscale.Machine{ID: id, URL: fmt.Sprintf("http://127.0.0.1:%d", 1000+i)}
		}
	})
	if err == nil {
		t.Fatal("more endpoints than fit were taken")
	}
	if got := urls(h); got != before {
		t.Errorf("endpoints after the refusal: %s", got)
	}
	if err := h.fleet.setMade("main", machineAt("a", "http://127.0.0.1:7")); err != nil {
		t.Errorf("the next one is refused: %v", err)
	}
}

// TestReload_refusedLate: rules whose autoscaler cannot be built leave the
// endpoints as they were.
func TestReload_refusedLate(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	before, dir := urls(h), t.TempDir()
	save(t, dir+"/secret", "short")
	b, err := os.ReadFile(h.cfg.File)
	if err != nil {
		t.Fatal(err)
	}
	src := strings.Replace(string(b), `["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000"]`,
		`["http://10.0.0.9:8000"], autoscale: {max: 2, driver: {webhook: {url: "http://127.0.0.1:1", secret_file: `+dir+`/secret}}}`, 1)
	save(t, h.cfg.File, src)
	if _, err := h.Reload(); err == nil || !strings.Contains(err.Error(), "at least 16 characters") {
		t.Fatalf("got %v", err)
	}
	if got := urls(h); got != before {
		t.Errorf("endpoints %s, want those of the rules in force: %s", got, before)
	}
}

// TestScaling_keys: no two controllers of a pool use a key twice.
func TestScaling_keys(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	p := []config.Pool{{Name: "main", Autoscale: config.Autoscale{Max: 2}}}
	seen := map[uint64]bool{}
	for range 3 {
		if _, err := h.scaling.build(p); err != nil {
			t.Fatal(err)
		}
		if seen[h.scaling.fence] {
			t.Errorf("fence %d twice", h.scaling.fence)
		}
		seen[h.scaling.fence] = true
	}
}

// TestWorkMeter_begins: what was asked before a pool was scaled is no demand of the
// first tick.
func TestWorkMeter_begins(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	pools := []string{"main"}
	for i := range 200 {
		placeOne(t, h, fmt.Sprint("before", i))
	}
	m := h.scaling.work
	if s := m.signal(h, pools, time.Now()); s.Work != 0 || s.Requests != 0 {
		t.Errorf("first tick: %+v", s)
	}
	placeOne(t, h, "one")
	if s := m.signal(h, pools, time.Now()); s.Work <= 0 || s.Requests != 1 {
		t.Errorf("after one request: %+v", s)
	}
	m.leave(pools)
	for i := range 200 {
		placeOne(t, h, fmt.Sprint("between", i))
	}
	if s := m.signal(h, pools, time.Now()); s.Work != 0 {
		t.Errorf("first tick after a pause: %+v", s)
	}
}

// TestScaling_lives: nothing is kept of machines that are long gone.
func TestScaling_lives(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	f := newScaleFleet(h, []config.Pool{{Name: "main"}})
	for i := range 400 {
		id := fmt.Sprint("m", i)
		if err := h.fleet.setMade("main", machineAt(id, fmt.Sprintf("http://127.0.0.1:%d", 1000+i))); err != nil {
			t.Fatal(err)
		}
		if n := len(f.Nodes("main")); n != 4 {
			t.Fatalf("%d endpoints", n)
		}
		h.scaling.work.signal(h, []string{"main"}, time.Now())
		f.Remove("main", id)
	}
	m := h.scaling.work
	if most := 2*4 + 64 + 1; len(f.first) > most || len(f.ready) > most || len(m.seen) > most || len(m.pools) > most || len(m.heats) > most {
		t.Errorf("kept: first %d, ready %d, seen %d, pools %d, heats %d", len(f.first), len(f.ready), len(m.seen), len(m.pools), len(m.heats))
	}
}

// TestScaling_notice: by the driver's id or by URL, and none for what is not there.
func TestScaling_notice(t *testing.T) {
	h, _ := startHost(t, t.TempDir(), "")
	p := []config.Pool{{Name: "main", Autoscale: config.Autoscale{Max: 9}}}
	g, err := h.scaling.build(p)
	if err != nil {
		t.Fatal(err)
	}
	h.scaling.groups = []*scaleGroup{g}
	if err := h.fleet.setMade("main", machineAt("a", "http://127.0.0.1:7")); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"a": "a", "http://127.0.0.1:7": "a", "http://10.0.0.1:8000/": "http://10.0.0.1:8000", "b": ""} {
		if got, _ := g.fleet.nameOf("main", id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
		if err := h.scaling.notice("main", id, time.Now()); (err == nil) != (want != "") {
			t.Errorf("notice for %s: %v", id, err)
		}
	}
	if err := h.scaling.notice("other", "a", time.Now()); err == nil {
		t.Error("notice for a pool that is not scaled")
	}
}

// TestScaleFleet_listed: a machine is not one of the endpoints that the file lists.
func TestScaleFleet_listed(t *testing.T) {
	p := config.Pool{Name: "p", Endpoints: []string{"http://127.0.0.1:1/"}, Autoscale: config.Autoscale{Driver: config.Driver{Allow: []string{"127.0.0.1"}}}}
	m := autoscale.Machine{ID: "a", URL: "http://127.0.0.1:1"}
	if err := newScaleFleet(&Host{}, []config.Pool{p}).believe(&p, &m); err == nil {
		t.Error("believed")
	}
}

func TestStateWord(t *testing.T) {
	for want, s := range map[string]endpoint.State{
		"ready": {Ready: true}, "not ready": {}, "sleeping": {Ready: true, Sleeping: true}, "cordoned": {Ready: true, Cordoned: true},
		"draining": {Ready: true, Draining: true}, "held cordoned": {Ready: true, Held: endpoint.HoldCordoned}, "held drained": {Ready: true, Draining: true, Held: endpoint.HoldDrained},
	} {
		if got := stateWord(&s); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}
