package wasm

import (
	"strings"
	"testing"
)

// FuzzParseManifest: no manifest panics, and none that is accepted breaks the
// rules the host relies on.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"name":"a","version":"1","abi":"1.0","roles":{"score":{"columns":["waiting",{"name":"b",` +
		`"optional":true}],"terms":["x"],"unit":"unit"}}}`))
	f.Add([]byte(`{"name":"a","version":"1","abi":"1.0","roles":{"observe":{}},"publishes":[{"name":"a/b","default":1}],` +
		`"state_version":3,"config_schema":{"x":[1,{}]}}`))
	f.Add([]byte(`{"name":"a","name":"b"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseManifest(text)
		if err != nil {
			return
		}
		if !validName(m.Name) || m.Roles == ([NumRoles]*RoleSpec{}) {
			t.Fatalf("accepted %+v", m)
		}
	})
}

func TestParseManifest(t *testing.T) {
	const good = `{"name":"my-scorer","version":"1.2","abi":"1.0","x-note":{"any":1},"roles":{
		"score":{"columns":["waiting",{"name":"label/a=b","optional":true}],
		"request":["objective"],"terms":["hit"],"unit":"cost_tokens","x-y":1},
		"filter":{"reasons":["no"]},"configure":{},"idle":{},"observe":{"columns":[]}},
		"publishes":[{"name":"me/rate","default":1.5}],"imports":["kvasir:log/1"],"state_version":7,"config_schema":{}}`
	m, err := ParseManifest([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "my-scorer" || m.StateVersion != 7 || m.Publishes[0] != (Publication{"me/rate", 1.5}) ||
		!m.Roles[Score].Columns[1].Optional ||
		m.Roles[Score].Unit != "cost_tokens" || m.Roles[Filter].Reasons[0] != "no" || m.Roles[Pick] != nil ||
		m.Imports[0] != "kvasir:log/1" {
		t.Errorf("got %+v", m)
	}
	role := func(r string) string { return `{"name":"a","version":"1","abi":"1.0","roles":{` + r + `}}` }
	for _, bad := range []string{
		``, `[]`, `{}`, good + `x`, "{\"name\":\"\xff\"}", role(``), role(`"configure":{}`), role(`"score":[]`),
		role(`"score":{"columns":"x"}`), role(`"score":{"columns":[1]}`), role(`"score":{"columns":[""]}`),
		role(`"score":{"reasons":[]}`), role(`"score":{"unit":"ms"}`), role(`"Score":{}`),
		role(`"score":{"columns":[{"name":"a","optional":1}]}`),
		role(`"score":{"columns":[{"name":"a","name":"b"}]}`), role(`"score":{"columns":[{"nom":"a"}]}`),
		role(`"score":{}},"publishes":[{"name":"a/b"}`), role(`"observe":{}},"publishes":[{"name":"ab"}]`),
		role(`"score":{}},"state_version":-1`), role(`"score":{}},"state_version":1.5`),
		role(`"score":{}},"imports":["a","a"]`), role(`"configure":{"columns":[]},"score":{}`),
		`{"name":"A","version":"1","abi":"1.0","roles":{"score":{}}}`,
		`{"name":"a","version":"","abi":"1.0","roles":{"score":{}}}`,
		`{"Name":"a","name":"b","version":"1","abi":"1.0","roles":{"score":{}}}`,
	} {
		if m, err := ParseManifest([]byte(bad)); err == nil {
			t.Errorf("accepted %s as %+v", bad, m)
		}
	}
}

// TestManifest_checkConfig: a configuration is checked by the manifest's schema.
func TestManifest_checkConfig(t *testing.T) {
	const schema = `{"type":"object","required":["objective"],"additionalProperties":false,"title":"ignored",` +
		`"properties":{"objective":{"enum":["ttft","blend"]},"n":{"type":"integer","minimum":1,"maximum":3},` +
		`"hours":{"type":"array","maxItems":2,"items":{"type":["number","null"]}},"name":{"type":"string","minLength":2,` +
		`"pattern":"^[^A-Z]*$"},"at":{"additionalProperties":{"anyOf":[{"type":"string"},{"items":{"type":"number"}}]}},` +
		`"any":true,"deep":{"type":"object","additionalProperties":{"type":"boolean"}}}}`
	parse := func(schema string) (*Manifest, error) {
		return ParseManifest([]byte(`{"name":"a","version":"1","abi":"1.0","roles":{"score":{},"configure":{}},` +
			`"config_schema":` + schema + `}`))
	}
	m, err := parse(schema)
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]string{
		`{"objective":"ttft","n":2.0,"hours":[1,null],"name":"ab","any":[{}],"deep":{"x":true}}`: "",
		`{"objektive":"ttft"}`: "config: additional properties 'objektive' not allowed; " +
			"config: missing property 'objective'",
		`{}`:                                   "config: missing property 'objective'",
		`{"objective":"fast"}`:                 "config.objective: value must be one of 'ttft', 'blend'",
		`{"objective":"ttft","n":4}`:           "config.n: maximum: got 4, want 3",
		`{"objective":"ttft","n":0}`:           "config.n: minimum: got 0, want 1",
		`{"objective":"ttft","n":1.5}`:         "config.n: got number, want integer",
		`{"objective":"ttft","n":1e-9999999}`:  "config.n: number 1e-9999999 is out of range",
		`{"objective":"ttft","hours":[1,2,3]}`: "config.hours: maxItems: got 3, want 2",
		`{"objective":"ttft","hours":[1,"x"]}`: "config.hours[1]: got string, want null or number",
		`{"objective":"ttft","name":"é"}`:      "config.name: minLength: got 1, want 2",
		`{"objective":"ttft","name":"AB"}`:     "config.name: 'AB' does not match pattern '^[^A-Z]*$'",
		`{"objective":"ttft","deep":{"x":1}}`:  "config.deep.x: got number, want boolean",
		`{"objective":"ttft","at":{"0":[true]}}`: "config.at.0: 'anyOf' failed " +
			"(config.at.0: got array, want string; config.at.0[0]: got boolean, want number)",
		`[]`: "config: not an object",
	} {
		got := ""
		if err := m.CheckConfig([]byte(config)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
	}
	for _, bad := range []string{`{"type":"text"}`, `{"properties":[]}`, `{"minimum":"1"}`, `{"required":"x"}`,
		`{"properties":{"x":{"type":7}}}`, `{"pattern":"("}`, `{"minimum":1e999999}`, `{"multipleOf":0}`,
		`{"$schema":"http://example.com/schema"}`} {
		if _, err := parse(bad); err == nil || !strings.Contains(err.Error(), "config_schema") {
			t.Errorf("schema %s: %v", bad, err)
		}
	}
}

// TestManifest_references: a schema of references, whose check would double its work with
// each line, is refused.
func TestManifest_references(t *testing.T) {
	manifest := func(schema string) []byte {
		return []byte(`{"name":"a","version":"1","abi":"1.0","roles":{"score":{},"configure":{}},"config_schema":` +
			schema + `}`)
	}
	for _, key := range referenceKeywords {
		_, err := ParseManifest(manifest(`{"$defs":{"a":{}},"properties":{"x":{"allOf":[{"` + key + `":"#/$defs/a"}]}}}`))
		want := "config_schema.properties.x.allOf[0]: " + key + " is not supported: write the schema in its place"
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", key, err, want)
		}
	}
	m, err := ParseManifest(manifest(`{"properties":{"$ref":{"type":"string"}},"required":["$ref"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.CheckConfig([]byte(`{"$ref":"x"}`)); err != nil {
		t.Error(err)
	}
}

// FuzzConfigSchema: no schema and no configuration panics.
func FuzzConfigSchema(f *testing.F) {
	f.Add([]byte(`{"type":"object","minProperties":1,"properties":{"a":{"multipleOf":0.5,"maximum":1e3}}}`),
		[]byte(`{"a":2}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-04/schema#","id":"a","not":{"enum":[1,[{}]]}}`), []byte(`{}`))
	f.Add([]byte(`{"propertyNames":{"pattern":"^a+$"},"uniqueItems":true,"if":{},"then":false}`), []byte(`{"b":[1,1.0]}`))
	f.Add([]byte(`{"$id":"x","$anchor":"y","unevaluatedProperties":false,"dependentSchemas":{"a":{}}}`),
		[]byte(`{"a":1e-308}`))
	f.Fuzz(func(t *testing.T, schema, config []byte) {
		o, err := parseObject(schema)
		if err != nil {
			return
		}
		s, err := readSchema("config_schema", o)
		if err != nil {
			return
		}
		first := s.check(config)
		if again := s.check(config); (first == nil) != (again == nil) || first != nil && first.Error() != again.Error() {
			t.Errorf("first %v, then %v", first, again)
		}
	})
}
