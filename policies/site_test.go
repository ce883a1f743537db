package policies_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/policies"
)

// siteRules are rules that a site might write, each a file of package site: sensible,
// careless and hostile ones. None may widen a decision.
var siteRules = []string{
	`denials contains "no_batch" if input.request.priority == "low"`,
	`denials contains "a b c" if input.request.stream`,
	`denials contains input.request.model if input.request.stream`,
	`constraints contains {"label": "gpu", "op": "in", "values": ["h100"]} if input.tenant.id == "acme"`,
	`constraints contains {"label": "pool", "op": "in", "values": ["a", "b", "c", "any"]}`,
	`constraints contains {"label": "pool", "op": "not_in", "values": []}`,
	`constraints contains {"label": "region", "op": "in", "values": ["us"]} if input.router.hour_utc > 12`,
	`constraints contains {"label": "region", "op": "not_in", "values": ["eu-west"]} if input.tenant.user != ""`,
	`model := "qwen"`,
	`model := "gpt" if input.request.stream`,
	`model := input.tenant.user`,
	`retry contains "no_batch"`,
	`retry contains "model_not_allowed"`,
}

// TestSiteNarrows: rules of a site give no request an endpoint, a cache or a budget
// that it did not have without them.
func TestSiteNarrows(t *testing.T) {
	narrowed := 0
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		w, fleet := makeWorld(r), makeFleet(r)
		base := bare(files(t))
		without := mustLoad(t, w.over(t, base))
		var set []string
		if seed%3 == 0 {
			set = some(r, policies.Examples())
		}
		site := bare(files(t, set...))
		rules := some(r, siteRules)
		models := 0
		for i, rule := range rules {
			if strings.HasPrefix(rule, "model") {
				if models++; models > 1 || len(set) > 0 {
					continue // two values of one rule are an error, not an answer
				}
			}
			site[fmt.Sprintf("site/rule_%d.rego", i)] = []byte("package site\n\n" + rule + "\n")
		}
		all := w.over(t, site)
		all["data/site_data.json"] = []byte(`{"site_data": {"business_hours": {"acme": {"from": 7, "to": 18}},
		"dedicated_pools": {"a": "acme"},
			"residency": {"jurisdictions": {"eu": {"eu-west": true}}, "tenants": {"globex": "eu"}}}}`)
		with := mustLoad(t, all)
		for range 300 {
			in := makeInput(r)
			was, err := without.Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			now, err := with.Decide(in)
			if err != nil {
				narrowed++
				continue
			}
			if what := wider(now, was, fleet); what != "" {
				t.Errorf("world %d, rules %q, examples %v: %s", seed, rules, set, what)
			}
			if now.Allow && now.Model != in.Model {
				asked := *in
				asked.Model = now.Model
				if d, err := without.Decide(&asked); err != nil || !d.Allow {
					t.Errorf("world %d: rewritten to %s, which the tenant must not use: %+v", seed, now.Model, d)
				}
			}
			if was.Allow && (!now.Allow || len(now.Constraints) > len(was.Constraints)) {
				narrowed++
			}
		}
	}
	if narrowed < 500 {
		t.Errorf("%d decisions were narrowed", narrowed)
	}
	t.Log(narrowed, "decisions were narrowed")
}

// TestExamples_apart: no file of an example replaces another file.
func TestExamples_apart(t *testing.T) {
	shipped := files(t)
	for _, name := range policies.Examples() {
		all := files(t, name)
		for path := range maps.Keys(shipped) {
			if string(all[path]) != string(shipped[path]) {
				t.Errorf("%s replaces %s", name, path)
			}
		}
		if len(all) <= len(shipped)+2 {
			t.Errorf("%s adds %d files", name, len(all)-len(shipped))
		}
	}
	if _, err := policies.Files("nothing"); err == nil ||
		!strings.Contains(err.Error(), `no example "nothing": there are admin_rbac`) {
		t.Errorf("an example that does not exist: %v", err)
	}
	if _, err := policies.Files("log_mask", "log_mask"); err == nil {
		t.Error("an example twice")
	}
}
