package simengine

import (
	"errors"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// What vLLM 0.32 does to tools and tool calls: its request types keep the
// members they know, in their own order.

var errBadTool = errors.New("tools must be objects of type 'function' with a named function")

// normalCalls returns the tool calls of a message with their arguments as
// objects, None if there are no calls.
func normalCalls(v jinja.Value) (jinja.Value, error) {
	items, ok := v.Items()
	switch {
	case v.IsNone() || ok && len(items) == 0:
		return jinja.None, nil
	case !ok:
		return v, errBadToolCall
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		call := item.Dict()
		f := member(call, "function").Dict()
		id, name, args := member(call, "id"), member(f, "name"), member(f, "arguments")
		if member(call, "type").Text() != "function" || !id.IsString() || !name.IsString() || !args.IsString() {
			return v, errBadToolCall
		}
		out[i] = object("id", id, "function",
			object("arguments", argumentsObject(args.Text()), "name", name), "type", jinja.Str("function"))
	}
	return jinja.List(out), nil
}

// argumentsObject makes an object of a text that holds one, and an empty object
// of every other text.
func argumentsObject(text string) jinja.Value {
	parsed, err := jinja.DecodeJSON([]byte(text), nil)
	if err != nil || parsed.Dict() == nil {
		return object()
	}
	return parsed
}

// object returns an object of names and values in turn.
func object(members ...any) jinja.Value {
	d := jinja.NewDict(len(members)/2, nil)
	for i := 0; i < len(members); i += 2 {
		d.Set(members[i].(string), members[i+1].(jinja.Value))
	}
	return d.Value()
}

// normalTools writes tools as ChatCompletionToolsParam does; None stays None.
func normalTools(v jinja.Value) (jinja.Value, error) {
	items, ok := v.Items()
	switch {
	case v.IsNone():
		return v, nil
	case !ok:
		return v, errBadTool
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		tool := item.Dict()
		f := member(tool, "function").Dict()
		if kind := member(tool, "type"); !member(f, "name").IsString() || !kind.IsNone() && kind.Text() != "function" {
			return v, errBadTool
		}
		function := jinja.NewDict(4, nil)
		for _, name := range []string{"name", "description", "parameters"} {
			function.Set(name, member(f, name))
		}
		if strict := member(f, "strict"); !strict.IsNone() {
			function.Set("strict", strict)
		}
		deferred := member(tool, "defer_loading")
		if own := member(f, "defer_loading"); !own.IsNone() {
			function.Set("defer_loading", own)
		} else if !deferred.IsNone() {
			function.Set("defer_loading", deferred)
		}
		t := jinja.NewDict(2, nil)
		t.Set("type", jinja.Str("function"))
		t.Set("function", function.Value())
		if !deferred.IsNone() {
			t.Set("defer_loading", deferred)
		}
		out[i] = t.Value()
	}
	return jinja.List(out), nil
}

// developerTools writes the tools of a developer message: what is there of the
// known members.
func developerTools(v jinja.Value) jinja.Value {
	items, ok := v.Items()
	if !ok {
		return jinja.None
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		f := member(item.Dict(), "function").Dict()
		function := jinja.NewDict(4, nil)
		for _, name := range []string{"name", "description", "parameters", "strict"} {
			if f != nil {
				if x, ok := f.Get(name); ok {
					function.Set(name, x)
				}
			}
		}
		out[i] = object("function", function.Value(), "type", member(item.Dict(), "type"))
	}
	return jinja.List(out)
}
