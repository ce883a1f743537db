package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// InputKind is the type of a field of the input document.
type InputKind uint8

// Kinds of fields.
const (
	InputConstant InputKind = iota // a string that is the same in each document
	InputText                      // a string
	InputList                      // a list of strings
	InputBool                      // true or false
	InputHour                      // an integer from 0 to 23
	InputLabels                    // an object of strings
	numInputKinds
)

// inputField is one field of the input document. Of the accessors, which return where an
// Input keeps the field, the one of its kind is set; they need an Input with a Principal.
type inputField struct {
	path   string // names, joined by dots
	kind   InputKind
	is     string // what the field holds, Markdown
	name   string // flag of kvasir policy explain, "" = none
	preset string // of the flag
	value  string // of an InputConstant

	// principal reports that the Principal keeps the field. It is immutable, so copies of an
	// Input share it.
	principal bool

	text    func(in *Input) *string
	list    func(in *Input) *[]string
	boolean func(in *Input) *bool
	hour    func(in *Input) *int
	labels  func(in *Input) *[]Label
}

func constantField(path, value string) inputField {
	return inputField{path: path, kind: InputConstant, value: value}
}

func textField(path string, at func(*Input) *string) inputField {
	return inputField{path: path, kind: InputText, text: at}
}

func listField(path string, at func(*Input) *[]string) inputField {
	return inputField{path: path, kind: InputList, list: at}
}

func boolField(path string, at func(*Input) *bool) inputField {
	return inputField{path: path, kind: InputBool, boolean: at}
}

func hourField(path string, at func(*Input) *int) inputField {
	return inputField{path: path, kind: InputHour, hour: at}
}

func labelsField(path string, at func(*Input) *[]Label) inputField {
	return inputField{path: path, kind: InputLabels, labels: at}
}

// credential makes f a field of the Principal.
func (f inputField) credential() inputField {
	f.principal = true
	return f
}

// by sets the flag of kvasir policy explain and its value if it is not given.
func (f inputField) by(flag, preset string) inputField {
	f.name, f.preset = flag, preset
	return f
}

// doc sets the documentation of f.
func (f inputField) doc(is string) inputField {
	f.is = is
	return f
}

// InputFlag is how a command takes a field of the input document.
type InputFlag struct {
	Name, Default, Path string
	Kind                InputKind
}

// InputFlags returns the flags for the fields of the input document, in its order.
func InputFlags() []InputFlag {
	var out []InputFlag
	for i := range inputFields {
		if f := &inputFields[i]; f.name != "" {
			out = append(out, InputFlag{f.name, f.preset, f.path, f.kind})
		}
	}
	return out
}

// inputPaths are the paths of the fields, and inputObjects those of the objects that
// contain them, parents first.
var inputPaths, inputObjects = func() (paths, objects []string) {
	for i := range inputFields {
		path := inputFields[i].path
		paths = append(paths, path)
		for at, c := range path {
			if c == '.' && !slices.Contains(objects, path[:at]) {
				objects = append(objects, path[:at])
			}
		}
	}
	return paths, objects
}()

// indexOfInput returns the index of the field at a path, -1 if there is none.
func indexOfInput(path string) int { return slices.Index(inputPaths, path) }

// term returns the value of f in a document; of labels those that keep accepts.
func (f *inputField) term(in *Input, keep func(label string) bool) ast.Value {
	switch f.kind {
	case InputConstant:
		return ast.String(f.value)
	case InputText:
		return ast.String(*f.text(in))
	case InputList:
		var terms []*ast.Term
		for _, v := range *f.list(in) {
			terms = append(terms, ast.StringTerm(v))
		}
		return ast.NewArray(terms...)
	case InputBool:
		return ast.Boolean(*f.boolean(in))
	case InputHour:
		return ast.Number(strconv.Itoa(*f.hour(in)))
	case InputLabels:
		o := ast.NewObject()
		for _, l := range *f.labels(in) {
			if keep(l.Name) {
				o.Insert(ast.StringTerm(l.Name), ast.StringTerm(l.Value))
			}
		}
		return o
	}
	panic("BUG: policy: kind of an input field")
}

// read sets the field of in from a value of JSON; null is the zero value. in has a
// Principal of its own.
func (f *inputField) read(n *jsonNode, in *Input) (err error) {
	if n.kind == jsonNull {
		return nil
	}
	switch f.kind {
	case InputConstant:
		var v string
		if v, err = textOf(n); err == nil && v != f.value && v != "" {
			err = fmt.Errorf("is %.40q, want %q", v, f.value)
		}
	case InputText:
		*f.text(in), err = textOf(n)
	case InputList:
		*f.list(in), err = listOfTexts(n)
	case InputBool:
		if n.kind != jsonBool {
			return wantError(n, "a boolean")
		}
		*f.boolean(in) = n.yes
	case InputHour:
		h, bad := strconv.Atoi(n.text)
		if n.kind != jsonNumber || bad != nil || h < 0 || h > 23 {
			return fmt.Errorf("%s%.40s is not an hour from 0 to 23", jsonKindNames[n.kind], " "+n.text)
		}
		*f.hour(in) = h
	case InputLabels:
		*f.labels(in), err = labelsOf(n)
	}
	return err
}

func wantError(n *jsonNode, want string) error {
	return fmt.Errorf("is of type %s, want %s", jsonKindNames[n.kind], want)
}

// textOf returns a string; null is "".
func textOf(n *jsonNode) (string, error) {
	if n.kind != jsonString && n.kind != jsonNull {
		return "", wantError(n, "a string")
	}
	return n.text, nil
}

func listOfTexts(n *jsonNode) (out []string, err error) {
	if n.kind != jsonArray {
		return nil, wantError(n, "an array of strings")
	}
	for _, e := range n.elems {
		s, err := textOf(e)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// labelsOf returns labels, sorted by name.
func labelsOf(n *jsonNode) (out []Label, err error) {
	if n.kind != jsonObject {
		return nil, wantError(n, "an object of strings")
	}
	for i, name := range n.keys {
		v, err := textOf(n.elems[i])
		if err != nil {
			return nil, err
		}
		out = append(out, Label{Name: name, Value: v})
	}
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// detach gives in a copy of f that shares no memory. f is not a field of the Principal.
func (f *inputField) detach(in *Input) {
	switch f.kind {
	case InputList:
		*f.list(in) = slices.Clone(*f.list(in))
	case InputLabels:
		*f.labels(in) = slices.Clone(*f.labels(in))
	}
	f.eachText(in, func(s *string) { *s = strings.Clone(*s) })
}

// eachText calls do with the place of each string of f in in.
func (f *inputField) eachText(in *Input, do func(s *string)) {
	switch f.kind {
	case InputText:
		do(f.text(in))
	case InputList:
		for i := range *f.list(in) {
			do(&(*f.list(in))[i])
		}
	case InputLabels:
		ls := *f.labels(in)
		for i := range ls {
			do(&ls[i].Name)
			do(&ls[i].Value)
		}
	}
}
