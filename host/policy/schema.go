package policy

import (
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/internal/spelling"
)

// schema is a JSON Schema (draft 7) of data: the keywords that data of tenants needs.
// Any other keyword is an error in the schema, so that no constraint is ignored.
type schema struct {
	no         bool // false as a schema
	types      []string
	enum       []*jsonNode
	properties map[string]*schema
	names      []string // of properties, sorted
	patterns   []patternSchema
	additional *schema // nil = anything
	keyNames   *schema
	required   []string
	items      *schema
	pattern    *regexp.Regexp

	minItems, maxItems, minLength, maxLength, minProperties, maxProperties int // -1 = none
	minimum, maximum, above, below                                         *big.Rat
	unique                                                                 bool
	allOf, anyOf, oneOf                                                    []*schema
	not                                                                    *schema
}

type patternSchema struct {
	re *regexp.Regexp
	s  *schema
}

// schemaSet compiles the schemas of a source, which may refer to each other by
// file name.
type schemaSet struct {
	*faults
	src   *Source
	files map[string]*schemaCompiler
}

// readSchemas returns the schemas by name: NAME is the schema of data.NAME, if there
// is such data, and wholeData that of data as a whole.
func readSchemas(src *Source, f *faults) map[string]*schema {
	set := schemaSet{f, src, map[string]*schemaCompiler{}}
	out := map[string]*schema{}
	for _, name := range slices.Sorted(maps.Keys(src.schemas)) {
		out[name] = set.file(name).ref("")
	}
	return out
}

// wholeData is the name of the schema of data as a whole.
const wholeData = "data"

// file returns the compiler of a schema file, nil if there is no such file. One
// that is not JSON is reported and allows everything.
func (x *schemaSet) file(name string) *schemaCompiler {
	if c := x.files[name]; c != nil {
		return c
	}
	text, ok := x.src.schemas[name]
	if !ok {
		return nil
	}
	c := &schemaCompiler{set: x, faults: x.faults, file: "schemas/" + name + ".json", text: text,
		refs: map[string]*schema{}}
	x.files[name] = c
	root, bad := parseJSON(text)
	if bad != nil {
		line, col := lineCol(text, bad.at)
		c.add(c.file, line, col, bad.what, "write it as JSON")
		root = &jsonNode{kind: jsonBool, yes: true}
	}
	c.root = root
	return c
}

type schemaCompiler struct {
	*faults
	set  *schemaSet
	root *jsonNode
	file string
	text []byte
	refs map[string]*schema // by path in the file; "" = the whole of it
}

func (c *schemaCompiler) fault(n *jsonNode, what, fix string) {
	line, col := lineCol(c.text, n.at)
	c.add(c.file, line, col, what, fix)
}

// annotations are keywords that constrain nothing.
var annotations = map[string]bool{"$schema": true, "$id": true, "$comment": true, "title": true, "description": true,
	"default": true, "examples": true,
	"definitions": true, "$defs": true, "readOnly": true, "deprecated": true}

func (c *schemaCompiler) compile(n *jsonNode) *schema {
	s := &schema{minItems: -1, maxItems: -1, minLength: -1, maxLength: -1, minProperties: -1, maxProperties: -1}
	switch {
	case n.kind == jsonBool:
		s.no = !n.yes
		return s
	case n.kind != jsonObject:
		c.fault(n, "schema has type "+jsonKindNames[n.kind], "want an object, true or false")
		return s
	}
	if r := n.get("$ref"); r != nil {
		return c.follow(r)
	}
	for i, key := range n.keys {
		v := n.elems[i]
		if read, ok := schemaWords[key]; ok {
			read(c, s, v)
		} else if !annotations[key] {
			c.fault(v, fmt.Sprintf("unknown keyword %.80q", key), schemaFix(key))
		}
	}
	s.names = slices.Sorted(maps.Keys(s.properties))
	return s
}

func schemaFix(key string) string {
	if k := spelling.Nearest(key, slices.Sorted(maps.Keys(schemaWords))); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "want one of " + strings.Join(slices.Sorted(maps.Keys(schemaWords)), ", ")
}

// follow resolves a $ref into the same file or another one of the folder.
func (c *schemaCompiler) follow(n *jsonNode) *schema {
	file, path, _ := strings.Cut(n.text, "#")
	to := c
	if file != "" {
		if to = c.set.file(strings.TrimSuffix(file, ".json")); to == nil || !strings.HasSuffix(file, ".json") {
			c.fault(n, fmt.Sprintf("$ref %.80q: no such file in the folder schemas", n.text),
				`refer to "name.json" or "#/definitions/name"`)
			return new(schema)
		}
	}
	if s := to.ref(strings.TrimPrefix(path, "/")); s != nil {
		return s
	}
	c.fault(n, fmt.Sprintf("$ref %.80q: no such definition", n.text), "add the definition or fix its name")
	return new(schema)
}

// ref returns the schema at a path of the file, nil if there is none.
func (c *schemaCompiler) ref(path string) *schema {
	if s := c.refs[path]; s != nil {
		return s
	}
	at := c.root
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' }) {
		if at = at.get(part); at == nil {
			return nil
		}
	}
	s := new(schema)
	c.refs[path] = s // before compiling: it may refer to itself
	*s = *c.compile(at)
	return s
}

func (c *schemaCompiler) strings(n *jsonNode) (out []string) {
	for _, e := range n.elems {
		if e.kind != jsonString {
			c.fault(e, "not a string", "want a list of strings")
		}
		out = append(out, e.text)
	}
	if n.kind != jsonArray {
		c.fault(n, "not a list", "want a list of strings")
	}
	return out
}

func (c *schemaCompiler) list(n *jsonNode) (out []*schema) {
	if n.kind != jsonArray || len(n.elems) == 0 {
		c.fault(n, "not a list of schemas", "want a list of schemas")
	}
	for _, e := range n.elems {
		out = append(out, c.compile(e))
	}
	return out
}

func (c *schemaCompiler) regexp(n *jsonNode, text string) *regexp.Regexp {
	re, err := regexp.Compile(text)
	if err != nil {
		c.fault(n, err.Error(), "want a regular expression of RE2")
	}
	return re
}

func (c *schemaCompiler) number(n *jsonNode) *big.Rat {
	r, ok := rat(n)
	if !ok {
		c.fault(n, "not a number", "want a number")
		return new(big.Rat)
	}
	return r
}

// rat returns a number's value. Exponents are bounded: 1e999999999 would fill
// the memory.
func rat(n *jsonNode) (*big.Rat, bool) {
	if n.kind != jsonNumber {
		return nil, false
	}
	if _, exp, ok := strings.Cut(strings.ToLower(n.text), "e"); ok && len(strings.TrimLeft(exp, "+-0")) > 3 {
		return nil, false
	}
	return new(big.Rat).SetString(n.text)
}

func (c *schemaCompiler) count(n *jsonNode) int {
	r := c.number(n)
	if !r.IsInt() || r.Sign() < 0 || r.Cmp(big.NewRat(1<<31, 1)) >= 0 {
		c.fault(n, "not a count", "want a whole number, at least 0")
		return 0
	}
	return int(r.Num().Int64())
}

// schemaWords are the keywords that constrain values.
var schemaWords map[string]func(*schemaCompiler, *schema, *jsonNode)

func init() { // a table that refers to functions that refer to it
	count := func(at func(*schema) *int) func(*schemaCompiler, *schema, *jsonNode) {
		return func(c *schemaCompiler, s *schema, n *jsonNode) { *at(s) = c.count(n) }
	}
	number := func(at func(*schema) **big.Rat) func(*schemaCompiler, *schema, *jsonNode) {
		return func(c *schemaCompiler, s *schema, n *jsonNode) { *at(s) = c.number(n) }
	}
	sub := func(at func(*schema) **schema) func(*schemaCompiler, *schema, *jsonNode) {
		return func(c *schemaCompiler, s *schema, n *jsonNode) { *at(s) = c.compile(n) }
	}
	list := func(at func(*schema) *[]*schema) func(*schemaCompiler, *schema, *jsonNode) {
		return func(c *schemaCompiler, s *schema, n *jsonNode) { *at(s) = c.list(n) }
	}
	schemaWords = map[string]func(*schemaCompiler, *schema, *jsonNode){
		"type":                 (*schemaCompiler).readType,
		"enum":                 func(c *schemaCompiler, s *schema, n *jsonNode) { s.enum = n.elems },
		"const":                func(c *schemaCompiler, s *schema, n *jsonNode) { s.enum = []*jsonNode{n} },
		"properties":           func(c *schemaCompiler, s *schema, n *jsonNode) { s.properties = c.members(n) },
		"patternProperties":    (*schemaCompiler).readPatterns,
		"required":             func(c *schemaCompiler, s *schema, n *jsonNode) { s.required = c.strings(n) },
		"pattern":              func(c *schemaCompiler, s *schema, n *jsonNode) { s.pattern = c.regexp(n, n.text) },
		"uniqueItems":          func(c *schemaCompiler, s *schema, n *jsonNode) { s.unique = n.yes },
		"additionalProperties": sub(func(s *schema) **schema { return &s.additional }),
		"propertyNames":        sub(func(s *schema) **schema { return &s.keyNames }),
		"items":                sub(func(s *schema) **schema { return &s.items }),
		"not":                  sub(func(s *schema) **schema { return &s.not }),
		"allOf":                list(func(s *schema) *[]*schema { return &s.allOf }),
		"anyOf":                list(func(s *schema) *[]*schema { return &s.anyOf }),
		"oneOf":                list(func(s *schema) *[]*schema { return &s.oneOf }),
		"minItems":             count(func(s *schema) *int { return &s.minItems }),
		"maxItems":             count(func(s *schema) *int { return &s.maxItems }),
		"minLength":            count(func(s *schema) *int { return &s.minLength }),
		"maxLength":            count(func(s *schema) *int { return &s.maxLength }),
		"minProperties":        count(func(s *schema) *int { return &s.minProperties }),
		"maxProperties":        count(func(s *schema) *int { return &s.maxProperties }),
		"minimum":              number(func(s *schema) **big.Rat { return &s.minimum }),
		"maximum":              number(func(s *schema) **big.Rat { return &s.maximum }),
		"exclusiveMinimum":     number(func(s *schema) **big.Rat { return &s.above }),
		"exclusiveMaximum":     number(func(s *schema) **big.Rat { return &s.below }),
	}
}

func (c *schemaCompiler) readType(s *schema, n *jsonNode) {
	if s.types = []string{n.text}; n.kind != jsonString {
		s.types = c.strings(n)
	}
	for _, t := range s.types {
		if t != "integer" && !slices.Contains(jsonKindNames[:], t) {
			c.fault(n, fmt.Sprintf("unknown type %.80q", t), "want one of integer, "+strings.Join(jsonKindNames[:], ", "))
		}
	}
}

func (c *schemaCompiler) members(n *jsonNode) map[string]*schema {
	if n.kind != jsonObject {
		c.fault(n, "not an object", "want an object of schemas")
	}
	out := map[string]*schema{}
	for i, k := range n.keys {
		out[k] = c.compile(n.elems[i])
	}
	return out
}

func (c *schemaCompiler) readPatterns(s *schema, n *jsonNode) {
	for i, k := range n.keys {
		s.patterns = append(s.patterns, patternSchema{c.regexp(n.elems[i], k), c.compile(n.elems[i])})
	}
}

// runeCount returns the length of a string as JSON Schema counts it.
func runeCount(s string) int { return utf8.RuneCountInString(s) }
