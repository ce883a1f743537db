package host

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// site is an engine that counts the prompts it gets.
type site struct {
	url     string
	prompts atomic.Int64
}

func newSite(x *liveRouter) *site {
	s, engine := new(site), x.engineHandler()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/completions") {
			s.prompts.Add(1)
		}
		engine.ServeHTTP(w, r)
	}))
	x.t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// residency is a router whose policy requires the label site of endpoints to have one
// value, in front of an engine at home and one abroad.
type residency struct {
	*liveRouter
	home, abroad *site
}

// policy writes a policy that requires a value of the label, in the folder of the value.
func (x *residency) policy(value string) {
	x.t.Helper()
	if err := os.MkdirAll(filepath.Join(x.dir, value, "kvasir"), 0o700); err != nil {
		x.t.Fatal(err)
	}
	x.write(filepath.Join(value, "kvasir", "decision.rego"), fmt.Sprintf(`package kvasir

default decision := {"allow": false, "reason": "undefined"}

decision := {
	"allow": true,
	"constraints": [{"label": "site", "op": "in", "values": [%q]}],
	"cache": {"scope": "tenant"},
} if input.request.model != ""
`, value))
}

// config writes a configuration with the policy of a value and two pools: their engines
// and their labels. It is one file, so that the router reads all or nothing of it.
func (x *residency) config(policy string, engines [2]*site, labels [2]string) {
	var pools strings.Builder
	for i := range engines {
		fmt.Fprintf(&pools, "  - {name: p%d, events: {mode: off}, isolation_probe: {mode: off}, labels: {site: %s}, "+
			"endpoints: [%q]}\n", i, labels[i], engines[i].url)
	}
	x.write("kvasir.yaml", fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {http: \"127.0.0.1:0\"}\nidentity: {anonymous: "+
		"{tenant: local}}\nstate_dir: %s\npolicy: {dir: %s, required_labels: [site]}\npools:\n%s"+
		"models: [{name: m, pools: [p0, p1]}]\n",
		x.path("state"), x.path(policy), &pools))
}

// reloads sends requests from several clients while change and a reload alternate, and
// returns the answers by status. No prompt may go abroad.
func (x *residency) reloads(n int, change func(i int)) map[int]int {
	x.t.Helper()
	var stop atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex // guards answers
	answers := map[int]int{}
	for range 8 {
		wg.Go(func() {
			for !stop.Load() {
				got := x.ask("")
				mu.Lock()
				answers[got]++
				mu.Unlock()
			}
		})
	}
	for i := 1; i <= n && x.abroad.prompts.Load() == 0; i++ {
		change(i)
		if _, err := x.Reload(); err != nil {
			x.t.Errorf("reload %d: %v", i, err)
			break
		}
	}
	stop.Store(true)
	wg.Wait()
	if got := x.abroad.prompts.Load(); got != 0 {
		x.t.Errorf("%d prompts of %v reached the engine that neither revision allows", got, answers)
	}
	return answers
}

func newResidency(t *testing.T) *residency {
	x := &residency{liveRouter: newLive(t)}
	x.home, x.abroad = newSite(x.liveRouter), newSite(x.liveRouter)
	return x
}

func residencyReloads() int {
	if testing.Short() {
		return 20
	}
	return 100
}

// TestReload_labelsWithPolicy: reloads exchange the labels of two pools and, at the same
// time, the label that the policy requires. Each revision allows the same engine, so no
// request may reach the other one: that would take the policy of one revision and the
// labels of another. No request is refused either.
func TestReload_labelsWithPolicy(t *testing.T) {
	x := newResidency(t)
	values := [2]string{"here", "there"}
	write := func(i int) {
		x.config(values[i%2], [2]*site{x.home, x.abroad}, [2]string{values[i%2], values[(i+1)%2]})
	}
	x.policy(values[0])
	x.policy(values[1])
	write(0)
	x.start()
	x.turns("at first", "", 200)
	if got := x.reloads(residencyReloads(), write); len(got) != 1 || got[200] == 0 {
		t.Errorf("answers by status: %v, want 200 only", got)
	}
}

// TestReload_enginesWithLabels: reloads exchange the labels of two pools and, at the same
// time, their engines, so that the label of each engine stays. A pool of one revision
// must not be seen with the engine of another.
func TestReload_enginesWithLabels(t *testing.T) {
	x := newResidency(t)
	write := func(i int) {
		engines, values := [2]*site{x.home, x.abroad}, [2]string{"here", "there"}
		if i%2 == 1 {
			engines, values = [2]*site{x.abroad, x.home}, [2]string{"there", "here"}
		}
		x.config("here", engines, values)
	}
	x.policy("here")
	write(0)
	x.start()
	x.turns("at first", "", 200)
	x.reloads(residencyReloads(), func(i int) {
		write(i)
		time.Sleep(20 * time.Millisecond) // the engine of a pool that has changed serves after a probe
	})
	x.turns("at last", "", 200)
}
