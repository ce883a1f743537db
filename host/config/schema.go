package config

//go:generate go test -count=1 -run TestDocs_current . -args -update

import (
	"encoding/json"
	"reflect"
)

// Schema returns the JSON Schema of the configuration file. The description of each
// key has its meaning and the reason of its default.
func Schema() []byte {
	s := schemaOf(reflect.TypeFor[Config]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "kvasir.yaml"
	s["required"] = []string{"listen", "identity", "pools", "models"}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("BUG: config: " + err.Error())
	}
	return append(b, '\n')
}

var scalars = map[reflect.Type]map[string]any{
	reflect.TypeFor[Duration](): {"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$`},
	reflect.TypeFor[Size]():     {"type": "string", "pattern": `^[0-9]+ ?(B|KiB|MiB|GiB|TiB)$`},
	reflect.TypeFor[JSON]():     {"type": "object"},
	reflect.TypeFor[AutoInt](): {
		"oneOf": []any{map[string]any{"type": "integer", "minimum": 1}, map[string]any{"const": "auto"}},
	},
}

func schemaOf(t reflect.Type) map[string]any {
	if s, ok := scalars[t]; ok {
		return clone(s)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Int:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Struct:
		return structSchema(t)
	}
	panic("BUG: config: no schema for " + t.String())
}

func structSchema(t reflect.Type) map[string]any {
	props := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("yaml") == "-" {
			continue
		}
		p := schemaOf(f.Type)
		p["description"] = docs[docKey(t, f)]
		props[f.Tag.Get("yaml")] = p
	}
	s := map[string]any{"type": "object", "properties": props, "additionalProperties": false}
	if t == reflect.TypeFor[Listen]() || t == reflect.TypeFor[ModelPool]() {
		return map[string]any{"oneOf": []any{map[string]any{"type": "string"}, s}}
	}
	return s
}

// docKey returns the key in docs of field f of struct type t.
func docKey(t reflect.Type, f reflect.StructField) string { return t.String() + "." + f.Name }

func clone(m map[string]any) map[string]any {
	c := make(map[string]any, len(m)+1)
	for k, v := range m {
		c[k] = v
	}
	return c
}
