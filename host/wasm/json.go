package wasm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxJSONDepth bounds nesting. A manifest needs 4; a config schema more.
const maxJSONDepth = 64

// object is a JSON object with its members in order; keys are distinct.
type object struct {
	path    string
	members []member
}

type member struct {
	key   string
	value any // *object, []any, string, json.Number, bool or nil
}

// parseObject reads exactly one JSON object. A duplicate key is an
// error at every level.
func parseObject(text []byte) (*object, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := parseValue(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("text after the object")
	}
	o, ok := v.(*object)
	if !ok {
		return nil, errors.New("not an object")
	}
	return o, nil
}

func parseValue(d *json.Decoder, path string, depth int) (any, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxJSONDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return parseMembers(d, path, depth)
	case json.Delim('['):
		var list []any
		for d.More() {
			v, err := parseValue(d, fmt.Sprintf("%s[%d]", path, len(list)), depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

func parseMembers(d *json.Decoder, path string, depth int) (any, error) {
	o := &object{path: path}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		at := strings.TrimPrefix(path+"."+key, ".")
		if seen[key] {
			return nil, fmt.Errorf("key %q twice", at)
		}
		seen[key] = true
		v, err := parseValue(d, at, depth+1)
		if err != nil {
			return nil, err
		}
		o.members = append(o.members, member{key, v})
	}
	_, err := d.Token()
	return o, err
}

// each calls f for every member, but those beginning with "x-". f returns false for
// a key it does not know.
func (o *object) each(f func(at, key string, v any) (known bool, err error)) error {
	for _, m := range o.members {
		if strings.HasPrefix(m.key, "x-") {
			continue
		}
		at := strings.TrimPrefix(o.path+"."+m.key, ".")
		known, err := f(at, m.key, m.value)
		if err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("unknown key %q", at)
		}
	}
	return nil
}

func wantString(at string, v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("%s is not a string", at)
	}
	return s, nil
}

func wantObject(at string, v any) (*object, error) {
	o, ok := v.(*object)
	if !ok {
		return nil, fmt.Errorf("%s is not an object", at)
	}
	return o, nil
}

// wantList returns the elements of a list of at most limit.
func wantList(at string, v any, limit int) ([]any, error) {
	l, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a list", at)
	}
	if len(l) > limit {
		return nil, fmt.Errorf("%s has %d entries, at most %d", at, len(l), limit)
	}
	return l, nil
}

func wantStrings(at string, v any, limit int) ([]string, error) {
	l, err := wantList(at, v, limit)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(l))
	for i, e := range l {
		if out[i], err = wantString(fmt.Sprintf("%s[%d]", at, i), e); err != nil {
			return nil, err
		}
	}
	return out, nil
}
