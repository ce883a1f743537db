package simengine

import (
	"errors"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// What vLLM 0.32 makes of a body of the responses API before it is a chat: see
// vllm/entrypoints/openai/responses/utils.py. Written apart from the router's.

var errBadItem = errors.New("unsupported input item")

// responsesChat returns a body for chat completions.
func responsesChat(body *jinja.Dict) (*jinja.Dict, error) {
	c := &responsesConversion{}
	if text := member(body, "instructions"); text.Text() != "" {
		c.add("system", text)
	}
	input := member(body, "input")
	items, isList := input.Items()
	switch {
	case input.IsString():
		c.add("user", input)
	case !isList:
		return nil, errBadMessages
	}
	c.from = len(c.out)
	for _, item := range items {
		if err := c.item(item.Dict()); err != nil {
			return nil, err
		}
	}
	messages := make([]jinja.Value, len(c.out))
	for i, m := range c.out {
		messages[i] = m.Value()
	}
	tools, err := responsesTools(member(body, "tools"))
	if err != nil {
		return nil, err
	}
	return object("messages", jinja.List(messages), "tools", tools,
		"reasoning_effort", member(member(body, "reasoning").Dict(), "effort"),
		"chat_template_kwargs", member(body, "chat_template_kwargs"),
		"add_generation_prompt", jinja.Bool(!c.unfinished), "continue_final_message", jinja.Bool(c.unfinished)).Dict(), nil
}

type responsesConversion struct {
	out        []*jinja.Dict
	from       int  // messages before the items
	unfinished bool // the last item is to be continued
}

func (c *responsesConversion) add(role string, content jinja.Value) *jinja.Dict {
	m := object("role", jinja.Str(role)).Dict()
	if !content.IsNone() {
		m.Set("content", content)
	}
	c.out = append(c.out, m)
	return m
}

// part returns the assistant's message that a part named name joins: the last
// message, unless that is not an assistant's or has one already.
func (c *responsesConversion) part(name string) *jinja.Dict {
	if n := len(c.out); n > c.from {
		last := c.out[n-1]
		if _, has := last.Get(name); member(last, "role").Text() == "assistant" && !has {
			return last
		}
	}
	return c.add("assistant", jinja.None)
}

func (c *responsesConversion) item(d *jinja.Dict) error {
	status := member(d, "status").Text()
	c.unfinished = false
	unfinished := status == "in_progress" || status == "incomplete"
	switch member(d, "type").Text() {
	case "function_call":
		return c.call(d, member(d, "arguments"), false)
	case "custom_tool_call":
		return c.call(d, member(d, "input"), true)
	case "function_call_output", "custom_tool_call_output":
		m := c.add("tool", inputContent(member(d, "output")))
		m.Set("tool_call_id", member(d, "call_id"))
		return contentFault(m)
	case "reasoning":
		c.unfinished = unfinished
		return c.reasoning(d)
	case "message", "":
		if d == nil {
			return errBadItem
		}
		c.unfinished = unfinished
		return c.message(d)
	}
	return errBadItem
}

func (c *responsesConversion) call(d *jinja.Dict, payload jinja.Value, custom bool) error {
	name := member(d, "name")
	if !name.IsString() || !payload.IsString() || !member(d, "call_id").IsString() {
		return errBadItem
	}
	arguments := argumentsObject(payload.Text())
	if custom {
		arguments = object("input", payload)
	} else if space := member(d, "namespace").Text(); space != "" {
		name = jinja.Own(space+"__"+name.Text(), nil)
	}
	call := object("id", member(d, "call_id"), "function", object("name", name, "arguments", arguments), "type",
		jinja.Str("function"))
	var m *jinja.Dict
	if n := len(c.out); n > c.from && member(c.out[n-1], "role").Text() == "assistant" {
		m = c.out[n-1]
	} else {
		m = c.add("assistant", jinja.None)
	}
	calls, _ := member(m, "tool_calls").Items()
	m.Set("tool_calls", jinja.List(append(calls[:len(calls):len(calls)], call)))
	return nil
}

func (c *responsesConversion) reasoning(d *jinja.Dict) error {
	texts, ok := member(d, "summary").Items()
	if !ok || member(d, "encrypted_content").Text() != "" {
		return errBadItem
	}
	if content, _ := member(d, "content").Items(); len(content) > 0 {
		texts = content
	}
	text := jinja.Str("")
	if len(texts) > 0 {
		text = member(texts[0].Dict(), "text")
	}
	c.part("reasoning").Set("reasoning", text)
	return nil
}

func (c *responsesConversion) message(d *jinja.Dict) error {
	content := member(d, "content")
	switch role := member(d, "role").Text(); role {
	case "user", "system", "developer":
		return contentFault(c.add(role, inputContent(content)))
	case "assistant":
		if parts, isList := content.Items(); isList {
			if len(parts) == 0 {
				return errBadItem
			}
			first := parts[0].Dict()
			kind := member(first, "type").Text()
			if kind != "input_text" && (kind != "output_text" || member(d, "type").IsNone()) {
				return errBadItem
			}
			content = member(first, "text")
		}
		if !content.IsString() {
			return errBadItem
		}
		c.part("content").Set("content", content)
		return nil
	}
	return errBadItem
}

// inputContent makes parts of chat of input parts; None if one is no text.
func inputContent(v jinja.Value) jinja.Value {
	items, isList := v.Items()
	if !isList {
		return v
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		if member(item.Dict(), "type").Text() != "input_text" {
			return jinja.None
		}
		out[i] = textPart(member(item.Dict(), "text"))
	}
	return jinja.List(out)
}

func contentFault(m *jinja.Dict) error {
	if _, ok := m.Get("content"); !ok {
		return errBadContent
	}
	return nil
}

// responsesTools makes tools of chat of those of the responses API.
func responsesTools(v jinja.Value) (jinja.Value, error) {
	items, _ := v.Items()
	if len(items) == 0 {
		return jinja.None, nil
	}
	out := []jinja.Value{}
	for _, item := range items {
		t := item.Dict()
		function := object("name", member(t, "name"), "description", member(t, "description"), "parameters", member(t,
			"parameters"),
			"strict", member(t, "strict"), "defer_loading", member(t, "defer_loading")).Dict()
		switch member(t, "type").Text() {
		case "custom":
			input := object("type", jinja.Str("string"), "description", jinja.Str("The freeform text payload for this tool."))
			function.Set("parameters", object("type", jinja.Str("object"), "properties", object("input", input),
				"required", jinja.List([]jinja.Value{jinja.Str("input")}), "additionalProperties", jinja.Bool(false)))
		case "function":
		case "", "namespace":
			return v, errBadTool
		default: // run by the server: not shown
			continue
		}
		if !member(function, "name").IsString() {
			return v, errBadTool
		}
		out = append(out, object("type", jinja.Str("function"), "function", function.Value()))
	}
	return jinja.List(out), nil
}
