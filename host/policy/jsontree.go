package policy

import (
	"bytes"
	"encoding/json"

	"github.com/open-policy-agent/opa/v1/ast"
)

// jsonNode is one value of a JSON file, with its position.
type jsonNode struct {
	kind  jsonKind
	text  string      // of a string or number
	yes   bool        // of a boolean
	keys  []string    // of an object, in the order of the file
	keyAt []int       // offsets of the keys
	elems []*jsonNode // of an array or, beside keys, an object
	at    int         // offset in the file: of the end of a value, of the beginning of an object or array
	file  string      // "" = the caller's file
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

// maxJSONDepth bounds the nesting of values.
const maxJSONDepth = 64

// jsonError is an error in a JSON file.
type jsonError struct {
	at   int
	what string
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

// term returns the value as a term of OPA.
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
