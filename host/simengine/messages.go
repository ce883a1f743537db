package simengine

import (
	"errors"
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// What vLLM 0.32 does to messages and tools before it renders them
// (vllm/renderers/chat_utils.py: _parse_chat_message_content,
// _postprocess_messages), for text. Written apart from the router's.

var (
	errBadMessages = errors.New("messages must be a list of objects with a role")
	errBadContent  = errors.New("only text content is supported")
	errBadTool     = errors.New("tools must be objects with a named function")
	errBadToolCall = errors.New("chat completions only support assistant tool_calls of type 'function'")
	errBadArgs     = errors.New("tool call arguments must be a string")
)

// normalMessages returns the list that templates see as messages. parts tells
// whether the template takes content as a list of parts.
func normalMessages(v jinja.Value, parts bool) (jinja.Value, error) {
	items, ok := v.Items()
	if !ok {
		return v, errBadMessages
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		d := item.Dict()
		if d == nil || !member(d, "role").IsString() {
			return v, errBadMessages
		}
		m, err := normalMessage(d, parts)
		if err != nil {
			return v, err
		}
		out[i] = m
	}
	return jinja.List(out), nil
}

func normalMessage(d *jinja.Dict, parts bool) (jinja.Value, error) {
	role := member(d, "role").Text()
	texts, err := contentTexts(member(d, "content"), role)
	if err != nil {
		return jinja.None, err
	}
	m := jinja.NewDict(4, nil)
	m.Set("role", member(d, "role"))
	m.Set("content", normalContent(texts, parts && role != "tool"))
	switch role {
	case "assistant":
		calls, err := normalCalls(member(d, "tool_calls"))
		if err != nil {
			return jinja.None, err
		}
		if !calls.IsNone() {
			m.Set("tool_calls", calls)
		}
		if r := member(d, "reasoning"); !r.IsNone() {
			m.Set("reasoning", r)
			m.Set("reasoning_content", r)
		}
	case "tool":
		if id, ok := d.Get("tool_call_id"); ok {
			m.Set("tool_call_id", id)
		}
	}
	for _, name := range []string{"name", "task"} {
		if v := member(d, name); v.IsString() {
			m.Set(name, v)
		}
	}
	if role == "developer" {
		m.Set("tools", member(d, "tools"))
	}
	return m.Value(), nil
}

// contentTexts returns the text parts of a content.
func contentTexts(v jinja.Value, role string) (texts []string, err error) {
	items, isList := v.Items()
	switch {
	case v.IsNone():
		return nil, nil
	case v.IsString():
		items = []jinja.Value{v}
	case !isList:
		return nil, errBadContent
	}
	for _, item := range items {
		text := item
		if d := item.Dict(); d != nil {
			if kind := member(d, "type"); !kind.IsNone() && kind.Text() != "text" {
				return nil, errBadContent
			}
			text = member(d, "text")
		}
		if !text.IsString() {
			return nil, errBadContent
		}
		if s, keep := withoutBilling(text.Text(), role); keep {
			texts = append(texts, s)
		}
	}
	return texts, nil
}

// billingHeader begins a line that one client puts before its system prompt and
// that differs in every request; vLLM drops it.
const billingHeader = "x-anthropic-billing-header"

func withoutBilling(text, role string) (rest string, keep bool) {
	if role != "system" || !strings.HasPrefix(text, billingHeader) {
		return text, true
	}
	_, rest, _ = strings.Cut(text, "\n")
	return rest, rest != ""
}

func normalContent(texts []string, parts bool) jinja.Value {
	if !parts {
		return jinja.Own(strings.Join(texts, "\n"), nil)
	}
	out := make([]jinja.Value, len(texts))
	for i, t := range texts {
		d := jinja.NewDict(2, nil)
		d.Set("type", jinja.Str("text"))
		d.Set("text", jinja.Own(t, nil))
		out[i] = d.Value()
	}
	return jinja.List(out)
}

// normalCalls returns tool calls whose arguments are objects, None if there are
// no calls.
func normalCalls(v jinja.Value) (jinja.Value, error) {
	items, ok := v.Items()
	if !ok || len(items) == 0 {
		return jinja.None, nil
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		call := item.Dict()
		f := member(call, "function").Dict()
		if kind := member(call, "type"); f == nil || !kind.IsNone() && kind.Text() != "function" {
			return v, errBadToolCall
		}
		args, err := normalArguments(member(f, "arguments"))
		if err != nil {
			return v, err
		}
		f = copyDict(f)
		f.Set("arguments", args)
		call = copyDict(call)
		call.Set("function", f.Value())
		out[i] = call.Value()
	}
	return jinja.List(out), nil
}

// normalArguments makes an object of a string that holds one, and an empty
// object of every other string.
func normalArguments(v jinja.Value) (jinja.Value, error) {
	empty := jinja.NewDict(0, nil).Value()
	switch {
	case v.IsNone():
		return empty, nil
	case !v.IsString():
		return v, errBadArgs
	}
	parsed, err := jinja.DecodeJSON([]byte(v.Text()), nil)
	if err != nil || parsed.Dict() == nil {
		return empty, nil
	}
	return parsed, nil
}

func copyDict(d *jinja.Dict) *jinja.Dict {
	c := jinja.NewDict(len(d.Keys), nil)
	for i, k := range d.Keys {
		c.Set(k, d.Vals[i])
	}
	return c
}

// normalTools writes tools as vLLM's ChatCompletionToolsParam does: known
// members only, in its order, None if there are none.
func normalTools(v jinja.Value) (jinja.Value, error) {
	items, ok := v.Items()
	if !ok || len(items) == 0 {
		return jinja.None, nil
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		f := member(item.Dict(), "function").Dict()
		if !member(f, "name").IsString() {
			return v, errBadTool
		}
		function := jinja.NewDict(4, nil)
		for _, name := range []string{"name", "description", "parameters"} {
			function.Set(name, member(f, name))
		}
		for _, name := range []string{"strict", "defer_loading"} {
			if x := member(f, name); !x.IsNone() {
				function.Set(name, x)
			}
		}
		tool := jinja.NewDict(2, nil)
		tool.Set("type", jinja.Str("function"))
		tool.Set("function", function.Value())
		out[i] = tool.Value()
	}
	return jinja.List(out), nil
}
