package wasm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// configSchema is a manifest's config_schema: a JSON Schema of the draft that its $schema
// names, by default 2020-12. It is immutable and safe for concurrent use.
type configSchema struct{ compiled *jsonschema.Schema }

// referenceKeywords are refused: see "Why may a config_schema contain no reference?" in
// RATIONALE.md.
var referenceKeywords = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// schemaLocation names the schema for the library, which never loads it from there.
const schemaLocation = "kvasir:///config_schema"

// english prints the library's errors. A Printer is for one use at a time.
func english() *message.Printer { return message.NewPrinter(language.English) }

// maxExponentDigits bounds the exponent of a number: 64-bit numbers need three digits.
const maxExponentDigits = 3

// noLoader loads nothing: a schema may not make the router read files or URLs.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is not loaded: a config_schema must not refer to other schemas", url)
}

// readSchema compiles a schema.
func readSchema(at string, v *object) (*configSchema, error) {
	if err := noReferences(at, v); err != nil {
		return nil, err
	}
	text, err := plainJSON(at, v)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaLocation, text); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	s, err := c.Compile(schemaLocation)
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		err = invalid.Err
	}
	if err != nil {
		return nil, describe(at, text, err)
	}
	return &configSchema{s}, nil
}

// check returns every way in which a configuration, as text, does not fit, nil = it fits.
func (s *configSchema) check(config []byte) error {
	const at = "config"
	o, err := parseObject(config)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	v, err := plainJSON(at, o)
	if err != nil {
		return err
	}
	return describe(at, v, s.compiled.Validate(v))
}

// describe returns the library's error as one line that names each place as the
// manifest's reader does, config.hours[1], in the order of the places.
func describe(at string, v any, err error) error {
	root, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		if err != nil {
			err = fmt.Errorf("%s: %w", at, err)
		}
		return err
	}
	return errors.New(strings.Join(faultsOf(at, v, root), "; "))
}

// faultsOf returns the texts of an error's causes that have no cause themselves. What
// none of several alternatives accepts is one fault.
func faultsOf(at string, v any, e *jsonschema.ValidationError) []string {
	var causes []string
	for _, c := range e.Causes {
		causes = append(causes, faultsOf(at, v, c)...)
	}
	slices.Sort(causes) // the library goes through maps
	causes = slices.Compact(causes)
	text := placeOf(at, v, e.InstanceLocation) + ": " + e.ErrorKind.LocalizedString(english())
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.PropertyNames:
		if len(causes) > 0 {
			text += " (" + strings.Join(causes, "; ") + ")"
		}
		return []string{text}
	}
	if len(causes) > 0 {
		return causes
	}
	return []string{text}
}

// placeOf returns the name of a place in v: members after a dot, elements in brackets.
func placeOf(at string, v any, path []string) string {
	for _, part := range path {
		switch w := v.(type) {
		case map[string]any:
			at, v = at+"."+part, w[part]
		case []any:
			at += "[" + part + "]"
			if i, err := strconv.Atoi(part); err == nil && i < len(w) {
				v = w[i]
			}
		}
	}
	return at
}

// noReferences returns an error for a reference in a schema.
func noReferences(at string, v any) error {
	switch v := v.(type) {
	case *object:
		for _, m := range v.members {
			if _, text := m.value.(string); text && slices.Contains(referenceKeywords, m.key) {
				return fmt.Errorf("%s: %s is not supported: write the schema in its place", at, m.key)
			}
			if err := noReferences(at+"."+m.key, m.value); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := noReferences(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
				return err
			}
		}
	}
	return nil
}

// plainJSON returns a value with maps for objects, which is the library's form. Numbers
// beyond those of 64 bits are errors: the library computes exactly, and 1e999999 would
// cost it megabytes.
func plainJSON(at string, v any) (any, error) {
	switch v := v.(type) {
	case *object:
		out := make(map[string]any, len(v.members))
		for _, m := range v.members {
			e, err := plainJSON(at+"."+m.key, m.value)
			if err != nil {
				return nil, err
			}
			out[m.key] = e
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			p, err := plainJSON(fmt.Sprintf("%s[%d]", at, i), e)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	case json.Number:
		_, exponent, _ := strings.Cut(strings.ToLower(v.String()), "e")
		if _, err := v.Float64(); err != nil || len(strings.TrimLeft(exponent, "+-0")) > maxExponentDigits {
			return nil, fmt.Errorf("%s: number %.40s is out of range", at, v)
		}
	}
	return v, nil
}
