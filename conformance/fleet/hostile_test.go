package fleet

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestPlugin_hostile pushes every hostile guest to a router under load. No guest fails
// a request, the check refuses the guests that it must refuse and names the step, and
// explain names the fault of the others. The delay that the router adds to the first
// byte of other streams, at the 99.9th percentile, is at most maxPause more than while
// nothing is pushed. The test measures both in alternation, so that other work on the
// machine affects both, and the best round counts.
func TestPlugin_hostile(t *testing.T) {
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	const n = 7 // number of candidates with which the guests misbehave
	rounds, streams := 5, 2000
	if testing.Short() {
		rounds, streams = 1, 100
	}
	engines := startEngines(t, n, "--speed", "20")
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}",
		"{name: default, holdout: 0, scorers: [{plugin: plain}, {plugin: granted}], filters: [narrow], picker: order}",
		"plugins: [{name: plain}, {name: granted, grants: [log, kv]}, {name: narrow}, {name: order}]\n")
	model := engines[0].Model
	var stop atomic.Bool
	var sent, failed atomic.Int64
	var wg sync.WaitGroup
	var beside pauses
	for c := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				part := beside.part.Load()
				a, err := harness.Post(r.URL+"/v1/chat/completions", "",
					chatBody(model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), i%2 == 0, 4))
				if sent.Add(1); err != nil || a.Status != 200 {
					failed.Add(1)
					t.Errorf("%v %+v", err, a)
				} else if i%2 == 0 {
					beside.add(part, a)
				}
			}
		})
	}
	defer wg.Wait()
	defer stop.Store(true)
	best, passes := time.Duration(math.MaxInt64), 0
	for range rounds {
		for done := 0; done < streams; done = min(beside.count(quiet), beside.count(hostile)) {
			beside.part.Store(quiet)
			harness.Await(t, 60*time.Second, "streams to compare with", func() bool {
				ask(t, r, model, "quiet") // as for every guest: its cost is not a cost of the push
				return beside.count(quiet) >= beside.count(hostile)+streams/4
			})
			beside.part.Store(hostile)
			for i := range all {
				beside.what.Store(&all[i].File)
				pushHostile(t, r, model, &all[i])
			}
			passes++
		}
		calm, pushed := beside.added(t, engines, quiet), beside.added(t, engines, hostile)
		t.Logf("added to the first byte while nothing is pushed: %s", spread(calm))
		t.Logf("added to the first byte while hostile guests are pushed: %s", spread(pushed))
		best = min(best, quantile(pushed, .999)-quantile(calm, .999))
		if best <= maxPause {
			break
		}
		beside.reset()
	}
	t.Logf("%d guests, %d times, %d requests, %d failed; difference of the p99.9 with and without pushes: %v", len(all),
		passes, sent.Load(),
		failed.Load(), best)
	if best > maxPause && !testing.Short() {
		t.Errorf("hostile guests delay other streams by %v at the 99.9th percentile, want at most %v", best, maxPause)
	}
}

// maxPause is how long other requests may wait because of hostile guests.
const maxPause = 5 * time.Millisecond

// pushHostile pushes a guest. The router must refuse a guest that the check detects. With
// any other guest it places a request, compares the reaction with the expected one, and
// rolls the guest back.
func pushHostile(t *testing.T, r *harness.Router, model string, g *guests.Guest) {
	t.Helper()
	name := map[string]string{"filter": "narrow", "pick": "order", "score": "plain"}[g.Role]
	if len(g.Grants) > 0 {
		name = "granted"
	}
	code, err := g.Code()
	if err != nil {
		t.Fatal(err)
	}
	status, b := adminDo(t, r, "POST", "/v1/plugins?name="+name+"&activate=true", code)
	step := g.Load
	if step == "" && (g.Check != "" || !g.OK && !g.Abstain) {
		step = "check"
	}
	if step != "" {
		if status != 422 || !strings.Contains(string(b), "wasm: "+step+":") {
			t.Errorf("%s: got %d %s, want it refused in step %s", g.File, status, b, step)
		}
		return
	}
	if status != 200 {
		t.Errorf("%s: got %d %s", g.File, status, b)
		return
	}
	e := ask(t, r, model, g.File)
	fault := "no such plugin"
	for _, p := range e.Plugins {
		if p.Name == name {
			fault = p.Fault
		}
	}
	switch {
	case g.Abstain:
		if !strings.Contains(fault, "abstains") {
			t.Errorf("%s: got %q, want an abstention", g.File, fault)
		}
	case fault != "":
		t.Errorf("%s: got fault %q", g.File, fault)
	}
	if status, b := adminDo(t, r, "DELETE", "/v1/plugins/"+name, nil); status != 200 {
		t.Errorf("%s: %d %s", g.File, status, b)
	}
}
