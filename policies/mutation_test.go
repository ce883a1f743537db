package policies_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/policy"
)

// mutants calls f with every value that results from removing one member or element
// of v, at any depth.
func mutants(v any, path string, f func(path string, v any)) {
	switch v := v.(type) {
	case object:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			less := maps.Clone(v)
			delete(less, k)
			f(path+"/"+k, less)
			mutants(v[k], path+"/"+k, func(p string, inner any) {
				other := maps.Clone(v)
				other[k] = inner
				f(p, other)
			})
		}
	case []any:
		for i := range v {
			at := fmt.Sprintf("%s/%d", path, i)
			f(at, slices.Delete(slices.Clone(v), i, i+1))
			mutants(v[i], at, func(p string, inner any) {
				other := slices.Clone(v)
				other[i] = inner
				f(p, other)
			})
		}
	}
}

// asJSON returns v with every list as []any.
func asJSON(t testing.TB, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// fleet lists endpoints by their labels. Some endpoints lack a label.
func makeFleet(r *rand.Rand) []map[string]string {
	out := make([]map[string]string, 40)
	for i := range out {
		out[i] = map[string]string{"gpu": pick(r, []string{"h100", "a10"})}
		if r.IntN(10) > 0 {
			out[i]["pool"] = pick(r, pools)
		}
		if r.IntN(5) > 0 {
			out[i]["region"] = pick(r, regions)
		}
	}
	return out
}

// candidates returns the endpoints of a fleet that a decision allows.
func candidates(d *policy.Decision, fleet []map[string]string) []bool {
	out := make([]bool, len(fleet))
	for i, labels := range fleet {
		out[i] = d.Allow
		for _, c := range d.Constraints {
			value, has := labels[c.Label]
			if in := has && slices.Contains(c.Values, value); in == c.NotIn {
				out[i] = false
			}
		}
	}
	return out
}

// width orders cache scopes by the number of requests that share a namespace.
var width = map[string]int{"none": 0, "user": 1, "tenant": 2, "group": 3, "public": 4}

// wider describes what a decision allows beyond another, "" if nothing.
func wider(mutant, original *policy.Decision, fleet []map[string]string) string {
	if !mutant.Allow {
		return ""
	}
	was := candidates(original, fleet)
	for i, now := range candidates(mutant, fleet) {
		if now && !was[i] {
			return fmt.Sprintf("endpoint %v", fleet[i])
		}
	}
	if !original.Allow {
		return "" // allowed, but on no endpoint
	}
	if width[mutant.Scope] > width[original.Scope] {
		return "cache scope " + mutant.Scope
	}
	for name, l := range map[string][2]int{
		"max_prompt_tokens":   {mutant.MaxPromptTokens, original.MaxPromptTokens},
		"max_output_tokens":   {mutant.MaxOutputTokens, original.MaxOutputTokens},
		"max_concurrency":     {mutant.MaxConcurrency, original.MaxConcurrency},
		"tokens_per_minute":   {mutant.TokensPerMinute, original.TokensPerMinute},
		"requests_per_minute": {mutant.RequestsPerMinute, original.RequestsPerMinute},
	} {
		if now, was := l[0], l[1]; was != 0 && (now == 0 || now > was) {
			return fmt.Sprintf("%s %d, was %d", name, now, was)
		}
	}
	return ""
}

// bare returns a policy without tests and without schemas of data, so that only the
// rules check the data.
func bare(all map[string][]byte) map[string][]byte {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(name string, _ []byte) bool {
		return strings.HasSuffix(name, "_test.rego") || slices.Contains(
			[]string{"data", "tenants", "trust_groups", "classes", "backends"},
			strings.TrimSuffix(strings.TrimPrefix(name, "schemas/"), ".json"))
	})
	return out
}

// widenings removes each field of each tenant of a world in turn, and each entry
// of its trust groups, and lists by what was removed the mutants that allow what
// the original did not.
func widenings(t *testing.T, rules map[string][]byte, seed uint64) (found map[string]string, tried int) {
	r := rand.New(rand.NewPCG(seed, 77))
	w, fleet := makeWorld(r), makeFleet(r)
	w.tenants = asJSON(t, w.tenants).(object)
	w.trustGroups = asJSON(t, w.trustGroups).(object)
	original := mustLoad(t, w.over(t, rules))
	found = map[string]string{}
	try := func(path string, m *world, tenant string) {
		f, err := read(m.over(t, rules))
		if err != nil {
			t.Fatal(err)
		}
		s, err := policy.Load(f, policy.Config{Key: key, AllowPublicScope: true, Budget: budget}, original)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		tried++
		for range 8 {
			in := makeInput(r)
			in.Principal.Tenant = tenant
			was, err := original.Decide(in)
			if err != nil {
				t.Fatal(err)
			}
			now, err := s.Decide(in)
			if err != nil {
				continue // no decision, nothing allowed
			}
			if what := wider(now, was, fleet); what != "" {
				found[path] = fmt.Sprintf("world %d, tenant %s: %s", seed, tenant, what)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.tenants)) {
		mutants(w.tenants[id], "", func(path string, v any) {
			tenants := maps.Clone(w.tenants)
			tenants[id] = v
			try(path, &world{tenants, w.trustGroups, w.classes}, id)
		})
	}
	mutants(w.trustGroups, "/trust_groups", func(path string, v any) {
		for _, id := range tenantIDs {
			try(path, &world{w.tenants, v.(object), w.classes}, id)
		}
	})
	return found, tried
}

// TestMutants: if any field is removed from a record, the tenant can use no endpoint,
// share with no tenant and exceed no limit that it could not before. The schemas of
// data, which would refuse most of these records, are left out.
func TestMutants(t *testing.T) {
	rules, total := bare(files(t)), 0
	for seed := range uint64(6) {
		found, tried := widenings(t, rules, seed)
		for path, what := range found {
			t.Errorf("without %s: %s", path, what)
		}
		total += tried
	}
	if total < 1000 {
		t.Errorf("%d mutants were tried", total)
	}
	t.Logf("%d mutants", total)
}

// TestMutants_naive: TestMutants fails for a policy that widens.
func TestMutants_naive(t *testing.T) {
	text, err := os.ReadFile("testdata/naive/decision.rego")
	if err != nil {
		t.Fatal(err)
	}
	rules := bare(files(t))
	maps.DeleteFunc(rules, func(name string, _ []byte) bool { return strings.HasSuffix(name, ".rego") })
	rules["kvasir/decision.rego"] = text
	all := map[string]string{}
	for seed := range uint64(3) {
		found, _ := widenings(t, rules, seed)
		maps.Copy(all, found)
	}
	for _, field := range []string{"/regions", "/cache", "/limits", "/limits/max_concurrency", "/enabled"} {
		if all[field] == "" {
			t.Errorf("a record without %s was not reported: %v", field, all)
		}
	}
}

// TestMutants_schemas: a record without a field that the rules require is refused at
// load, and the error names the file, the line and the field.
func TestMutants_schemas(t *testing.T) {
	all := files(t)
	w := makeWorld(rand.New(rand.NewPCG(1, 2)))
	for _, field := range []string{"enabled", "auth_methods", "models", "pools", "regions", "priorities", "cache",
		"limits"} {
		less := &world{maps.Clone(w.tenants), w.trustGroups, w.classes}
		record := maps.Clone(w.tenants["acme"].(object))
		delete(record, field)
		less.tenants["acme"] = record
		folder := less.over(t, all)
		before, _, _ := strings.Cut(string(folder["data/tenants.json"]), `"acme": {`)
		want := fmt.Sprintf("data/tenants.json:%d:12: data/tenants/acme: missing required field %q",
			1+strings.Count(before, "\n"), field)
		if _, err := load(folder); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, want %s", field, err, want)
		}
	}
}
