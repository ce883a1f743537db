package policy

import (
	"fmt"
	"slices"

	"github.com/kvasir-router/kvasir/host/identity"
)

// ParseInput reads an input document. Fields that are missing or null are empty; unknown
// and duplicate fields are errors, which name line and column.
func ParseInput(text []byte) (*Input, error) {
	n, bad := parseJSON(text)
	in := &Input{Principal: new(identity.Principal)}
	if bad == nil {
		bad = readInput(n, "", in)
	}
	if bad != nil {
		line, col := lineCol(text, bad.at)
		return nil, fmt.Errorf("policy: input:%d:%d: %s", line, col, bad.what)
	}
	return in, nil
}

// readInput reads the fields of the object n, which is at a path, "" for the document.
func readInput(n *jsonNode, path string, in *Input) *jsonError {
	if n.kind == jsonNull && path != "" {
		return nil
	}
	if n.kind != jsonObject {
		return &jsonError{n.at, fmt.Sprintf("%s %v", orDocument(path), wantError(n, "an object"))}
	}
	for i, name := range n.keys {
		at := name
		if path != "" {
			at = path + "." + name
		}
		if k := indexOfInput(at); k >= 0 {
			if err := inputFields[k].read(n.elems[i], in); err != nil {
				return &jsonError{n.elems[i].at, fmt.Sprintf("%s %v", at, err)}
			}
			continue
		}
		if !slices.Contains(inputObjects, at) {
			what := fmt.Sprintf("unknown field %.80q", at)
			if fix := nearest(at, inputPaths); fix != "" {
				what += ": " + fix
			}
			return &jsonError{n.keyAt[i], what}
		}
		if bad := readInput(n.elems[i], at, in); bad != nil {
			return bad
		}
	}
	return nil
}

func orDocument(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}
