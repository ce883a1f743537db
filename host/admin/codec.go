package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Requests are structs. A field with the tag
//
//	path:"name"            is the part {name} of the path: a string;
//	query:"name"           is a parameter: a string, a bool or a time.Duration;
//	query:"name,required"  is one that must be given;
//	body:"raw"             is the whole body, as bytes;
//	body:"json"            is the whole body, decoded.
//
// A request without a body field whose other fields have JSON names is itself the
// JSON object of the body. The server reads requests by these tags, the client
// writes them, and the OpenAPI document lists them.

// Where the value of a request's field is.
type place uint8

const (
	inObject place = iota // a member of the body, which is the request itself
	inPath
	inQuery
	inRawBody
	inJSONBody
)

// param is one field of a request.
type param struct {
	place    place
	name     string // in the path or the query
	required bool
	index    int // of the field
	typ      reflect.Type
	doc      string
}

// paramsOf returns the fields of a request type, and whether the request itself
// is the JSON body.
func paramsOf(t reflect.Type) (params []param, object bool) {
	whole := false
	for i := range t.NumField() {
		f := t.Field(i)
		p := param{index: i, typ: f.Type, doc: f.Tag.Get("doc")}
		switch {
		case f.Tag.Get("path") != "":
			p.place, p.name, p.required = inPath, f.Tag.Get("path"), true
		case f.Tag.Get("query") != "":
			name, option, _ := strings.Cut(f.Tag.Get("query"), ",")
			p.place, p.name, p.required = inQuery, name, option == "required"
		case f.Tag.Get("body") == "raw":
			p.place, p.required, whole = inRawBody, true, true
		case f.Tag.Get("body") == "json":
			p.place, p.required, whole = inJSONBody, true, true
		case f.Tag.Get("json") == "-":
			continue
		default:
			object = true
			continue
		}
		params = append(params, p)
	}
	return params, object && !whole
}

// readParams fills the fields of the request q that stand in the path and the
// query. The error wraps ErrRefused; the fields that could be read are filled.
func readParams(r *http.Request, q any) error {
	v := reflect.ValueOf(q).Elem()
	params, _ := paramsOf(v.Type())
	query := r.URL.Query()
	var all []error
	for i := range params {
		p := &params[i]
		text := ""
		switch p.place {
		case inPath:
			text = r.PathValue(p.name)
		case inQuery:
			text = query.Get(p.name)
		default:
			continue
		}
		if err := p.set(v.Field(p.index), text); err != nil {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// set parses the text of a parameter; an absent one is "".
func (p *param) set(v reflect.Value, text string) error {
	if text == "" {
		if p.required {
			return fmt.Errorf("%w: missing parameter %s", ErrRefused, p.name)
		}
		return nil
	}
	switch p.typ {
	case reflect.TypeFor[string]():
		v.SetString(text)
	case reflect.TypeFor[bool]():
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%w: parameter %s: %q: want true or false", ErrRefused, p.name, shorten(text))
		}
		v.SetBool(b)
	case reflect.TypeFor[time.Duration]():
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("%w: parameter %s: %q: want a duration such as 24h", ErrRefused, p.name, shorten(text))
		}
		v.SetInt(int64(d))
	default:
		panic("BUG: parameter " + p.name + " has the type " + p.typ.String())
	}
	return nil
}

// text formats the value of a parameter; "" = it is left out.
func (p *param) text(v reflect.Value) string {
	if v.IsZero() && !p.required {
		return ""
	}
	switch x := v.Interface().(type) {
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	case time.Duration:
		return x.String()
	}
	panic("BUG: parameter " + p.name + " has the type " + p.typ.String())
}

// shorten returns as much of a wrong parameter as an error may show: a long one may
// be a key whose form is not recognised.
func shorten(s string) string {
	if len(s) > 16 {
		return s[:4] + "…"
	}
	return s
}

// readBody fills the fields of the request q that stand in the body.
func readBody(c *call, q any) error {
	v := reflect.ValueOf(q).Elem()
	params, object := paramsOf(v.Type())
	if object {
		b, err := c.body(maxObject)
		if err != nil {
			return err
		}
		return decodeObject(b, q)
	}
	for i := range params {
		p := &params[i]
		if p.place != inRawBody && p.place != inJSONBody {
			continue
		}
		b, err := c.body(c.cfg.MaxBody)
		if err != nil {
			return err
		}
		if p.place == inRawBody {
			v.Field(p.index).SetBytes(b)
		} else if err := json.Unmarshal(b, v.Field(p.index).Addr().Interface()); err != nil {
			return fmt.Errorf("%w: the body is not %s: %v", ErrRefused, p.doc, err)
		}
	}
	return nil
}

// decodeObject reads a JSON object strictly. The error wraps ErrRefused and says
// which members there are.
func decodeObject(b []byte, q any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(q); err != nil {
		return fmt.Errorf("%w: want a JSON object with %s: %v", ErrRefused,
			strings.Join(memberNames(reflect.TypeOf(q).Elem()), ", "), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: unexpected text after the JSON object", ErrRefused)
	}
	return nil
}

// memberNames returns the JSON names of a struct's fields.
func memberNames(t reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// maxObject bounds the body of a request that is a JSON object, in bytes: above a key
// with all the groups and labels that it may have.
const maxObject = 256 << 10

// body reads the body of a request, of at most limit bytes.
func (c *call) body(limit int64) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, min(limit, c.cfg.MaxBody)))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &apiError{http.StatusRequestEntityTooLarge, "body_too_large",
			"The body is larger than this listener accepts."}
	}
	if err != nil {
		return nil, &apiError{http.StatusBadRequest, "bad_body", "The body could not be read."}
	}
	return b, nil
}

// encode returns the path with query, and the body, of a request.
func encode(rt *Route, q any) (target string, body []byte, contentType string, err error) {
	v := reflect.ValueOf(q).Elem()
	params, object := paramsOf(v.Type())
	path, query := rt.Path, url.Values{}
	for i := range params {
		p := &params[i]
		field := v.Field(p.index)
		switch p.place {
		case inPath:
			escaped := url.PathEscape(p.text(field))
			path = strings.NewReplacer("{"+p.name+"}", escaped, "{"+p.name+"...}", escaped).Replace(path)
		case inQuery:
			if text := p.text(field); text != "" {
				query.Set(p.name, text)
			}
		case inRawBody:
			body, contentType = field.Bytes(), "application/octet-stream"
		case inJSONBody:
			body, err = json.Marshal(field.Interface())
			contentType = "application/json"
		}
	}
	if object {
		body, err = json.Marshal(q)
		contentType = "application/json"
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path, body, contentType, err
}
