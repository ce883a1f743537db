package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// kind is a type of values in a decision document: its form for the type checker,
// the JSON Schema, the decoder and the log.
type kind[V any] struct {
	shape  *shape
	schema func(indent string) string // members of a JSON Schema object, without the braces
	read   func(d *decoder, path string, v ast.Value, to *V)
	show   func(v V) any // of strings, numbers, booleans, []any and map[string]any
}

// field is one field of an object of a decision document. Each is declared once:
// decode, the type check, View, the decision log, explain, the schema and the
// table of policies/README.md all read the declaration.
type field[T any] struct {
	name     string
	required bool
	denied   bool   // shown in a denial too
	is       string // what the field holds, Markdown
	without  string // what applies where it is absent, Markdown
	text     func(shown any) string

	shape  *shape
	schema func(indent string) string
	read   func(d *decoder, path string, v ast.Value, to *T)
	show   func(of *T) any
}

// newField declares the field name of kind k, which is kept in at(T).
func newField[T, V any](name string, k kind[V], at func(*T) *V) field[T] {
	return field[T]{
		name: name, shape: k.shape, schema: k.schema,
		read: func(d *decoder, path string, v ast.Value, to *T) { k.read(d, path, v, at(to)) },
		show: func(of *T) any { return k.show(*at(of)) },
	}
}

// needed makes f a required field.
func (f field[T]) needed() field[T] {
	f.required = true
	return f
}

// inDenials makes f a field that denials show too.
func (f field[T]) inDenials() field[T] {
	f.denied = true
	return f
}

// doc sets the documentation of f.
func (f field[T]) doc(is, without string) field[T] {
	f.is, f.without = is, without
	return f
}

// as sets how f is written in the text output of explain.
func (f field[T]) as(text func(shown any) string) field[T] {
	f.text = text
	return f
}

// readFields reads the members of the object v into to and returns the names of
// those that are present.
func readFields[T any](d *decoder, fields []field[T], path string, v ast.Value, to *T) (present map[string]bool) {
	present = map[string]bool{}
	d.each(path, v, func(key string, v ast.Value) {
		at := strings.TrimPrefix(path+"."+key, ".")
		i := slices.IndexFunc(fields, func(f field[T]) bool { return f.name == key })
		if i < 0 {
			d.fail(at, "is not a known field")
			return
		}
		present[key] = true
		fields[i].read(d, at, v, to)
	})
	for i := range fields {
		if f := &fields[i]; f.required && !present[f.name] {
			d.fail(strings.TrimPrefix(path+"."+f.name, "."), "is missing")
		}
	}
	return present
}

// showFields returns the required fields of the object and those that are set,
// by their names.
func showFields[T any](fields []field[T], of *T) map[string]any {
	out := map[string]any{}
	for i := range fields {
		if v := fields[i].show(of); fields[i].required || !unset(v) {
			out[fields[i].name] = v
		}
	}
	return out
}

// unset reports whether v, as show returns it, is the zero value of its kind.
func unset(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case bool:
		return !v
	case int:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil
}

// objectShape returns the shape of an object of the fields.
func objectShape[T any](fields []field[T]) *shape {
	s := &shape{name: "an object", fields: map[string]*shape{}}
	for _, f := range fields {
		s.fields[f.name] = f.shape
	}
	return s
}

// objectSchema returns the members of the JSON Schema of an object of the fields.
func objectSchema[T any](fields []field[T], indent string) string {
	var required, properties []string
	for _, f := range fields {
		if f.required {
			required = append(required, strconv.Quote(f.name))
		}
		text := f.schema(indent + "    ")
		if f.is != "" {
			text += separator(text, indent+"    ") + `"description": ` + string(mustJSON(f.is))
		}
		properties = append(properties, fmt.Sprintf("%s    %q: %s", indent, f.name, braces(text, indent+"    ")))
	}
	out := []string{`"type": "object"`, `"additionalProperties": false`}
	if len(required) > 0 {
		out = append(out, `"required": [`+strings.Join(required, ", ")+"]")
	}
	out = append(out, "\"properties\": {\n"+strings.Join(properties, ",\n")+"\n"+indent+"  }")
	return strings.Join(out, ",\n"+indent+"  ")
}

// separator returns the text between the members of a schema: they share a line
// unless one of them has several lines.
func separator(text, indent string) string {
	if strings.Contains(text, "\n") {
		return ",\n" + indent + "  "
	}
	return ", "
}

// braces returns a schema of the members text.
func braces(text, indent string) string {
	if strings.Contains(text, "\n") {
		return "{\n" + indent + "  " + text + "\n" + indent + "}"
	}
	return "{" + text + "}"
}

// object is the kind of an object of the fields; check, if it is not nil, checks
// fields that depend on each other.
func object[T any](fields []field[T], check func(d *decoder, path string, v *T)) kind[T] {
	return kind[T]{
		shape:  objectShape(fields),
		schema: func(indent string) string { return objectSchema(fields, indent) },
		read: func(d *decoder, path string, v ast.Value, to *T) {
			readFields(d, fields, path, v, to)
			if check != nil && d.err == nil {
				check(d, path, to)
			}
		},
		show: func(v T) any { return showFields(fields, &v) },
	}
}

// array is the kind of an array or a set of at most maxConstraints elements.
func array[V any](elem kind[V]) kind[[]V] {
	return kind[[]V]{
		shape: &shape{name: "a set or an array", elem: elem.shape},
		schema: func(indent string) string {
			return "\"type\": \"array\",\n" + indent + `  "items": ` + braces(elem.schema(indent+"  "), indent+"  ")
		},
		read: func(d *decoder, path string, v ast.Value, to *[]V) {
			d.items(path, v, func(path string, v ast.Value) {
				var one V
				elem.read(d, path, v, &one)
				*to = append(*to, one)
			})
		},
		show: func(vs []V) any {
			out := make([]any, len(vs))
			for i, v := range vs {
				out[i] = elem.show(v)
			}
			return out
		},
	}
}
