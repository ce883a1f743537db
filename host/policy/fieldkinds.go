package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// leafKind is the kind of a value that is neither an object nor a list.
func leafKind[V any](s *shape, schema string, read func(d *decoder, path string, v ast.Value) V) kind[V] {
	return kind[V]{
		shape:  s,
		schema: func(string) string { return schema },
		read:   func(d *decoder, path string, v ast.Value, to *V) { *to = read(d, path, v) },
		show:   func(v V) any { return v },
	}
}

var (
	boolKind   = leafKind(boolShape, `"type": "boolean"`, (*decoder).boolean)
	stringKind = leafKind(stringShape, `"type": "string"`, (*decoder).word)

	// nameKind is a string that is not empty.
	nameKind = leafKind(stringShape, `"type": "string", "minLength": 1`,
		func(d *decoder, path string, v ast.Value) string {
			s := d.word(path, v)
			if s == "" {
				d.fail(path, "is empty")
			}
			return s
		})

	// limitKind is a number of tokens or requests; 0 is no limit.
	limitKind = leafKind(numberShape, `"type": "integer", "minimum": 0`, func(d *decoder, path string, v ast.Value) int {
		n := d.integer(path, v)
		if n < 0 || n > maxLimit {
			d.fail(path, "is %d, not from 0 (no limit) to %d", n, maxLimit)
		}
		return n
	})

	// reasonKind is a machine word for the client of a refused request.
	reasonKind = leafKind(stringShape, fmt.Sprintf(`"type": "string", "pattern": "^[a-z0-9_]{1,%d}$"`, maxReason),
		func(d *decoder, path string, v ast.Value) string {
			s := d.word(path, v)
			if !validReason(s) {
				d.fail(path, "is not 1 to %d lower-case letters, digits and _", maxReason)
			}
			return s
		})

	// statusKind is the HTTP status of a refused request.
	statusKind = leafKind(numberShape, `"type": "integer", "enum": `+listOf(denyStatuses),
		func(d *decoder, path string, v ast.Value) int {
			n := d.integer(path, v)
			if !slices.Contains(denyStatuses, n) {
				d.fail(path, "is %d, not one of %v", n, denyStatuses)
			}
			return n
		})

	// classKind is a class of data.classes, kept as its priority.
	classKind = leafKind(stringShape, `"type": "string"`, func(d *decoder, path string, v ast.Value) int {
		class := d.word(path, v)
		p, known := d.classes[class]
		if !known {
			d.fail(path, "%q is not a class of data.classes", class)
		}
		return p
	})

	// weightKind is a weight of affinity. A weight of 0 is kept as leastWeight, since
	// 0 means unset in Affinity.
	weightKind = leafKind(numberShape, fmt.Sprintf(`"type": "number", "minimum": 0, "maximum": %d`, maxAffinityWeight),
		func(d *decoder, path string, v ast.Value) float64 {
			return min(maxAffinityWeight, max(leastWeight, d.positive(path, v)))
		})

	// fractionKind is a number in [0, 1]; greater ones count as 1.
	fractionKind = leafKind(numberShape, `"type": "number", "minimum": 0, "maximum": 1`,
		func(d *decoder, path string, v ast.Value) float64 {
			return min(1, d.positive(path, v))
		})

	// shareKind is a number in (0, 1]; greater ones count as 1.
	shareKind = leafKind(numberShape, `"type": "number", "exclusiveMinimum": 0, "maximum": 1`,
		func(d *decoder, path string, v ast.Value) float64 {
			share := min(1, d.positive(path, v))
			if share == 0 {
				d.fail(path, "is 0: nothing could be placed")
			}
			return share
		})

	// wordsKind is an array or a set of at most maxValues strings.
	wordsKind = kind[[]string]{
		shape:  stringsShape,
		schema: func(string) string { return `"type": "array", "items": {"type": "string"}` },
		read:   func(d *decoder, path string, v ast.Value, to *[]string) { *to = d.words(path, v) },
		show: func(vs []string) any {
			out := make([]any, len(vs))
			for i, v := range vs {
				out[i] = v
			}
			return out
		},
	}
)

// oneOf is the kind of a string that is one of the names.
func oneOf(names ...string) kind[string] {
	return leafKind(stringShape, `"type": "string", "enum": `+listOf(names),
		func(d *decoder, path string, v ast.Value) string {
			return d.oneOf(path, v, names...)
		})
}

// operatorKind is the kind of a constraint's op, kept as true for not_in.
var operatorKind = kind[bool]{
	shape:  stringShape,
	schema: oneOf(constraintIn, constraintNotIn).schema,
	read: func(d *decoder, path string, v ast.Value, to *bool) {
		*to = d.oneOf(path, v, constraintIn, constraintNotIn) == constraintNotIn
	},
	show: func(notIn bool) any {
		if notIn {
			return constraintNotIn
		}
		return constraintIn
	},
}

// listOf returns vs as a JSON array on one line.
func listOf[V any](vs []V) string {
	var b strings.Builder
	for i, v := range vs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.Write(mustJSON(v))
	}
	return "[" + b.String() + "]"
}
