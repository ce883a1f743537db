package policy

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/identity"
)

// place returns a pointer to where in keeps a field, nil for a constant.
func (f *inputField) place(in *Input) any {
	switch f.kind {
	case InputText:
		return f.text(in)
	case InputList:
		return f.list(in)
	case InputBool:
		return f.boolean(in)
	case InputHour:
		return f.hour(in)
	case InputLabels:
		return f.labels(in)
	}
	return nil
}

// set gives a field of in a value that is not the zero value.
func (f *inputField) set(in *Input) {
	switch f.kind {
	case InputText:
		*f.text(in) = "x"
	case InputList:
		*f.list(in) = []string{"x"}
	case InputBool:
		*f.boolean(in) = true
	case InputHour:
		*f.hour(in) = 7
	case InputLabels:
		*f.labels(in) = []Label{{Name: "x", Value: "y"}}
	}
}

// TestInputFields_whole: each member of Input, and each of a Principal that policy may
// know, has one row, of the right kind and side. A row without its member does not
// compile; this test fails for a member without its row.
func TestInputFields_whole(t *testing.T) {
	in := &Input{Principal: new(identity.Principal)}
	rows := map[any]*inputField{}
	for i := range inputFields {
		f := &inputFields[i]
		if f.kind == InputConstant {
			continue
		}
		p := f.place(in)
		if rows[p] != nil {
			t.Errorf("%s and %s are one member", f.path, rows[p].path)
		}
		rows[p] = f
	}
	members := func(v any, principal bool, not ...string) {
		s := reflect.ValueOf(v).Elem()
		for i := range s.NumField() {
			name := s.Type().Field(i).Name
			f := rows[s.Field(i).Addr().Interface()]
			if (f == nil) != slices.Contains(not, name) {
				t.Errorf("member %s of %T: its row is %+v", name, v, f)
			}
			if f != nil && f.principal != principal {
				t.Errorf("%s: a field of the principal: %t, want %t", f.path, f.principal, principal)
			}
		}
	}
	members(in, false, "Principal", "Trace")
	// Labels of the principal are in those of the request.
	members(in.Principal, true, "Labels", "KeyID", "Expires")
}

// TestInputFields_everywhere: what a row declares is in the key, the document, the
// reader, the copy and the check of an input, and has documentation and a flag.
func TestInputFields_everywhere(t *testing.T) {
	for i := range inputFields {
		f := &inputFields[i]
		if f.is == "" || (f.name == "") != (f.kind == InputConstant) {
			t.Errorf("%s: documentation %q, flag %q", f.path, f.is, f.name)
		}
		if f.kind == InputConstant {
			continue
		}
		s := &inputSet{uses: make([]bool, len(inputFields))}
		if !s.take(f.path) {
			t.Errorf("%s: no reference", f.path)
		}
		s.setKeyed()
		zero, set := &Input{Principal: new(identity.Principal)}, &Input{Principal: new(identity.Principal)}
		f.set(set)
		a, _ := s.key(nil, zero)
		if b, ok := s.key(nil, set); string(a) == string(b) || !ok {
			t.Errorf("%s: not in the key", f.path)
		}
		text := mustJSON(asJSON(t, s, set))
		leaf := f.path[strings.LastIndex(f.path, ".")+1:]
		if string(text) == string(mustJSON(asJSON(t, s, zero))) || !strings.Contains(string(text), leaf) {
			t.Errorf("%s: not in the document %s", f.path, text)
		}
		read, err := ParseInput(text)
		if err != nil || !reflect.DeepEqual(read, set) {
			t.Errorf("%s: %s is read as %+v, %v", f.path, text, read, err)
		}
		testCopy(t, f, set)
	}
}

// asJSON returns a document as JSON values.
func asJSON(t *testing.T, s *inputSet, in *Input) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s.document(in).String()), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// testCopy checks that a copy of in is equal and shares no string of f, and that a
// control character in f is found.
func testCopy(t *testing.T, f *inputField, in *Input) {
	t.Helper()
	c := in.clone()
	if !reflect.DeepEqual(c, in) {
		t.Errorf("%s: the copy is %+v", f.path, c)
	}
	if f.kind == InputBool || f.kind == InputHour {
		return
	}
	if f.eachText(c, func(s *string) { *s = "\x01" }); c.printable() {
		t.Errorf("%s: not checked", f.path)
	}
	if !f.principal && !in.printable() {
		t.Errorf("%s: the copy shares memory", f.path)
	}
}

func TestParseInput_errors(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "input:1:2: the document is of type array, want an object",
		`{`:  "input:1:2: ", `{} x`: "input:1:4: unexpected text",
		`{"tenant": {"idd": "x"}}`:                  `unknown field "tenant.idd": did you mean "tenant.id"?`,
		"{\n \"tenant\": 1}":                        "input:2:13: tenant is of type number, want an object",
		`{"version": "2"}`:                          `version is "2", want "1"`,
		`{"tenant": {"id": 1}}`:                     "tenant.id is of type number, want a string",
		`{"tenant": {"groups": "a"}}`:               "tenant.groups is of type string, want an array of strings",
		`{"tenant": {"groups": [{}]}}`:              "tenant.groups is of type object, want a string",
		`{"request": {"stream": "yes"}}`:            "request.stream is of type string, want a boolean",
		`{"request": {"labels": {"a": 1}}}`:         "request.labels is of type number, want a string",
		`{"router": {"hour_utc": 24}}`:              "router.hour_utc number 24 is not an hour from 0 to 23",
		`{"router": {"hour_utc": 1.5}}`:             "is not an hour",
		`{"request": {"model": "a", "model": "b"}}`: `duplicate key "model"`,
		`{"request": {"Model": "a"}}`:               `unknown field "request.Model"`,
	} {
		if in, err := ParseInput([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %s", text, in, err, want)
		}
	}
	in, err := ParseInput([]byte(`{"version": "", "tenant": {"id": "a", "user": null, "auth": null}, ` +
		`"router": {"hour_utc": 3}}`))
	if err != nil || in.Principal.Tenant != "a" || in.HourUTC != 3 {
		t.Errorf("got %+v, %v", in, err)
	}
}
