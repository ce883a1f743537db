package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
)

var testClasses = map[string]int{"standard": 1, "high": 9}

func decodeJSON(t testing.TB, text string) (*verdict, error) {
	t.Helper()
	v, err := ast.ValueFromReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return decode(v, testClasses)
}

func TestDecode(t *testing.T) {
	v, err := decodeJSON(t, `{"allow": true, "model": "m", "constraints": [{"label": "pool", "op": "in", "values": ["a",
	"b"]}, {"label": "gpu", "op": "not_in", "values": []}],
		"prefer": [{"label": "zone", "values": ["z"], "weight": 7}], "cache": {"scope": "group", "group": "g"},
		"affinity": {"weight": 99, "max_share": 1.5, "sticky": true},
		"priority": "high", "rate_class": "gold", "limits": {"max_prompt_tokens": 1, "max_output_tokens": 2.0,
		"max_concurrency": 3, "tokens_per_minute": 4, "requests_per_minute": 5e0},
		"profile": "fast", "audit": "full"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := Decision{Allow: true, Reason: "allowed", Model: "m",
		Constraints: []Constraint{{Label: "pool", Values: []string{"a", "b"}},
			{Label: "gpu", NotIn: true, Values: []string{}}},
		Prefer: []Preference{{Label: "zone", Values: []string{"z"}, Weight: 1}}, Scope: "group",
		Affinity: Affinity{Weight: 10, MaxShare: 1, Sticky: true}, Priority: 9, RateClass: "gold",
		MaxPromptTokens: 1, MaxOutputTokens: 2, MaxConcurrency: 3, TokensPerMinute: 4, RequestsPerMinute: 5, Profile: "fast",
		Audit: "full"}
	if err := equalJSON(v.Decision, want); err != nil || v.group != "g" {
		t.Errorf("%v, group %q", err, v.group)
	}
	if v, err := decodeJSON(t, `{"allow": true}`); err != nil || v.Priority != 1 || v.Scope != ScopeTenant ||
		v.Affinity != (Affinity{}) {
		t.Errorf("got %+v %v", v, err)
	}
	if v, err := decodeJSON(t, `{"allow": false}`); err != nil || v.Status != 403 || v.Reason != "denied" {
		t.Errorf("got %+v %v", v, err)
	}
	if v, err := decodeJSON(t, `{"allow": true, "affinity": {"weight": 0}}`); err != nil || v.Affinity.Weight <= 0 ||
		v.Affinity.Weight > 1e-3 {
		t.Errorf("a weight of 0 must not become unset: %+v %v", v, err)
	}
	set, err := decode(ast.NewObject(ast.Item(ast.StringTerm("allow"), ast.BooleanTerm(true)),
		ast.Item(ast.StringTerm("constraints"),
			ast.SetTerm(ast.ObjectTerm(ast.Item(ast.StringTerm("label"), ast.StringTerm("pool")),
				ast.Item(ast.StringTerm("op"), ast.StringTerm("in")), ast.Item(ast.StringTerm("values"),
					ast.SetTerm(ast.StringTerm("p"))))))), nil)
	if err != nil || len(set.Constraints) != 1 || set.Constraints[0].Values[0] != "p" {
		t.Errorf("sets: %+v %v", set, err)
	}
}

// TestDecode_refused: fields and values that the contract does not have are errors,
// never ignored.
func TestDecode_refused(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "not an object", `{}`: "allow is missing", `{"allow": "true"}`: "allow is a string",
		`{"allow": 1}`: "allow is a number", `{"allow": null}`: "allow is a null",
		`{"allow": true, "contraints": []}`: "contraints is not a known field",
		`{"allow": true, "": 1}`:            "is not a known field",
		`{"allow": false, "reason": ""}`:    "reason", `{"allow": false, "reason": "Not allowed"}`: "reason",
		`{"allow": false, "reason": "a-b"}`:                             "reason",
		`{"allow": false, "reason": "` + strings.Repeat("a", 65) + `"}`: "reason",
		`{"allow": false, "reason": 4}`:                                 "reason is a number",
		`{"allow": false, "status": 200}`:                               "status is 200",
		`{"allow": false, "status": 403.5}`:                             "status is 403.5",
		`{"allow": false, "status": "403"}`:                             "status",
		`{"allow": true, "status": 403}`:                                "beside allow",
		`{"allow": true, "constraints": {}}`:                            "constraints is a object",
		`{"allow": true, "constraints": [1]}`:                           "constraints[0]",
		`{"allow": true, "constraints": [{}]}`:                          "constraints[0].label is missing",
		`{"allow": true, "constraints": [{"label": "p", "op": "in"}]}`:  "constraints[0].values is missing",
		`{"allow": true, "prefer": [{"label": "p", "values": ["a"]}]}`:  "prefer[0].weight is missing",
		`{"allow": true, "cache": {}}`:                                  "cache.scope is missing",
		`{"allow": true, "cache": {"scope": "all"}}`:                    "not one of",
		`{"allow": true, "cache": {"scope": "group"}}`:                  "without a group",
		`{"allow": true, "cache": {"scope": "tenant", "group": "g"}}`:   "has a group",
		`{"allow": true, "cache": {"scope": "tenant", "grp": "g"}}`:     "not a known field",
		`{"allow": true, "affinity": {"max_share": 0}}`:                 "could be placed",
		`{"allow": true, "affinity": {"weight": 1e999}}`:                "out of range",
		`{"allow": true, "affinity": {"wieght": 1}}`:                    "not a known field",
		`{"allow": true, "priority": "urgent"}`:                         "not a class",
		`{"allow": true, "priority": 1}`:                                "priority is a number",
		`{"allow": true, "limits": {"max_tokens": 1}}`:                  "not a known field",
		`{"allow": true, "limits": {"max_prompt_tokens": -1}}`:          "not from 0",
		`{"allow": true, "limits": {"max_prompt_tokens": 1.5}}`:         "whole number",
		`{"allow": true, "limits": {"max_prompt_tokens": 1e300}}`:       "whole number",
		`{"allow": true, "audit": "some"}`:                              "not one of",
		`{"allow": true, "model": "` + strings.Repeat("m", 257) + `"}`:  "more than 256",

		`{"allow": true, "constraints": [{"label": "p", "op": "is", "values": []}]}`:            "not one of",
		`{"allow": true, "constraints": [{"label": "p", "op": "in", "values": ["a"], "x": 1}]}`: "x is not a known field",
		`{"allow": true, "constraints": [{"label": "p", "op": "in", "values": "a"}]}`:           "values is a string",
		`{"allow": true, "constraints": [{"label": "p", "op": "in", "values": [1]}]}`:           "values is a number",
		`{"allow": true, "prefer": [{"label": "p", "values": ["a"], "weight": -1}]}`:            "below 0",
		`{"allow": true, "constraints": [{"label": "", "op": "in", "values": []}]}`:             "label is empty",
	} {
		if v, err := decodeJSON(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v %v, want %q", text, v, err, want)
		}
	}
}

// FuzzDecode: for any result of a policy, decode returns a decision within its bounds
// or an error; and it refuses all that a strict decoding into Go types refuses.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{`{"allow": true}`, `{"allow": false, "reason": "x", "status": 404}`,
		`{"allow": true, "constraints": [{"label": "pool", "op": "in", "values": ["a"]}], "cache": {"scope": "group", ` +
			`"group": "g"}, "limits": {"max_prompt_tokens": 3}}`,
		`{"allow": true, "prefer": [{"label": "z", "values": ["z"], "weight": 0.5}], "affinity": {"weight": 3, ` +
			`"max_share": 0.1, "sticky": true}, "priority": "high", "audit": "none"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := ast.ValueFromReader(strings.NewReader(text))
		if err != nil {
			return
		}
		d, err := decode(v, testClasses)
		if err != nil {
			if d != nil {
				t.Error("a decision together with an error")
			}
			return
		}
		if !validReason(d.Reason) || d.Allow == (d.Status != 0) || len(d.Constraints) > maxConstraints ||
			len(d.Prefer) > maxConstraints {
			t.Errorf("%s: %+v", text, d)
		}
		if a := d.Affinity; a.Weight < 0 || a.Weight > 10 || a.MaxShare < 0 || a.MaxShare > 1 {
			t.Errorf("%s: %+v", text, a)
		}
		if d.MaxPromptTokens < 0 || d.MaxOutputTokens < 0 || d.MaxConcurrency < 0 || d.TokensPerMinute < 0 ||
			d.RequestsPerMinute < 0 || (d.Scope == ScopeGroup) != (d.group != "") {
			t.Errorf("%s: %+v", text, d)
		}
		var document any
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			t.Fatalf("%s: accepted, but not JSON: %v", text, err)
		}
		if err := fits(objectShape(decisionFields), document); err != nil || document.(map[string]any)["allow"] != d.Allow {
			t.Errorf("%s: accepted as %+v; %v", text, d, err)
		}
	})
}

// fits returns an error if v has a member or a value that does not match the shape.
func fits(s *shape, v any) error {
	switch v := v.(type) {
	case map[string]any:
		if s.fields == nil {
			return fmt.Errorf("an object, want %s", s.name)
		}
		for name, member := range v {
			f := s.fields[name]
			if f == nil {
				return fmt.Errorf("an unknown member %q", name)
			}
			if err := fits(f, member); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	case []any:
		if s.elem == nil {
			return fmt.Errorf("an array, want %s", s.name)
		}
		for _, one := range v {
			if err := fits(s.elem, one); err != nil {
				return err
			}
		}
		return nil
	case string:
		if s == stringShape {
			return nil
		}
	case float64:
		if s == numberShape {
			return nil
		}
	case bool:
		if s == boolShape {
			return nil
		}
	}
	return fmt.Errorf("a %T, want %s", v, s.name)
}

func FuzzParseInput(f *testing.F) {
	f.Add([]byte(`{"tenant": {"id": "a", "auth": {"method": "jwt"}}, "request": {"labels": {"a": "b"}}, "router": ` +
		`{"hour_utc": 3}}`))
	f.Add([]byte(`{"version": "2"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := ParseInput(text)
		if err != nil {
			return
		}
		again, err := ParseInput(inputJSON(in))
		if err != nil || string(inputJSON(again)) != string(inputJSON(in)) {
			t.Errorf("%q: %s is not %s: %v", text, inputJSON(again), inputJSON(in), err)
		}
	})
}
