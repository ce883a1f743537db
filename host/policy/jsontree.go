package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// jsonNode is one value of a JSON file that knows where it stands.
type jsonNode struct {
	kind  jsonKind
	text  string      // of a string or number
	yes   bool        // of a boolean
	keys  []string    // of an object, in the order of the file
	keyAt []int       // offsets of the keys
	elems []*jsonNode // of an array or, beside keys, an object
	at    int         // offset in the file of the value's end, of an object and array their beginning's
	file  string      // "" = the caller knows
}

type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

var jsonKindNames = [...]string{"null", "boolean", "number", "string", "array", "object"}

// maxJSONDepth bounds how deep values may be nested.
const maxJSONDepth = 64

// parseJSON reads one JSON value, in which no key may stand twice. An error has
// an offset.
func parseJSON(text []byte) (*jsonNode, *jsonError) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	r := jsonReader{d: d, text: text}
	n := r.value(0)
	if r.err == nil {
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			r.fail("something stands behind the value")
		}
	}
	return n, r.err
}

// jsonError is a fault of a JSON file.
type jsonError struct {
	at   int
	what string
}

type jsonReader struct {
	d    *json.Decoder
	text []byte
	err  *jsonError
}

func (r *jsonReader) fail(what string) {
	if r.err == nil {
		r.err = &jsonError{int(r.d.InputOffset()), what}
	}
}

func (r *jsonReader) token() json.Token {
	t, err := r.d.Token()
	if err == nil {
		return t
	}
	// A SyntaxError's own offset counts the bytes of values only.
	at := int(r.d.InputOffset())
	for at < len(r.text)-1 && strings.IndexByte(" \t\r\n:,", r.text[at]) >= 0 {
		at++
	}
	if r.err == nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		r.err = &jsonError{at, err.Error()}
	}
	return nil
}

func (r *jsonReader) value(depth int) *jsonNode {
	n := new(jsonNode)
	if depth > maxJSONDepth {
		r.fail(fmt.Sprintf("nested more than %d deep", maxJSONDepth))
		return n
	}
	t := r.token()
	n.at = int(r.d.InputOffset())
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			r.object(n, depth)
		} else {
			r.array(n, depth)
		}
	case string:
		n.kind, n.text = jsonString, t
	case json.Number:
		n.kind, n.text = jsonNumber, t.String()
	case bool:
		n.kind, n.yes = jsonBool, t
	}
	return n
}

func (r *jsonReader) object(n *jsonNode, depth int) {
	n.kind = jsonObject
	seen := map[string]bool{}
	for r.err == nil && r.d.More() {
		key, ok := r.token().(string)
		if !ok {
			return
		}
		if seen[key] {
			r.fail(fmt.Sprintf("key %.80q stands twice", key))
		}
		seen[key] = true
		n.keys, n.keyAt = append(n.keys, key), append(n.keyAt, int(r.d.InputOffset()))
		n.elems = append(n.elems, r.value(depth+1))
	}
	if r.err == nil {
		r.token()
	}
}

func (r *jsonReader) array(n *jsonNode, depth int) {
	n.kind = jsonArray
	for r.err == nil && r.d.More() {
		n.elems = append(n.elems, r.value(depth+1))
	}
	if r.err == nil {
		r.token()
	}
}

// get returns the value of a key, nil if there is none.
func (n *jsonNode) get(key string) *jsonNode {
	for i, k := range n.keys {
		if k == key {
			return n.elems[i]
		}
	}
	return nil
}

// term returns the value as OPA has it.
func (n *jsonNode) term() *ast.Term {
	switch n.kind {
	case jsonBool:
		return ast.BooleanTerm(n.yes)
	case jsonNumber:
		return ast.NumberTerm(json.Number(n.text))
	case jsonString:
		return ast.StringTerm(n.text)
	case jsonArray:
		terms := make([]*ast.Term, len(n.elems))
		for i, e := range n.elems {
			terms[i] = e.term()
		}
		return ast.ArrayTerm(terms...)
	case jsonObject:
		pairs := make([][2]*ast.Term, len(n.keys))
		for i, k := range n.keys {
			pairs[i] = [2]*ast.Term{ast.StringTerm(k), n.elems[i].term()}
		}
		return ast.ObjectTerm(pairs...)
	}
	return ast.NullTerm()
}

// lineCol returns the line and column, both from 1, of an offset in text.
func lineCol(text []byte, at int) (line, col int) {
	at = min(max(at, 0), len(text))
	line = 1 + bytes.Count(text[:at], []byte("\n"))
	return line, at - bytes.LastIndexByte(text[:at], '\n')
}
