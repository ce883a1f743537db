package wasm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// configSchema is the part of JSON Schema that a manifest's config_schema is checked by:
// type, enum, const, properties, required, additionalProperties, items, minItems,
// maxItems, minimum, maximum, minLength and maxLength. Other keywords are ignored, as
// JSON Schema has it. The zero configSchema accepts everything.
type configSchema struct {
	types      []string
	enum       []any
	required   []string
	properties map[string]*configSchema
	closed     bool          // no members but properties
	additional *configSchema // of other members; nil = any
	items      *configSchema // nil = any
	limits     map[string]float64
}

// schemaLimits are the keywords whose value is a number.
var schemaLimits = []string{"minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"}

// schemaTypes are the names of types.
var schemaTypes = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// readSchema reads a schema: an object, or true for any value.
func readSchema(at string, v any) (*configSchema, error) {
	s := &configSchema{limits: map[string]float64{}}
	if v == true {
		return s, nil
	}
	o, err := wantObject(at, v)
	if err != nil {
		return nil, err
	}
	for _, m := range o.members {
		if err := s.keyword(at+"."+m.key, m.key, m.value); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *configSchema) keyword(at, key string, v any) (err error) {
	switch key {
	case "type":
		return s.readTypes(at, v)
	case "enum":
		s.enum, err = wantList(at, v, maxColumns)
	case "const":
		s.enum = []any{v}
	case "required":
		s.required, err = wantStrings(at, v, maxColumns)
	case "properties":
		return s.readProperties(at, v)
	case "additionalProperties":
		if s.closed = v == false; !s.closed {
			s.additional, err = readSchema(at, v)
		}
	case "items":
		s.items, err = readSchema(at, v)
	}
	if slices.Contains(schemaLimits, key) {
		f, ok := number(v)
		if s.limits[key] = f; !ok {
			return fmt.Errorf("%s is not a number", at)
		}
	}
	return err
}

func (s *configSchema) readTypes(at string, v any) (err error) {
	s.types = []string{""}
	if name, ok := v.(string); ok {
		s.types[0] = name
	} else if s.types, err = wantStrings(at, v, len(schemaTypes)); err != nil {
		return err
	}
	for _, t := range s.types {
		if !slices.Contains(schemaTypes, t) {
			return fmt.Errorf("%s is %q, want one of %s", at, t, strings.Join(schemaTypes, ", "))
		}
	}
	return nil
}

func (s *configSchema) readProperties(at string, v any) error {
	o, err := wantObject(at, v)
	if err != nil {
		return err
	}
	s.properties = map[string]*configSchema{}
	for _, m := range o.members {
		if s.properties[m.key], err = readSchema(at+"."+m.key, m.value); err != nil {
			return err
		}
	}
	return nil
}

// check returns what of a configuration, as text, does not fit, nil = it fits.
func (s *configSchema) check(config []byte) error {
	o, err := parseObject(config)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return s.value("config", o)
}

func (s *configSchema) value(at string, v any) error {
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, func(t string) bool { return isType(v, t) }) {
		return fmt.Errorf("%s: want %s", at, strings.Join(s.types, " or "))
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e any) bool { return sameJSON(e, v) }) {
		return fmt.Errorf("%s: %s: want one of %s", at, jsonText(v), jsonText(s.enum))
	}
	switch v := v.(type) {
	case *object:
		return s.members(at, v)
	case []any:
		return s.elements(at, v)
	case string:
		return s.within(at, float64(utf8.RuneCountInString(v)), "minLength", "maxLength", " characters")
	case json.Number:
		f, _ := number(v)
		return s.within(at, f, "minimum", "maximum", "")
	}
	return nil
}

func (s *configSchema) members(at string, o *object) error {
	seen := map[string]bool{}
	for _, m := range o.members {
		seen[m.key] = true
		sub := s.properties[m.key]
		if sub == nil {
			if s.closed {
				return fmt.Errorf("%s: unknown key %q", at, m.key)
			}
			sub = s.additional
		}
		if sub != nil {
			if err := sub.value(at+"."+m.key, m.value); err != nil {
				return err
			}
		}
	}
	for _, key := range s.required {
		if !seen[key] {
			return fmt.Errorf("%s: missing required key %q", at, key)
		}
	}
	return nil
}

func (s *configSchema) elements(at string, l []any) error {
	if err := s.within(at, float64(len(l)), "minItems", "maxItems", " entries"); err != nil || s.items == nil {
		return err
	}
	for i, e := range l {
		if err := s.items.value(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
			return err
		}
	}
	return nil
}

// within checks a number against the limits of two keywords.
func (s *configSchema) within(at string, f float64, least, most, unit string) error {
	if limit, ok := s.limits[least]; ok && f < limit {
		return fmt.Errorf("%s: want at least %g%s, got %g", at, limit, unit, f)
	}
	if limit, ok := s.limits[most]; ok && f > limit {
		return fmt.Errorf("%s: want at most %g%s, got %g", at, limit, unit, f)
	}
	return nil
}

func isType(v any, name string) bool {
	switch v := v.(type) {
	case *object:
		return name == "object"
	case []any:
		return name == "array"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case json.Number:
		f, _ := number(v)
		return name == "number" || name == "integer" && f == math.Trunc(f)
	}
	return name == "null"
}

func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// sameJSON compares values of any type but objects.
func sameJSON(a, b any) bool {
	x, isNumber := number(a)
	if y, ok := number(b); ok && isNumber {
		return x == y
	}
	l, isList := a.([]any)
	if k, ok := b.([]any); ok && isList {
		return slices.EqualFunc(l, k, sameJSON)
	}
	switch a.(type) {
	case string, bool, nil:
		return a == b
	}
	return false
}

// jsonText returns a value for an error, which is not long.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil || len(b) > 200 {
		return "the value"
	}
	return string(b)
}
