package chat

import "github.com/kvasir-router/kvasir/host/tokenizer/jinja"

// normalizeTools makes of the member tools what vLLM's ChatCompletionToolsParam
// dumps: the known fields in their order, description and parameters even when
// they are missing.
func normalizeTools(v jinja.Value, m *jinja.Meter) (jinja.Value, string) {
	items, ok := v.Items()
	if !ok {
		return v, reasonTools
	}
	list := make([]jinja.Value, len(items))
	m.AddValues(len(items))
	for i, x := range items {
		t, ok := normalizeTool(x, m)
		if !ok {
			return v, reasonTools
		}
		list[i] = t
	}
	return jinja.List(list), ""
}

func normalizeTool(v jinja.Value, m *jinja.Meter) (jinja.Value, bool) {
	d := v.Dict()
	if d == nil {
		return v, false
	}
	if typ, has := d.Get("type"); has && typ.Text() != "function" {
		return v, false
	}
	fv, _ := d.Get("function")
	f := fv.Dict()
	if f == nil {
		return v, false
	}
	name, _ := f.Get("name")
	description, ok1 := optional(f, "description", jinja.Value.IsString)
	parameters, ok2 := optional(f, "parameters", func(v jinja.Value) bool { return v.Dict() != nil })
	strict, ok3 := optional(f, "strict", jinja.Value.IsBool)
	deferInner, ok4 := optional(f, "defer_loading", jinja.Value.IsBool)
	deferOuter, ok5 := optional(d, "defer_loading", jinja.Value.IsBool)
	if !name.IsString() || !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return v, false
	}
	if deferInner.IsNone() {
		deferInner = deferOuter
	}
	function := jinja.NewDict(5, m)
	function.Set("name", name)
	function.Set("description", description)
	function.Set("parameters", parameters)
	if !strict.IsNone() {
		function.Set("strict", strict)
	}
	if !deferInner.IsNone() {
		function.Set("defer_loading", deferInner)
	}
	out := jinja.NewDict(3, m)
	out.Set("type", jinja.Str("function"))
	out.Set("function", function.Value())
	if !deferOuter.IsNone() {
		out.Set("defer_loading", deferOuter)
	}
	return out.Value(), true
}

// optional returns a member that may be missing or null, None then, and whether
// it is of the right type.
func optional(d *jinja.Dict, key string, is func(jinja.Value) bool) (jinja.Value, bool) {
	v, has := d.Get(key)
	if !has || v.IsNone() {
		return jinja.None, true
	}
	return v, is(v)
}
