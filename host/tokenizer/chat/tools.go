package chat

import "github.com/kvasir-router/kvasir/host/tokenizer/jinja"

// normalizeTools converts the member tools of the API that k selects to the output
// of vLLM's ChatCompletionToolsParam: the known fields in their order, with
// description and parameters even if they are missing.
func normalizeTools(v jinja.Value, k kind, m *jinja.Meter) (jinja.Value, string) {
	items, ok := v.Items()
	if !ok {
		return v, reasonTools
	}
	one := normalizeTool
	switch k {
	case kindToolsMessages:
		one = anthropicTool
	case kindToolsResponses:
		one = responsesTool
	}
	list := make([]jinja.Value, 0, len(items))
	m.AddValues(len(items))
	for _, x := range items {
		t, ok := one(x, m)
		if !ok {
			return v, reasonTools
		}
		if !t.IsNone() {
			list = append(list, t)
		}
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
	out := functionTool(m, name, description, parameters, strict, deferInner)
	if !deferOuter.IsNone() {
		out.Set("defer_loading", deferOuter)
	}
	return out.Value(), true
}

// functionTool returns a tool as templates receive it. strict and deferred may be None.
func functionTool(m *jinja.Meter, name, description, parameters, strict, deferred jinja.Value) *jinja.Dict {
	function := jinja.NewDict(5, m)
	function.Set("name", name)
	function.Set("description", description)
	function.Set("parameters", parameters)
	if !strict.IsNone() {
		function.Set("strict", strict)
	}
	if !deferred.IsNone() {
		function.Set("defer_loading", deferred)
	}
	out := jinja.NewDict(3, m)
	out.Set("type", jinja.Str("function"))
	out.Set("function", function.Value())
	return out
}

// flatTool converts a tool whose members are not within "function"; schema is the
// name of the member with its parameters.
func flatTool(v jinja.Value, schema string, m *jinja.Meter) (tool, parameters jinja.Value, ok bool) {
	d := v.Dict()
	name, _ := d.Get("name")
	description, ok1 := optional(d, "description", jinja.Value.IsString)
	parameters, ok2 := optional(d, schema, func(v jinja.Value) bool { return v.Dict() != nil })
	strict, ok3 := optional(d, "strict", jinja.Value.IsBool)
	deferred, ok4 := optional(d, "defer_loading", jinja.Value.IsBool)
	if !name.IsString() || !ok1 || !ok2 || !ok3 || !ok4 {
		return v, v, false
	}
	if p := parameters.Dict(); p != nil && schema == "input_schema" {
		if _, has := p.Get("type"); !has {
			typed := copyDict(p)
			typed.Set("type", jinja.Str("object"))
			parameters = typed.Value()
		}
	}
	return functionTool(m, name, description, parameters, strict, deferred).Value(), parameters, true
}

// anthropicTool converts a tool of Anthropic's API to a chat tool (_convert_tools).
func anthropicTool(v jinja.Value, m *jinja.Meter) (jinja.Value, bool) {
	if v.Dict() == nil {
		return v, false
	}
	tool, parameters, ok := flatTool(v, "input_schema", m)
	return tool, ok && !parameters.IsNone()
}

// responsesTool converts a tool of the responses API to a chat tool
// (construct_tool_dicts): functions, and custom tools, which become functions with
// one text argument. It returns None for tools that the server itself would run,
// which templates do not receive.
func responsesTool(v jinja.Value, m *jinja.Meter) (jinja.Value, bool) {
	d := v.Dict()
	if d == nil {
		return v, false
	}
	typ, _ := d.Get("type")
	switch typ.Text() {
	case "", "namespace":
		return v, false
	case "function":
		tool, _, ok := flatTool(v, "parameters", m)
		return tool, ok
	case "custom":
		name, _ := d.Get("name")
		description, ok := optional(d, "description", jinja.Value.IsString)
		return functionTool(m, name, description, customParameters, jinja.None, jinja.None).Value(), ok && name.IsString()
	}
	return jinja.None, true
}

// customParameters is custom_tool_parameters of vllm/tool_parsers/utils.py.
var customParameters = func() jinja.Value {
	v, err := jinja.DecodeJSON([]byte(`{"type": "object", "properties": {"input": {"type": "string", "description": `+
		`"The freeform text payload for this tool."}}, "required": ["input"], "additionalProperties": false}`), nil)
	if err != nil {
		panic("BUG: chat: " + err.Error())
	}
	return v
}()

// optional returns a member that may be missing or null, which gives None, and
// whether it has the right type.
func optional(d *jinja.Dict, key string, is func(jinja.Value) bool) (jinja.Value, bool) {
	v, has := d.Get(key)
	if !has || v.IsNone() {
		return jinja.None, true
	}
	return v, is(v)
}
