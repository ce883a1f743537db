package simengine

import (
	"errors"
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// What vLLM 0.32 makes of a body of Anthropic's API before it is a chat: see
// vllm/entrypoints/anthropic/serving.py. Written apart from the router's.

var (
	errBadBlock  = errors.New("a content block is not of a known form")
	errBadSystem = errors.New("system must be a text or a list of blocks")
)

// anthropicChat returns a body for chat completions. first means that the template
// needs all system prompts in front, disabled is the effort of disabled thinking.
func anthropicChat(body *jinja.Dict, first bool, disabled string) (*jinja.Dict, error) {
	c := &anthropicConversion{first: first}
	if err := c.system(member(body, "system")); err != nil {
		return nil, err
	}
	list, ok := member(body, "messages").Items()
	if !ok {
		return nil, errBadMessages
	}
	for _, m := range list {
		if err := c.message(m.Dict()); err != nil {
			return nil, err
		}
	}
	messages := c.out
	if len(c.prompts) > 0 {
		messages = append([]jinja.Value{object("role", jinja.Str("system"), "content", jinja.Own(strings.Join(c.prompts, ""),
			nil))}, messages...)
	}
	tools, err := anthropicTools(member(body, "tools"))
	if err != nil {
		return nil, err
	}
	effort := member(member(body, "output_config").Dict(), "effort")
	if member(member(body, "thinking").Dict(), "type").Text() == "disabled" {
		effort = jinja.Str(disabled)
	}
	return object("messages", jinja.List(messages), "tools", tools, "reasoning_effort", effort,
		"chat_template_kwargs", member(body, "chat_template_kwargs")).Dict(), nil
}

type anthropicConversion struct {
	first   bool
	prompts []string // of the system message in front
	out     []jinja.Value
}

func (c *anthropicConversion) system(v jinja.Value) error {
	if v.IsString() {
		if v.Text() != "" {
			c.prompts = append(c.prompts, v.Text())
		}
		return nil
	}
	blocks, ok := v.Items()
	if !ok && !v.IsNone() {
		return errBadSystem
	}
	c.prompts = append(c.prompts, promptTexts(blocks)...)
	return nil
}

// promptTexts are the texts of a system prompt without what changes by itself.
func promptTexts(blocks []jinja.Value) (texts []string) {
	for _, b := range blocks {
		t := member(b.Dict(), "text").Text()
		if member(b.Dict(), "type").Text() == "text" && t != "" && !strings.HasPrefix(t, billingHeader) {
			texts = append(texts, t)
		}
	}
	return texts
}

func (c *anthropicConversion) message(m *jinja.Dict) error {
	content := member(m, "content")
	blocks, isList := content.Items()
	if !isList && !content.IsString() {
		return errBadContent
	}
	role := member(m, "role")
	switch role.Text() {
	case "system":
		text := strings.Join(promptTexts(blocks), "")
		if !isList && !strings.HasPrefix(content.Text(), billingHeader) {
			text = content.Text()
		}
		switch {
		case text == "":
		case c.first:
			c.prompts = append(c.prompts, text)
		default:
			c.out = append(c.out, object("role", role, "content", jinja.Own(text, nil)))
		}
		return nil
	case "user", "assistant":
	default:
		return errBadMessages
	}
	if !isList {
		c.out = append(c.out, object("role", role, "content", content))
		return nil
	}
	return c.blocks(role, blocks)
}

// blocks adds the message of a list of blocks, after the results in it.
func (c *anthropicConversion) blocks(role jinja.Value, blocks []jinja.Value) error {
	var parts, calls []jinja.Value
	var thoughts []string
	for _, block := range blocks {
		b := block.Dict()
		switch member(b, "type").Text() {
		case "text":
			t := member(b, "text")
			if !t.IsNone() && !t.IsString() {
				return errBadBlock
			}
			if t.Text() != "" {
				parts = append(parts, textPart(t))
			}
		case "thinking":
			thoughts = append(thoughts, member(b, "thinking").Text())
		case "tool_use":
			input := member(b, "input")
			if input.IsNone() {
				input = object()
			}
			if input.Dict() == nil {
				return errBadBlock
			}
			function := object("arguments", input, "name", jinja.Str(member(b, "name").Text()))
			calls = append(calls, object("id", member(b, "id"), "function", function, "type", jinja.Str("function")))
		case "tool_result":
			if role.Text() == "user" {
				c.result(b)
			} else {
				parts = append(parts, textPart(jinja.Own("Tool result: "+member(b, "content").Text(), nil)))
			}
		case "redacted_thinking", "tool_reference":
		default:
			return errBadBlock
		}
	}
	if role.Text() == "user" && len(parts) == 0 {
		return nil
	}
	m := object("role", role, "content", jinja.List(parts)).Dict()
	if len(calls) > 0 {
		m.Set("tool_calls", jinja.List(calls))
	}
	if len(thoughts) > 0 {
		m.Set("reasoning", jinja.Own(strings.Join(thoughts, ""), nil))
	}
	c.out = append(c.out, m.Value())
	return nil
}

func textPart(text jinja.Value) jinja.Value {
	return object("type", jinja.Str("text"), "text", text)
}

// result adds the messages of the result of a tool.
func (c *anthropicConversion) result(b *jinja.Dict) {
	id := jinja.Str(member(b, "tool_use_id").Text())
	text := member(b, "content").Text()
	var texts []string
	var references []jinja.Value
	items, isList := member(b, "content").Items()
	for _, item := range items {
		d := item.Dict()
		switch member(d, "type").Text() {
		case "text":
			texts = append(texts, member(d, "text").Text())
		case "tool_reference":
			name := member(d, "tool_name")
			if name.Text() == "" {
				name = member(d, "name")
			}
			if name.Text() != "" {
				references = append(references, object("type", jinja.Str("tool_reference"), "name", name))
			}
		}
	}
	if isList {
		text = strings.Join(texts, "\n")
	}
	c.out = append(c.out, object("role", jinja.Str("tool"), "tool_call_id", id, "content", jinja.Own(text, nil)))
	if len(references) > 0 {
		c.out = append(c.out, object("role", jinja.Str("tool"), "tool_call_id", id, "content", jinja.List(references)))
	}
}

// anthropicTools makes tools of chat of those of Anthropic's API.
func anthropicTools(v jinja.Value) (jinja.Value, error) {
	items, ok := v.Items()
	if v.IsNone() {
		return v, nil
	}
	out := make([]jinja.Value, len(items))
	for i, item := range items {
		t := item.Dict()
		schema := member(t, "input_schema").Dict()
		if schema == nil || !member(t, "name").IsString() {
			return v, errBadTool
		}
		parameters := jinja.NewDict(len(schema.Keys)+1, nil)
		for k, name := range schema.Keys {
			parameters.Set(name, schema.Vals[k])
		}
		if _, typed := schema.Get("type"); !typed {
			parameters.Set("type", jinja.Str("object"))
		}
		out[i] = object("type", jinja.Str("function"), "function", object("name", member(t, "name"), "description", member(t,
			"description"),
			"parameters", parameters.Value(), "strict", member(t, "strict"), "defer_loading", member(t, "defer_loading")))
	}
	if !ok {
		return v, errBadTool
	}
	return jinja.List(out), nil
}
