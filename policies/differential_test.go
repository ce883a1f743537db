package policies_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"slices"
	"testing"

	"github.com/kvasir-router/kvasir/conformance/harness"
	"github.com/kvasir-router/kvasir/host/policy"
)

// answer is a decision document, as upstream OPA prints it.
type answer struct {
	Allow       bool
	Reason      string
	Status      int
	Model       string
	Constraints []struct {
		Label, Op string
		Values    []string
	}
	Prefer []policy.Preference
	Cache  struct{ Scope, Group string }

	Affinity struct {
		Weight   float64
		MaxShare float64 `json:"max_share"`
		Sticky   bool
	}
	Priority  string
	RateClass string `json:"rate_class"`
	Limits    map[string]int
	Profile   string
	Audit     string
}

// decision is what the router must derive from a document: its fields, and the
// namespace whose requests share cached blocks.
func (a *answer) decision(in *policy.Input, classes object) *policy.Decision {
	if !a.Allow {
		return &policy.Decision{Reason: a.Reason, Status: a.Status, Audit: a.Audit}
	}
	d := &policy.Decision{
		Allow: true, Reason: "allowed", Model: a.Model, Prefer: a.Prefer, Scope: a.Cache.Scope,
		Affinity: policy.Affinity{Weight: max(a.Affinity.Weight, 1e-6), MaxShare: a.Affinity.MaxShare,
			Sticky: a.Affinity.Sticky},
		Priority: classes[a.Priority].(object)["priority"].(int), RateClass: a.RateClass, Profile: a.Profile, Audit: a.Audit,
		MaxPromptTokens: a.Limits["max_prompt_tokens"], MaxOutputTokens: a.Limits["max_output_tokens"],
		MaxConcurrency:  a.Limits["max_concurrency"],
		TokensPerMinute: a.Limits["tokens_per_minute"], RequestsPerMinute: a.Limits["requests_per_minute"],
	}
	for _, c := range a.Constraints {
		d.Constraints = append(d.Constraints, policy.Constraint{Label: c.Label, NotIn: c.Op == "not_in", Values: c.Values})
	}
	p := in.Principal
	who := map[string]string{"tenant": p.Tenant, "user": p.Tenant + "\x00" + p.User, "group": a.Cache.Group,
		"public": p.Tenant, "none": p.Tenant}[d.Scope]
	d.Namespace = policy.NamespaceHash(key, d.Scope, who)
	if d.Scope != "none" {
		d.Salt = policy.Salt(key, d.Scope, who)
	}
	return d
}

func parse(t *testing.T, text json.RawMessage) (out any) {
	t.Helper()
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// plain returns d without the fields that upstream does not have, in one order.
func plain(d *policy.Decision) *policy.Decision {
	out := *d
	out.Rules, out.Revision = nil, ""
	out.Constraints, out.Prefer = slices.Clone(d.Constraints), slices.Clone(d.Prefer)
	slices.SortFunc(out.Constraints, func(a, b policy.Constraint) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	if len(out.Prefer) == 0 {
		out.Prefer = nil
	}
	if len(out.Constraints) == 0 {
		out.Constraints = nil
	}
	return &out
}

// TestUpstreamDecides compares the decisions of the router and of upstream OPA for
// the same 1,000 random inputs, with ten random sets of data, with and without rules
// of a site.
func TestUpstreamDecides(t *testing.T) {
	const worlds, questions = 10, 100
	seen := map[string]int{}
	for n := range worlds {
		r := rand.New(rand.NewPCG(uint64(n), 5))
		var examples []string
		if n%2 == 1 {
			examples = []string{"business_hours", "canary_model", "trust_group", "batch_offpeak"}
		}
		w := makeWorld(r)
		all := w.over(t, files(t, examples...))
		if len(examples) > 0 {
			all["data/site_data.json"] = []byte(`{"site_data": {"business_hours": {"acme": {"from": 7, "to": 18}},
				"canary_model": {"llama": {"to": "qwen", "share": 0.5}}, "batch_offpeak": {"from": 20, "to": 6,
				"priority": "low"}}}`)
		}
		s := mustLoad(t, all)
		ins := make([]*policy.Input, questions)
		asked := make([]object, questions)
		for i := range ins {
			ins[i] = makeInput(r)
			asked[i] = object{"input": document(ins[i])}
		}
		for i, text := range ask(t, folder(t, all), "data.kvasir.decision", asked) {
			var a answer
			if err := json.Unmarshal(text, &a); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			got, err := s.Decide(ins[i])
			if err != nil {
				t.Fatalf("world %d, question %d: %v; upstream says %s", n, i, err, text)
			}
			want := a.decision(ins[i], w.classes)
			if got, want := plain(got), plain(want); !reflect.DeepEqual(got, want) {
				t.Errorf("world %d, question %d\nrouter   %+v\nupstream %+v\n%s", n, i, got, want, text)
			}
			x := s.Explain(ins[i])
			if got, want := parse(t, x.Result), parse(t, text); !reflect.DeepEqual(got, want) {
				t.Errorf("world %d, question %d\nexplain  %s\nupstream %s", n, i, x.Result, text)
			}
			if got, want := parse(t, x.Input), asJSON(t, asked[i]["input"]); !reflect.DeepEqual(got, want) {
				t.Errorf("world %d, question %d: explain asked with %s, want %v", n, i, x.Input, want)
			}
			seen[want.Reason]++
			seen[want.Scope]++
		}
	}
	// The comparison is meaningful only if every kind of decision occurs.
	for _, word := range append(slices.Clone(scopes), "allowed", "tenant_unknown", "tenant_disabled",
		"auth_method_not_allowed", "model_not_allowed",
		"adapter_not_allowed", "outside_business_hours", "trust_group_one_sided", "batch_waits") {
		if seen[word] == 0 {
			t.Errorf("no decision was %s: %v", word, seen)
		}
	}
	t.Log(seen)
}

// TestCommandExplains: kvasir policy explain prints upstream's document as the
// policy's result.
func TestCommandExplains(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	w := makeWorld(r)
	all := w.over(t, files(t))
	dir := folder(t, all)
	asked := make([]object, 20)
	for i := range asked {
		asked[i] = object{"input": document(makeInput(r))}
	}
	for i, want := range ask(t, folder(t, all), "data.kvasir.decision", asked) {
		input, err := json.Marshal(asked[i]["input"])
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(harness.Binary(t), "policy", "explain", dir, "--allow-public-scope", "--input", "-", "--output",
			"json")
		cmd.Stdin = bytes.NewReader(input)
		var x struct{ Result json.RawMessage }
		out, err := cmd.Output()
		if _, refused := errors.AsType[*exec.ExitError](err); err != nil && !refused { // exit code 1 is a denial
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &x); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got, want := parse(t, x.Result), parse(t, want); !reflect.DeepEqual(got, want) {
			t.Errorf("of %s\nkvasir   %v\nupstream %v", input, got, want)
		}
	}
}
