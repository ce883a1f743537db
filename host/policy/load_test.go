package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kvasir-router/kvasir/host/identity"
)

// base is a small policy: one decision from data.
var base = map[string]string{
	"kvasir/decision.rego": `package kvasir

default decision := {"allow": false, "reason": "policy_undefined"}

tenant := data.tenants[input.tenant.id]

# METADATA
# labels: {id: allowed}
decision := {
	"allow": true,
	"constraints": {{"label": "pool", "op": "in", "values": tenant.pools}},
	"cache": cache,
	"limits": tenant.limits,
	"priority": priority,
} if {
	tenant.enabled
	tenant.models[input.request.model]
}

# METADATA
# labels: {id: model_not_allowed}
decision := {"allow": false, "reason": "model_not_allowed", "status": 404} if {
	tenant.enabled
	not tenant.models[input.request.model]
}

default cache := {"scope": "tenant"}

cache := {"scope": tenant.cache} if tenant.cache != "group"

cache := {"scope": "group", "group": tenant.trust_group} if tenant.cache == "group"

default priority := "standard"

priority := input.request.priority if tenant.priorities[input.request.priority]
`,
	"kvasir/decision_test.rego": `package kvasir_test

import data.kvasir

test_denies_unknown if {
	d := kvasir.decision with input as {"version": "1", "tenant": {"id": "unlisted"}, "request": {"model": "m"}}
	not d.allow
}
`,
	"schemas/tenants.json": `{"type": "object", "additionalProperties": {"$ref": "tenant.json"}}`,
	"schemas/tenant.json": `{"type": "object", "additionalProperties": false, "required": ["enabled", "pools"],
	"properties": {
  "enabled": {"type": "boolean"}, "models": {"type": "object"}, "pools": {"type": "array", "minItems": 1,
  "items": {"type": "string"}},
  "limits": {"type": "object"}, "priorities": {"type": "object"}, "trust_group": {"type": "string"},
  "cache": {"enum": ["tenant", "user", "group", "public", "none"]}}}`,
	"data/tenants/all.json": `{
  "acme": {"enabled": true, "models": {"m": true}, "pools": ["shared"], "limits": {"max_prompt_tokens": 1000},
  "priorities": {"high": true}},
  "globex": {"enabled": true, "models": {"m": true, "n": true}, "pools": ["ded"], "limits": {}, "cache": "user"},
  "initech": {"enabled": true, "models": {"m": true}, "pools": ["shared"], "limits": {}, "cache": "group",
  "trust_group": "g"},
  "open": {"enabled": true, "models": {"m": true}, "pools": ["shared"], "limits": {}, "cache": "public"},
  "secret": {"enabled": true, "models": {"m": true}, "pools": ["shared"], "limits": {}, "cache": "none"},
  "off": {"enabled": false, "pools": ["shared"], "limits": {}}
}`,
	"data/classes.json": `{"classes": {"standard": {"priority": 0}, "high": {"priority": 7}}}`,
}

// with returns base with files replaced, added, or, where the text is "", left out.
func with(change ...string) fstest.MapFS {
	f := fstest.MapFS{}
	for name, text := range base {
		f[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for i := 0; i < len(change); i += 2 {
		if delete(f, change[i]); change[i+1] != "" {
			f[change[i]] = &fstest.MapFile{Data: []byte(change[i+1])}
		}
	}
	return f
}

func load(t testing.TB, f fstest.MapFS, cfg Config) (*Snapshot, error) {
	t.Helper()
	src, err := Read(f, nil)
	if err != nil {
		return nil, err
	}
	cfg.Key = key32()
	return Load(src, cfg, nil)
}

func mustLoad(t testing.TB, f fstest.MapFS, cfg Config) *Snapshot {
	t.Helper()
	s, err := load(t, f, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSnapshot_decide(t *testing.T) {
	s := mustLoad(t, with(), Config{AllowPublicScope: true})
	if got, want := s.Inputs(), []string{"input.request.model", "input.request.priority",
		"input.tenant.id"}; !slices.Equal(got, want) {
		t.Errorf("inputs %v, want %v", got, want)
	}
	f := func(tenant, user, model, priority string) *Decision {
		t.Helper()
		in := ask(tenant, model)
		in.Principal.User, in.Priority = user, priority
		a, err := s.Decide(in)
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Uncached(in)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := s.Decide(in); again != a {
			t.Error("the decision was made twice")
		}
		if same(a, b) != "" {
			t.Errorf("cached and uncached differ: %s", same(a, b))
		}
		return a
	}
	d := f("acme", "", "m", "high")
	if !d.Allow || d.Priority != 7 || d.MaxPromptTokens != 1000 || d.Salt != Salt(key32(), ScopeTenant, "acme") ||
		d.Revision != s.Revision() ||
		!slices.Equal(d.Constraints[0].Values, []string{"shared"}) || !slices.Equal(d.Rules, []string{"allowed"}) {
		t.Errorf("got %+v", d)
	}
	if d := f("acme", "", "m", "other"); d.Priority != 0 {
		t.Errorf("got %+v", d)
	}
	if d := f("acme", "", "n", ""); d.Allow || d.Status != 404 || d.Reason != "model_not_allowed" || d.Salt != "" ||
		d.Scope != "" {
		t.Errorf("got %+v", d)
	}
	if d := f("unlisted", "", "m", ""); d.Allow || d.Status != 403 || d.Reason != "policy_undefined" {
		t.Errorf("got %+v", d)
	}
	u, v := f("globex", "u", "m", ""), f("globex", "v", "m", "")
	if u.Salt == v.Salt || len(u.Salt) != 43 || u.Namespace == v.Namespace || u.Scope != ScopeUser {
		t.Errorf("users: %+v %+v", u, v)
	}
	if d := f("globex", "", "m", ""); d.Scope != ScopeNone || d.Salt != "" {
		t.Errorf("no user: %+v", d)
	}
	if d := f("initech", "", "m", ""); d.Salt != Salt(key32(), ScopeGroup, "g") || d.Scope != ScopeGroup {
		t.Errorf("group: %+v", d)
	}
	if d := f("open", "", "m", ""); !d.Allow || d.Salt != "" || d.Scope != ScopePublic || d.Namespace != ScopePublic {
		t.Errorf("public: %+v", d)
	}
	if d := f("secret", "", "m", ""); !d.Allow || d.Salt != "" || d.Scope != ScopeNone {
		t.Errorf("none: %+v", d)
	}
	for _, in := range []*Input{{}, {Principal: new(identity.Principal)}} {
		if d, err := s.Decide(in); err != nil || d.Allow || d.Status != 401 {
			t.Errorf("got %+v %v", d, err)
		}
	}
	long := ask("acme", strings.Repeat("x", maxInputString+1))
	if d, err := s.Decide(long); err != nil || d.Allow || d.Reason != "input_invalid" {
		t.Errorf("got %+v %v", d, err)
	}
	if d, err := s.Decide(ask("acme", "a\x00b")); err != nil || d.Allow || d.Reason != "input_invalid" {
		t.Errorf("got %+v %v", d, err)
	}
}

func TestSnapshot_settings(t *testing.T) {
	s := mustLoad(t, with(), Config{})
	if d, err := s.Decide(ask("open", "m")); err != nil || d.Allow || d.Reason != "public_scope_not_allowed" ||
		d.Status != 503 {
		t.Errorf("got %+v %v", d, err)
	}
	s = mustLoad(t, with(), Config{RequiredLabels: []string{"pool", "region"}})
	if d, err := s.Decide(ask("acme", "m")); err != nil || d.Allow || d.Reason != "policy_incomplete" || d.Status != 503 ||
		d.Salt != "" {
		t.Errorf("got %+v %v", d, err)
	}
}

// same describes how two decisions differ, "" = not at all.
func same(a, b *Decision) string {
	x, y := *a, *b
	if err := equalJSON(x, y); err != nil {
		return err.Error()
	}
	return ""
}

// TestLoad_refused: policies with an error are refused, and each fault names its file,
// its line and a suggested fix.
func TestLoad_refused(t *testing.T) {
	f := func(what, file string, line int, want, fix string, change ...string) {
		t.Helper()
		_, err := load(t, with(change...), Config{})
		var all Faults
		if !errors.As(err, &all) {
			t.Errorf("%s: got %v", what, err)
			return
		}
		for _, x := range all {
			if x.File == file && (x.Line == line || line == 0) && strings.Contains(x.What, want) &&
				strings.Contains(x.Fix, fix) {
				return
			}
		}
		t.Errorf("%s: got\n%v", what, err)
	}
	decision := base["kvasir/decision.rego"]
	edit := func(old, new string) []string {
		t.Helper()
		if !strings.Contains(decision, old) {
			t.Fatalf("no %q in the policy", old)
		}
		return []string{"kvasir/decision.rego", strings.Replace(decision, old, new, 1)}
	}
	const file = "kvasir/decision.rego"
	f("schema typo", file, 17, "undefined ref", "model",
		edit("tenant.models[input.request.model]\n}", "tenant.models[input.request.modle]\n}")...)
	f("header", file, 0, "undefined ref", "unknown name", edit("tenant.enabled", `input.headers["x"] == "y"`)...)
	f("http", file, 0, "undefined function", "may not depend on it",
		edit("tenant.enabled", `http.send({"url": "x"}).status == 200`)...)
	f("time", file, 0, "undefined function", "may not depend on it", edit("tenant.enabled", "time.now_ns() > 1")...)
	f("random", file, 0, "undefined function", "may not depend on it", edit("tenant.enabled", `rand.intn("x", 3) == 1`)...)
	f("whole input", file, 0, "input as a whole", "name the fields", edit("tenant.enabled", `count(input) > 2`)...)
	f("walk", file, 0, "input as a whole", "name the fields", edit("tenant.enabled", "walk(input, [_, 1])")...)
	f("unused", file, 0, "unused", "use it", edit("tenant.enabled\n", "x := tenant.enabled\n")...)
	f("v0", file, 0, "if", "", edit("} if {\n	tenant.enabled\n	tenant.models", "} {\n	tenant.enabled\n	tenant.models")...)
	f("no such rule", file, 12, "no such rule data.kvasir.cash", `did you mean "cache"`,
		edit(`"cache": cache`, `"cache": data.kvasir.cash.scope`)...)
	f("no such package", "kvasir/z.rego", 3, "no such rule data.kvasir.isolatoin", "", "kvasir/z.rego",
		"package kvasir.z\n\nx := data.kvasir.isolatoin.constraints\n")
	f("misspelt field", file, 11, "unknown decision field contraints", `did you mean "constraints"`,
		edit(`"constraints"`, `"contraints"`)...)
	f("misspelt inner field", file, 11, "unknown decision field constraints[_].lable", `did you mean "label"`,
		edit(`"label"`, `"lable"`)...)
	f("allow no boolean", file, 10, "allow is a string", "a boolean", edit(`"allow": true`, `"allow": "yes"`)...)
	f("no default", file, 0, "does not deny by default", "write default", edit("default decision :=", "decision :=")...)
	f("default that allows", file, 0, "does not deny by default", "write default",
		edit(`default decision := {"allow": false`, `default decision := {"allow": true`)...)
	f("no decision", file, 0, "missing rule", "write package", edit("package kvasir", "package other")...)
	f("own test", "kvasir/decision_test.rego", 5, "test kvasir_test.test_denies_unknown: failed", "fix the rule",
		edit(`default decision := {"allow": false, "reason": "policy_undefined"}`,
			`default decision := {"allow": false, "reason": "x"}

decision := {"allow": true, "constraints": []} if not tenant`)...)
	f("endless test", "kvasir/x_test.rego", 3, "test kvasir_x_test.test_x: error", "fix",
		"kvasir/x_test.rego", `package kvasir_x_test

test_x if { some i in numbers.range(1, 100000000); i < 0 }
`)
	f("syntax", file, 0, "", "", edit("tenant.enabled", "tenant.enabled ((")...)
	f("no package", "kvasir/x.rego", 1, "package", "", "kvasir/x.rego", "x := 1\n")
	f("data typo", "data/tenants/all.json", 3, "/tenants/globex/pool: unknown field", `did you mean "pools"`,
		"data/tenants/all.json", "{\n\n\"globex\": {\"enabled\": true, \"pool\": [\"x\"], \"pools\": [\"x\"]}}")
	f("data type", "data/tenants/all.json", 2, "/tenants/globex/enabled: has type string", "boolean",
		"data/tenants/all.json", "{\n\"globex\": {\"enabled\": \"true\", \"pools\": [\"x\"]}}")
	f("data lacks", "data/tenants/all.json", 2, `missing required field "pools"`, "add it", "data/tenants/all.json",
		"{\n\"globex\": {\"enabled\": true}}")
	f("data twice", "data/tenants/b.json", 1, `duplicate key "enabled", also in data/tenants/all.json`, "delete one",
		"data/tenants/b.json", `{"acme": {"enabled": true, "pools": ["x"]}}`)
	f("data syntax", "data/tenants/b.json", 2, "invalid character", "JSON", "data/tenants/b.json", "{\n,")
	f("key twice", "data/classes.json", 2, "duplicate key", "", "data/classes.json", "{\"classes\": {},\n\"classes\": {}}")
	f("yaml", "data/x.yaml", 0, "YAML", "JSON", "data/x.yaml", "a: b")
	f("package as data", "data/x.json", 1, "is a package", "rename", "data/x.json", `{"kvasir": {}}`)
	f("priority", "data/classes.json", 1, "invalid priority", "whole number", "data/classes.json",
		`{"classes": {"high": {"priority": 1.5}}}`)
	f("schema keyword", "schemas/tenants.json", 1, "keyword", "did you mean", "schemas/tenants.json", `{"typ": "object"}`)
	f("schema syntax", "schemas/tenants.json", 1, "", "JSON", "schemas/tenants.json", `{"type": `)
	f("warm", file, 0, "invalid decision", "", edit(`default decision := {"allow": false, "reason": "policy_undefined"}`,
		`default decision := {"allow": false, "reason": "Not this way!"}`)...)
}

// TestLoad_all: faults of rules, data and schemas are reported together.
func TestLoad_all(t *testing.T) {
	_, err := load(t, with("kvasir/a.rego", "package a\nx if {", "kvasir/b.rego", "package b\ny {", "data/x.json", "{"),
		Config{})
	for _, want := range []string{"kvasir/a.rego:2:", "kvasir/b.rego:2:", "data/x.json:1:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestLoad_dataOnly: compiled rules are reused if only data changed.
func TestLoad_dataOnly(t *testing.T) {
	a := mustLoad(t, with(), Config{})
	src, err := Read(with("data/tenants/all.json", `{"acme": {"enabled": true, "models": {"m": true}, "pools": `+
		`["other"], "limits": {}}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Load(src, Config{Key: key32()}, a)
	if err != nil {
		t.Fatal(err)
	}
	if a.prog.compiler != b.prog.compiler {
		t.Error("the rules were compiled again")
	}
	x, _ := a.Decide(ask("acme", "m"))
	y, _ := b.Decide(ask("acme", "m"))
	if x.Constraints[0].Values[0] != "shared" || y.Constraints[0].Values[0] != "other" || x.Revision == y.Revision ||
		x.Salt != y.Salt {
		t.Errorf("got %+v %+v", x, y)
	}
}

// TestSnapshot_test: tests that do not end in time are an error, not a coverage of 0.
func TestSnapshot_test(t *testing.T) {
	files := with("kvasir/own_test.rego", "package kvasir_test\n\ntest_version if data.kvasir.decision.allow == false\n")
	s := mustLoad(t, files, Config{NoTests: true})
	if results, coverage, err := s.Test(); err != nil || len(results) != 2 || coverage <= 0 {
		t.Errorf("got %+v, %v %%, %v", results, coverage, err)
	}
	s.cfg.TestTime = 1 // ns
	if _, coverage, err := s.Test(); err == nil || !strings.Contains(err.Error(), "the tests took longer than") ||
		coverage != 0 {
		t.Errorf("out of time: %v %%, %v", coverage, err)
	}
}
