package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/kvasir-router/kvasir/host/identity"
)

// devious are policies that refer to their input in ways that are hard to analyse.
// Each defines x, which becomes part of the decision.
var devious = map[string]string{
	"plain":          `x := input.request.model`,
	"alias":          "y := input.tenant\n\nx := y.user",
	"alias of alias": "y := input.request\n\nz := y.labels\n\nx := z.a",
	"local alias":    "x := v if {\n\tq := input.request\n\tv := q.priority\n}",
	"argument":       "f(a) := a.model\n\nx := f(input.request)",
	"function reads": "f(a) := [a, input.tenant.user]\n\nx := f(1)",
	"function chain": "f(a) := g(a.auth)\n\ng(b) := b.method\n\nx := f(input.tenant)",
	"function else": "f(a) := 1 if a == \"m0\" else := 2 if input.request.stream else := 3\n\nx := " +
		"f(input.request.model)",
	"default function": "default f(_) := \"none\"\n\nf(a) := input.request.labels[a] if a != \"\"\n\nx := f(\"b\")",
	"function by data": "f(k) := input.request[k]\n\nx := f(data.key)",
	"dynamic key":      "x := input.request[data.key]",
	"dynamic keys":     "x := [input.tenant[k] | some k in [\"user\", \"id\"]]",
	"key from input":   "x := input.request.labels[input.tenant.user]",
	"key by local":     "x := v if {\n\tk := \"model\"\n\tv := input.request[k]\n}",
	"brackets":         `x := input["tenant"]["auth"]["method"]`,
	"with input part": "y := [input.request.model, input.tenant.user]\n\nx := v if {\n\tv := y with " +
		"input.request.model as \"z\"\n}",
	"with whole":    "y := input.request.model\n\nx := v if {\n\tv := y with input as data.document\n}",
	"with data":     "y := data.key\n\nx := v if {\n\tv := y with data.key as input.request.adapter\n}",
	"with function": "f(a) := a\n\ng(_) := input.tenant.user\n\nx := v if {\n\tv := f(1) with f as g\n}",
	"else": "x := 1 if input.request.stream else := 2 if input.router.hour_utc > 12 else := " +
		"input.tenant.id",
	"every": "default x := 0\n\nx := 1 if {\n\tevery g in input.tenant.groups {\n\t\tg != \"g1\"\n\t}\n}",
	"every reads": "default x := 0\n\nx := 1 if {\n\tevery g in [\"g0\", \"g1\"] {\n\t\tg in " +
		"input.tenant.groups\n\t}\n}",
	"set comprehension":    "x := count({g | some g in input.tenant.groups; g != input.tenant.user})",
	"object comprehension": "x := {k: v | some k, v in input.request.labels; k != \"a\"}",
	"nested comprehension": "x := [[a, b] | some a in input.tenant.groups; b := [s | some s in input.tenant.scopes; s " +
		"!= a]]",
	"walk":            "x := count([p | walk(input.request, [p, \"m1\"])])",
	"walk labels":     "x := [v | walk(input.request.labels, [p, v]); count(p) == 1]",
	"negation":        "default x := 0\n\nx := 1 if not input.request.labels.a",
	"double negation": "default x := 0\n\nx := 1 if not no\n\nno if not input.request.labels.b == \"1\"",
	"partial set": "s contains input.request.model\n\ns contains input.tenant.id if input.request.stream\n\nx " +
		":= s",
	"partial object":     "o[input.tenant.id] := input.request.model\n\nx := o",
	"deep head":          "o[input.tenant.id].models contains input.request.model\n\nx := o",
	"object.get":         "x := object.get(input.request, \"model\", \"none\")",
	"object.get label":   "x := object.get(input.request.labels, \"a\", \"none\")",
	"object.get path":    "x := object.get(input.tenant, [\"auth\", \"method\"], \"none\")",
	"object.union":       "x := object.union(input.request.labels, {\"z\": \"1\"})",
	"json.marshal":       "x := json.marshal(input.router)",
	"json.filter":        "x := json.filter(input.request, [\"model\", \"labels/a\"])",
	"data by input":      "default x := \"none\"\n\nx := data.table[input.tenant.id][input.request.model]",
	"data key by input":  "x := data.table.t0[input.request.model] if input.tenant.id == \"t0\" else := input.tenant.id",
	"iteration":          "x := {v | v := input.request.labels[_]}",
	"iteration with key": "x := {k | input.request.labels[k] == \"1\"}",
	"in with key":        "default x := 0\n\nx := 1 if \"a\", \"1\" in input.request.labels",
	"index":              "default x := \"none\"\n\nx := input.tenant.groups[0]",
	"index variable":     "default x := \"none\"\n\nx := i if some i, \"g1\" in input.tenant.groups",
	"array pattern":      "x := b if {\n\t[_, b] := [input.tenant.id, input.request.stream]\n}",
	"object pattern":     "default x := 0\n\nx := m if {\n\tinput.tenant.auth = {\"method\": m, \"issuer\": _}\n}",
	"unification":        "default x := 0\n\nx := a if {\n\t[a, \"m1\"] = [input.tenant.user, input.request.model]\n}",
	"hour":               "x := input.router.hour_utc % 5",
	"strings":            "x := concat(\"/\", [upper(input.request.model), split(input.tenant.user, \"u\")[1]])",
	"reachable":          "x := graph.reachable(data.graph, {input.request.model})",
	"or":                 "x if input.request.stream\n\nx if input.tenant.user == \"u1\"",
	"sorted":             "x := sort(array.concat(input.tenant.groups, input.tenant.scopes))",
	"whole branch":       "x := input.router",
	"type test":          "x := [is_string(input.tenant.user), count(input.tenant.scopes)]",
	"equal branches":     "default x := 0\n\nx := 1 if input.tenant.auth == data.auth",
	"default over default": "default y := 1\n\ny := 2 if input.request.size_class == \"s\"\n\ndefault z := 3\n\nz := y " +
		"if input.router.region == \"r1\"\n\nx := z",
}

// whole are policies whose decisions may depend on the whole input: they are refused,
// because no part of the input could be the cache key.
var whole = map[string]string{
	"value":      `x := input`,
	"walk":       `x := [p | walk(input, [p, "m1"])]`,
	"iteration":  `x := [k | input[k]]`,
	"argument":   "f(a) := a.request.model\n\nx := f(input)",
	"count":      `x := count(input)`,
	"marshal":    `x := json.marshal(input)`,
	"keys":       `x := object.keys(input)`,
	"get":        `x := object.get(input, ["request", "model"], "")`,
	"dynamic":    `x := input[data.key]`,
	"from input": `x := [input[k] | some k in ["request"]]`,
	"equality":   `x if input == data.document`,
}

const deviousData = `{"key": "model", "table": {"t0": {"m0": "a", "m1": "b"}, "t1": {"m0": "c"}},
 "graph": {"m0": ["m1"], "m1": ["m2"], "m2": []},
 "auth": {"method": "jwt", "issuer": "i"}, "document": {"request": {"model": "m"}},
 "classes": {"standard": {"priority": 1}}}`

func deviousPolicy(x string) fstest.MapFS {
	return fstest.MapFS{
		"data/data.json": {Data: []byte(deviousData)},
		"kvasir/decision.rego": {Data: []byte(`package kvasir

default decision := {"allow": false, "reason": "no"}

decision := {
	"allow": true,
	"constraints": [{"label": "pool", "op": "in", "values": ["p"]}],
	"rate_class": sprintf("%v", [x]),
}

` + x + "\n")},
	}
}

// randomInput chooses from few values, so that inputs repeat.
func randomInput(r *rand.Rand) *Input {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	some := func(words ...string) (out []string) {
		for _, w := range words {
			if r.IntN(2) == 0 {
				out = append(out, w)
			}
		}
		return out
	}
	in := &Input{
		Principal: &identity.Principal{Tenant: pick("t0", "t1", "t2"), User: pick("", "u1", "u2", "a"),
			Groups: some("g0", "g1"), Scopes: some("s0", "s1"),
			Method: pick("jwt", "api_key"), Issuer: pick("i", "")},
		Operation: pick("chat.completions", "models"), Model: pick("m0", "m1", "m2"), Adapter: pick("", "l"),
		Stream:   r.IntN(2) == 0,
		Priority: pick("", "high"), SizeClass: pick("s", "m"), Region: pick("r1", "r2"), HourUTC: r.IntN(24),
		CapacityState: pick("ok", "scarce"),
	}
	for _, name := range some("a", "b", "c") {
		in.Labels = append(in.Labels, Label{Name: name, Value: pick("0", "1")})
	}
	return in
}

// oracle decides with upstream's evaluator over the whole document. It is built from
// the text of the modules and uses no part of the snapshot.
func oracle(t testing.TB, f fstest.MapFS) func(in *Input) (*verdict, error) {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(f["data/data.json"].Data, &data); err != nil {
		t.Fatal(err)
	}
	q, err := rego.New(rego.Query("data.kvasir.decision"),
		rego.Module("decision.rego", string(f["kvasir/decision.rego"].Data)),
		rego.Data(data), rego.GenerateJSON(asTerm)).PrepareForEval(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return func(in *Input) (*verdict, error) {
		var doc any
		if err := json.Unmarshal(inputJSON(in), &doc); err != nil {
			return nil, err
		}
		rs, err := q.Eval(context.Background(), rego.EvalInput(doc))
		if err != nil || len(rs) != 1 {
			return nil, fmt.Errorf("%v %w", rs, err)
		}
		term, ok := rs[0].Expressions[0].Value.(*ast.Term)
		if !ok {
			return nil, errors.New("no term")
		}
		return decode(term.Value, map[string]int{"standard": 1})
	}
}

// differ compares cached decisions with the oracle's for n inputs per policy.
func differ(t *testing.T, n int) {
	total, hits := 0, uint64(0)
	for name, x := range devious {
		f := deviousPolicy(x)
		s, err := load(t, f, Config{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		decideByOracle := oracle(t, f)
		r := rand.New(rand.NewPCG(1, uint64(len(name))))
		for range n {
			in := randomInput(r)
			got, err := s.Decide(in)
			want, werr := decideByOracle(in)
			if err != nil || werr != nil {
				t.Errorf("%s: %v, oracle %v", name, err, werr)
				break
			}
			if d := same(stripped(got), stripped(s.bind(want, in))); d != "" {
				t.Errorf("%s: input %s: %s", name, inputJSON(in), d)
				break
			}
			total++
		}
		hits += s.cfg.Counters.Stats().Hits
	}
	if len(devious) < 40 || hits == 0 {
		t.Errorf("%d policies, %d hits", len(devious), hits)
	}
	t.Logf("%d decisions of %d policies, %d from the cache", total, len(devious), hits)
}

// stripped returns a decision without the fields that an oracle does not set.
func stripped(d *Decision) *Decision {
	c := *d
	c.Rules, c.Revision = nil, ""
	return &c
}

// TestSnapshot_differential: a cached decision equals the decision of upstream OPA for
// the whole input, for each of the devious policies.
func TestSnapshot_differential(t *testing.T) { differ(t, 150) }

func TestLoad_wholeInput(t *testing.T) {
	for name, x := range whole {
		if _, err := load(t, deviousPolicy(x), Config{}); err == nil || !strings.Contains(err.Error(), "input as a whole") ||
			!strings.Contains(err.Error(), "kvasir/decision.rego:") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
