package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/rego"
)

// oracleSchema reports whether a document satisfies a schema according to OPA's own
// validator, json.match_schema.
func oracleSchema(t testing.TB) func(doc, schema any) (bool, error) {
	t.Helper()
	q, err := rego.New(rego.Query("[ok, _] := json.match_schema(input.document, input.schema)")).PrepareForEval(
		context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return func(doc, schema any) (bool, error) {
		rs, err := q.Eval(context.Background(), rego.EvalInput(map[string]any{"document": doc, "schema": schema}))
		if err != nil {
			return false, err
		}
		if len(rs) != 1 {
			return false, errors.New("no answer")
		}
		return rs[0].Bindings["ok"] == true, nil
	}
}

// schemaCases are schemas and documents; each schema is tested with each document.
var schemaCases = []string{
	`true`, `{}`, `{"type": "object"}`, `{"type": ["string", "null"]}`, `{"type": "integer"}`,
	`{"enum": ["a", 1, null, [1], {"a": 1}]}`, `{"const": {"a": [1, 2]}}`,
	`{"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}`,
	`{"properties": {"a": {"type": "number"}}, "additionalProperties": false}`,
	`{"properties": {"a": true}, "additionalProperties": {"type": "string"}}`,
	`{"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": false}`,
	`{"propertyNames": {"pattern": "^[a-b]+$"}}`, `{"minProperties": 1, "maxProperties": 2}`,
	`{"items": {"type": "string"}}`, `{"minItems": 1, "maxItems": 2}`, `{"uniqueItems": true}`,
	`{"type": "string", "minLength": 1, "maxLength": 3}`, `{"pattern": "^a.c$"}`, `{"minimum": 1, "maximum": 3}`,
	`{"exclusiveMinimum": 1, "exclusiveMaximum": 3}`,
	`{"anyOf": [{"type": "string"}, {"type": "number"}]}`, `{"allOf": [{"minimum": 1}, {"maximum": 3}]}`,
	`{"oneOf": [{"minimum": 1}, {"maximum": 3}]}`, `{"not": {"type": "string"}}`,
	`{"definitions": {"w": {"type": "string", "minLength": 2}}, "items": {"$ref": "#/definitions/w"}}`,
	`{"definitions": {"n": {"properties": {"a": {"$ref": "#/definitions/n"}}, "additionalProperties": false}}, "$ref": ` +
		`"#/definitions/n"}`,
	`{"type": "object", "properties": {"b": {"type": "array", "items": {"enum": ["x", "y"]}, "minItems": 1}}}`,
}

var documentCases = []string{
	`null`, `true`, `0`, `1`, `1.0`, `1.5`, `3`, `-2`, `1e2`, `""`, `"a"`, `"abc"`, `"äöü"`, `"abcd"`, `[]`, `[1]`,
	`["a"]`, `["a", "a"]`, `["ab", "abc"]`, `[1, 1.0]`, `[1, 2, 3]`, `[{"a": 1}, {"a": 1}]`,
	`{}`, `{"a": 1}`, `{"a": "x"}`, `{"a": "x", "b": ["x"]}`, `{"b": []}`, `{"b": ["z"]}`, `{"ab": "x"}`, `{"c": 1}`,
	`{"a": {"a": {}}}`, `{"a": {"a": {"b": 1}}}`, `{"a": [1, 2]}`, `{"a": 1, "b": 2, "c": 3}`,
}

// TestSchema_oracle: our validator and OPA's agree on every schema and document.
func TestSchema_oracle(t *testing.T) {
	ask := oracleSchema(t)
	n := 0
	for _, text := range schemaCases {
		var f faults
		s := readSchemas(&Source{schemas: map[string][]byte{"x": []byte(text)}}, &f)["x"]
		if err := f.err(); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var schema any
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		if _, ok := schema.(map[string]any); !ok {
			continue // OPA takes objects only
		}
		for _, d := range documentCases {
			var doc any
			if err := json.Unmarshal([]byte(d), &doc); err != nil {
				t.Fatal(err)
			}
			switch doc.(type) {
			case map[string]any:
			default: // OPA takes objects only: try the value inside one
				doc, d = map[string]any{"v": doc}, `{"v": `+d+`}`
				wrapped := map[string]any{"properties": map[string]any{"v": schema}}
				if defs, ok := schema.(map[string]any)["definitions"]; ok {
					wrapped["definitions"] = defs
				}
				check(t, ask, doc, wrapped, d, &schemaAt{s})
				n++
				continue
			}
			check(t, ask, doc, schema, d, &schemaAt{s})
			n++
		}
	}
	t.Logf("%d pairs", n)
}

// TestSchema_endless: validation by schemas that refer to themselves on the same value
// terminates.
func TestSchema_endless(t *testing.T) {
	for _, text := range []string{`{"allOf": [{"$ref": "#"}]}`, `{"not": {"$ref": "#"}}`,
		`{"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "not": {"$ref": "#"}}`, `{"$ref": "#"}`} {
		var f faults
		s := readSchemas(&Source{schemas: map[string][]byte{"x": []byte(text)}}, &f)["x"]
		n, _ := parseJSON([]byte(`{"a": 1}`))
		steps := 100_000
		s.within(n, "", schemaWalk{maxSchemaDepth, &steps})
	}
}

// schemaAt is a schema of a document, or of its member v.
type schemaAt struct{ s *schema }

func check(t *testing.T, ask func(doc, schema any) (bool, error), doc, schema any, text string, at *schemaAt) {
	t.Helper()
	want, err := ask(doc, schema)
	if err != nil {
		t.Errorf("%v %s: oracle: %v", schema, text, err)
		return
	}
	n, bad := parseJSON([]byte(text))
	if bad != nil {
		t.Fatal(bad.what)
	}
	if v := n.get("v"); v != nil {
		n = v
	}
	if got := at.s.validate(n, ""); (len(got) == 0) != want {
		t.Errorf("%v with %s: got %v, want %v as OPA", schema, text, got, want)
	}
}

// FuzzParseJSON: encoding/json accepts each text that parseJSON accepts, with the same
// value, and each error of parseJSON has a position in the text.
func FuzzParseJSON(f *testing.F) {
	for _, s := range append(documentCases, schemaCases...) {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"a": 1, "a": 2}`))
	f.Add([]byte(`[1] 2`))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, bad := parseJSON(text)
		var v any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err := d.Decode(&v)
		if err == nil {
			if _, e := d.Token(); !errors.Is(e, io.EOF) {
				err = errors.New("more")
			}
		}
		if bad != nil {
			if bad.at < 0 || bad.at > len(text)+1 {
				t.Errorf("%q: fault at %d", text, bad.at)
			}
			if line, col := lineCol(text, bad.at); line < 1 || col < 1 {
				t.Errorf("%q: %d:%d", text, line, col)
			}
			if err == nil && !strings.Contains(bad.what, "duplicate key") && !strings.Contains(bad.what, "nested more than") {
				t.Errorf("%q: refused: %s", text, bad.what)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: accepted, but %v", text, err)
		}
		got, want := n.plain(), v
		if string(mustJSON(got)) != string(mustJSON(want)) {
			t.Errorf("%q: got %s, want %s", text, mustJSON(got), mustJSON(want))
		}
	})
}

// plain returns the value as encoding/json decodes it.
func (n *jsonNode) plain() any {
	switch n.kind {
	case jsonBool:
		return n.yes
	case jsonNumber:
		return json.Number(n.text)
	case jsonString:
		return n.text
	case jsonArray:
		out := []any{}
		for _, e := range n.elems {
			out = append(out, e.plain())
		}
		return out
	case jsonObject:
		out := map[string]any{}
		for i, k := range n.keys {
			out[k] = n.elems[i].plain()
		}
		return out
	}
	return nil
}

// FuzzSchema: no schema and no data cause a panic of the validator.
func FuzzSchema(f *testing.F) {
	for i, s := range schemaCases {
		f.Add([]byte(s), []byte(documentCases[i%len(documentCases)]))
	}
	f.Fuzz(func(t *testing.T, text, doc []byte) {
		var fs faults
		s := readSchemas(&Source{schemas: map[string][]byte{"x": text}}, &fs)["x"]
		if n, bad := parseJSON(doc); bad == nil && s != nil && fs.err() == nil && len(text) < 500 && len(doc) < 500 {
			s.validate(n, "")
		}
	})
}
