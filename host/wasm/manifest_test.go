package wasm

import "testing"

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
		`"hours":{"type":"array","maxItems":2,"items":{"type":["number","null"]}},"name":{"type":"string","minLength":2},` +
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
		`{"objektive":"ttft"}`:                 `config: unknown key "objektive"`,
		`{}`:                                   `config: missing required key "objective"`,
		`{"objective":"fast"}`:                 `config.objective: "fast": want one of ["ttft","blend"]`,
		`{"objective":"ttft","n":4}`:           "config.n: want at most 3, got 4",
		`{"objective":"ttft","n":0}`:           "config.n: want at least 1, got 0",
		`{"objective":"ttft","n":1.5}`:         "config.n: want integer",
		`{"objective":"ttft","hours":[1,2,3]}`: "config.hours: want at most 2 entries, got 3",
		`{"objective":"ttft","hours":[1,"x"]}`: "config.hours[1]: want number or null",
		`{"objective":"ttft","name":"é"}`:      "config.name: want at least 2 characters, got 1",
		`{"objective":"ttft","deep":{"x":1}}`:  "config.deep.x: want boolean",
		`[]`:                                   "config: not an object",
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
		`{"properties":{"x":{"type":7}}}`} {
		if _, err := parse(bad); err == nil {
			t.Errorf("accepted the schema %s", bad)
		}
	}
}
