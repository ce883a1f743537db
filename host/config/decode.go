package config

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/kvasir-router/kvasir/host/internal/spelling"
)

// maxErrors bounds the errors that are reported of one file.
const maxErrors = 50

type pos struct{ line, col int }

// decoder fills Go values from a YAML syntax tree and collects errors.
type decoder struct {
	env    func(string) (string, bool)
	lines  map[string]pos // position of each path
	errors []located
}

type located struct {
	pos
	path, text string
}

// errorf adds an error at n.
func (d *decoder) errorf(n ast.Node, path, format string, args ...any) {
	if len(d.errors) < maxErrors {
		d.errors = append(d.errors, located{at(n), path, fmt.Sprintf(format, args...)})
	}
}

// errorAt adds an error at the position of path, or of its nearest ancestor in the
// file.
func (d *decoder) errorAt(path, text string) {
	p, ok := d.lines[path]
	for up := path; !ok && up != ""; {
		i := strings.LastIndexAny(up, ".[")
		up = up[:max(i, 0)]
		p, ok = d.lines[up]
	}
	if len(d.errors) < maxErrors {
		d.errors = append(d.errors, located{p, path, text})
	}
}

func (d *decoder) sorted(file string) Errors {
	slices.SortStableFunc(d.errors, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.col, b.col))
	})
	out := make(Errors, len(d.errors))
	for i, f := range d.errors {
		out[i] = Error{File: file, Line: f.line, Path: f.path, Text: f.text}
	}
	return out
}

func at(n ast.Node) pos {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return pos{}
	}
	p := n.GetToken().Position
	return pos{p.Line, p.Column}
}

// document decodes data into c and reports whether it is YAML, so that values can
// be checked although others are invalid.
func (d *decoder) document(data []byte, c any) bool {
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		d.syntax(err)
		return false
	}
	if len(f.Docs) != 1 || f.Docs[0].Body == nil {
		d.errors = append(d.errors, located{text: "want one YAML document with a mapping"})
		return false
	}
	d.value(f.Docs[0].Body, reflect.ValueOf(c).Elem(), "")
	return true
}

// syntax adds a parse error with its line.
func (d *decoder) syntax(err error) {
	p := pos{}
	if e, ok := err.(interface{ GetToken() *token.Token }); ok && e.GetToken() != nil {
		p = pos{e.GetToken().Position.Line, e.GetToken().Position.Column}
	}
	msg := err.Error()
	if e, ok := err.(interface{ GetMessage() string }); ok {
		msg = e.GetMessage()
	}
	d.errors = append(d.errors, located{p, "", "not YAML: " + msg})
}

// value decodes n into v, the value at path.
func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	n = d.resolve(n, path)
	if n == nil {
		return
	}
	d.lines[path] = at(n)
	if _, null := n.(*ast.NullNode); null {
		return // as an absent key
	}
	switch p := v.Addr().Interface().(type) {
	case *Duration:
		d.duration(n, p, path)
	case *Size:
		d.size(n, p, path)
	case *AutoInt:
		d.autoInt(n, p, path)
	case *JSON:
		d.json(n, p, path)
	case *Listen:
		d.shorthand(n, v, &p.HTTP, path)
	case *ModelPool:
		d.shorthand(n, v, &p.Name, path)
	default:
		d.kind(n, v, path)
	}
}

// resolve rejects anchors, aliases and tags.
func (d *decoder) resolve(n ast.Node, path string) ast.Node {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.errorf(n, path, "anchors, aliases and tags are not supported: write the value in full")
		return nil
	}
	return n
}

// shorthand decodes a plain string into s, a field of the struct v.
func (d *decoder) shorthand(n ast.Node, v reflect.Value, s *string, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.kind(n, v, path)
	default:
		*s, _ = d.text(n, path)
	}
}

func (d *decoder) kind(n ast.Node, v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.dict(n, v, path)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	case reflect.String:
		if s, ok := d.text(n, path); ok {
			v.SetString(s)
		}
	case reflect.Int:
		if s, ok := d.text(n, path); ok {
			i, err := strconv.ParseInt(s, 10, 64)
			if err != nil || i < 0 {
				d.errorf(n, path, "want a whole number of at least 0, got %q", s)
				return
			}
			v.SetInt(i)
		}
	case reflect.Bool:
		if s, ok := d.text(n, path); ok {
			if s != "true" && s != "false" {
				d.errorf(n, path, "want true or false, got %q", s)
				return
			}
			v.SetBool(s == "true")
		}
	case reflect.Float64:
		if s, ok := d.text(n, path); ok {
			f, err := strconv.ParseFloat(s, 64)
			if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
				d.errorf(n, path, "want a number, got %q", s)
				return
			}
			v.SetFloat(f)
		}
	default:
		panic("BUG: config: no decoder for " + v.Type().String())
	}
}

func (d *decoder) object(n ast.Node, v reflect.Value, path string) {
	members, ok := d.mapping(n, path)
	if !ok {
		return
	}
	for _, m := range members {
		i := fieldOf(v.Type(), m.key)
		if i < 0 {
			d.errorf(m.node, join(path, m.key), "unknown key; %s", known(v.Type(), m.key))
			continue
		}
		d.value(m.val, v.Field(i), join(path, m.key))
	}
}

func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.errorf(n, path, "want a list: [a, b] or one \"- \" line each")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, e := range seq.Values {
		d.value(e, v.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

func (d *decoder) dict(n ast.Node, v reflect.Value, path string) {
	members, ok := d.mapping(n, path)
	if !ok {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, m := range members {
		e := reflect.New(v.Type().Elem()).Elem()
		d.value(m.val, e, join(path, m.key))
		v.SetMapIndex(reflect.ValueOf(m.key), e)
	}
}

type member struct {
	key  string
	node ast.Node
	val  ast.Node
}

// mapping lists the members of a mapping; a duplicate key is an error.
func (d *decoder) mapping(n ast.Node, path string) ([]member, bool) {
	var vals []*ast.MappingValueNode
	switch x := n.(type) {
	case *ast.MappingNode:
		vals = x.Values
	case *ast.MappingValueNode:
		vals = []*ast.MappingValueNode{x}
	default:
		d.errorf(n, path, "want a mapping of keys to values")
		return nil, false
	}
	seen := map[string]bool{}
	var out []member
	for _, m := range vals {
		key := m.Key.GetToken().Value
		if seen[key] {
			d.errorf(m.Key, join(path, key), "duplicate key")
			continue
		}
		seen[key] = true
		out = append(out, member{key, m.Key, m.Value})
	}
	return out, true
}

// text returns a scalar as written, with ${NAME} expanded.
func (d *decoder) text(n ast.Node, path string) (string, bool) {
	var s string
	switch x := n.(type) {
	case *ast.StringNode:
		s = x.Value
	case *ast.LiteralNode:
		s = x.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		s = n.GetToken().Value
	default:
		d.errorf(n, path, "want a single value")
		return "", false
	}
	return d.expand(n, path, s)
}

func (d *decoder) expand(n ast.Node, path, s string) (string, bool) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), true
		}
		j := strings.IndexByte(s[i:], '}')
		if j < 0 {
			d.errorf(n, path, "missing } after ${")
			return "", false
		}
		name := s[i+2 : i+j]
		v, ok := d.env(name)
		if !ok {
			d.errorf(n, path, "environment variable %s is not set", name)
			return "", false
		}
		b.WriteString(s[:i])
		b.WriteString(v)
		s = s[i+j+1:]
	}
}

func (d *decoder) duration(n ast.Node, p *Duration, path string) {
	s, ok := d.text(n, path)
	if !ok {
		return
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < 0 {
		d.errorf(n, path, "want a duration such as 30s, 2m or 1h, got %q", s)
		return
	}
	*p = Duration(t)
}

var units = []struct {
	suffix string
	n      int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}}

func (d *decoder) size(n ast.Node, p *Size, path string) {
	s, ok := d.text(n, path)
	if !ok {
		return
	}
	for _, u := range units {
		num, found := strings.CutSuffix(s, u.suffix)
		if !found {
			continue
		}
		i, err := strconv.ParseInt(strings.TrimSpace(num), 10, 64)
		if err != nil || i < 0 || i > math.MaxInt64/u.n {
			break
		}
		*p = Size(i * u.n)
		return
	}
	d.errorf(n, path, "want a size such as 512KiB, 64MiB or 2GiB, got %q", s)
}

func (d *decoder) autoInt(n ast.Node, p *AutoInt, path string) {
	s, ok := d.text(n, path)
	if !ok || s == "auto" {
		return
	}
	i, err := strconv.Atoi(s)
	if err != nil || i <= 0 {
		d.errorf(n, path, "want a whole number above 0, or auto, got %q", s)
		return
	}
	*p = AutoInt(i)
}

func fieldOf(t reflect.Type, key string) int {
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag == key && tag != "-" {
			return i
		}
	}
	return -1
}

// known suggests a key of t that is spelled like key, or lists them.
func known(t reflect.Type, key string) string {
	var keys []string
	for i := range t.NumField() {
		if tag := t.Field(i).Tag.Get("yaml"); tag != "-" {
			keys = append(keys, tag)
		}
	}
	if k := spelling.Nearest(key, keys); k != "" {
		return fmt.Sprintf("did you mean %q?", k)
	}
	return "known keys are " + strings.Join(keys, ", ")
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
