package fleet

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/guests"
	"github.com/kvasir-router/kvasir/conformance/harness"
)

// TestPlugin_hostile pushes every hostile guest to a router under load: none
// fails a request, what must be refused is refused with its step, and explain
// names the fault of the others.
func TestPlugin_hostile(t *testing.T) {
	all, err := guests.All()
	if err != nil {
		t.Fatal(err)
	}
	const n = 7 // candidates at which the guests misbehave
	engines := startEngines(t, n)
	r := serveWith(t, engines, "{STATE}", "{anonymous: {tenant: local}}",
		"{name: default, holdout: 0, scorers: [{plugin: plain}, {plugin: granted}], filters: [narrow], picker: order}",
		"plugins: [{name: plain}, {name: granted, grants: [log, kv]}, {name: narrow}, {name: order}]\n")
	model := engines[0].Model
	var stop atomic.Bool
	var sent, failed atomic.Int64
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				a, err := harness.Post(r.URL+"/v1/chat/completions", "", chatBody(model, "You are client "+strconv.Itoa(c), strconv.Itoa(i), i%2 == 0, 4))
				if sent.Add(1); err != nil || a.Status != 200 {
					failed.Add(1)
					t.Errorf("%v %+v", err, a)
				}
			}
		})
	}
	for i := range all {
		g := &all[i]
		name := map[string]string{"filter": "narrow", "pick": "order", "score": "plain"}[g.Role]
		if len(g.Grants) > 0 {
			name = "granted"
		}
		code, err := g.Code()
		if err != nil {
			t.Fatal(err)
		}
		status, b := adminDo(t, r, "POST", "/v1/plugins?name="+name+"&activate=true", code)
		if g.Load != "" {
			if status != 422 || !strings.Contains(string(b), "wasm: "+g.Load+":") {
				t.Errorf("%s: got %d %s, want it refused in step %s", g.File, status, b, g.Load)
			}
			continue
		}
		if status != 200 {
			t.Errorf("%s: got %d %s", g.File, status, b)
			continue
		}
		e := ask(t, r, model, g.File)
		fault := "no such plugin"
		for _, p := range e.Plugins {
			if p.Name == name {
				fault = p.Fault
			}
		}
		told := func(reason string) bool { return strings.Contains(fault, ": "+reason+":") }
		switch {
		case g.Abstain:
			if !strings.Contains(fault, "abstains") {
				t.Errorf("%s: got %q, want an abstention", g.File, fault)
			}
		case g.OK, g.N != n:
			if fault != "" {
				t.Errorf("%s: got fault %q", g.File, fault)
			}
		case !slices.ContainsFunc(g.Fault, told):
			t.Errorf("%s: got fault %q, want %v", g.File, fault, g.Fault)
		}
		if status, b := adminDo(t, r, "DELETE", "/v1/plugins/"+name, nil); status != 200 {
			t.Errorf("%s: %d %s", g.File, status, b)
		}
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d guests, %d requests, %d failed", len(all), sent.Load(), failed.Load())
}
