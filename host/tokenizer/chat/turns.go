package chat

import (
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// Messages of Anthropic's API, as vLLM 0.32 converts them to chat messages
// (vllm/entrypoints/anthropic/serving.py, to_chat_completion_request). That code
// generates testdata/vllm_apis.json.

// turn converts one message to chat messages: none, one, or several if it holds
// results of tools. They are the items of the value.
func (n *normalizer) turn(v jinja.Value) *decoded {
	d := v.Dict()
	if d == nil {
		return &decoded{fault: reasonMessage}
	}
	role, _ := d.Get("role")
	content, _ := d.Get("content")
	blocks, isList := content.Items()
	if !isList && !content.IsString() {
		return &decoded{fault: reasonMessage}
	}
	switch role.Text() {
	case "system":
		if strings.HasPrefix(content.Text(), billing) {
			return n.system(jinja.None)
		}
		if text, ok := n.systemText(content); ok {
			return n.system(text)
		}
		return &decoded{fault: reasonToolChange}
	case "user", "assistant":
	default:
		return &decoded{fault: reasonMessage}
	}
	t := turnReader{n: n, user: role.Text() == "user"}
	if !isList {
		t.texts = append(t.texts, content)
		return t.finish(role, true)
	}
	for _, b := range blocks {
		if t.block(b.Dict()); t.fault != "" {
			return &decoded{fault: t.fault}
		}
	}
	return t.finish(role, false)
}

// turnReader collects the blocks of one message.
type turnReader struct {
	n    *normalizer
	user bool

	before    []jinja.Value // messages that precede this one: results of tools
	texts     []jinja.Value
	calls     []jinja.Value
	reasoning []string
	thought   bool // there is reasoning, possibly empty
	fault     string
}

func (t *turnReader) block(b *jinja.Dict) {
	if b == nil {
		t.fault = reasonMessage
		return
	}
	typ, _ := b.Get("type")
	switch typ.Text() {
	case "text":
		if v, ok := optional(b, "text", jinja.Value.IsString); !ok {
			t.fault = reasonMessage
		} else if v.Truth() {
			t.texts = append(t.texts, v)
		}
	case "thinking":
		if v, ok := optional(b, "thinking", jinja.Value.IsString); !ok {
			t.fault = reasonMessage
		} else if !v.IsNone() {
			t.reasoning, t.thought = append(t.reasoning, v.Text()), true
		}
	case "tool_use":
		t.toolUse(b)
	case "tool_result":
		t.toolResult(b)
	case "redacted_thinking", "tool_reference":
		// not shown to the model
	case "image":
		t.fault = reasonMedia
	default:
		t.fault = reasonMessage
	}
}

// toolUse adds a call. Its arguments, which vLLM writes as JSON and reads again, are
// the input.
func (t *turnReader) toolUse(b *jinja.Dict) {
	id, ok1 := optional(b, "id", jinja.Value.IsString)
	name, ok2 := optional(b, "name", jinja.Value.IsString)
	input, ok3 := optional(b, "input", func(v jinja.Value) bool { return v.Dict() != nil })
	if !ok1 || !ok2 || !ok3 || !id.Truth() { // without an id, vLLM derives one from the time
		t.fault = reasonMessage
		return
	}
	if name.IsNone() {
		name = jinja.Str("")
	}
	if input.IsNone() {
		input = jinja.NewDict(0, t.n.m).Value()
	}
	f := jinja.NewDict(2, t.n.m)
	f.Set("arguments", input)
	f.Set("name", name)
	call := jinja.NewDict(3, t.n.m)
	call.Set("id", id)
	call.Set("function", f.Value())
	call.Set("type", jinja.Str("function"))
	t.calls = append(t.calls, call.Value())
}

// toolResult adds the messages of a result.
func (t *turnReader) toolResult(b *jinja.Dict) {
	content, _ := b.Get("content")
	id, ok := optional(b, "tool_use_id", jinja.Value.IsString)
	items, isList := content.Items()
	switch _, has := b.Get("content"); {
	case !ok || has && !content.IsNone() && !content.IsString() && !isList:
		t.fault = reasonMessage
	case !t.user && isList && len(items) > 0:
		t.fault = reasonMessage // rendered as Python prints it
	case !t.user:
		t.texts = append(t.texts, jinja.Own("Tool result: "+content.Text(), t.n.m))
	default:
		if id.IsNone() {
			id = jinja.Str("")
		}
		t.result(id, content, items)
	}
}

func (t *turnReader) result(id, content jinja.Value, items []jinja.Value) {
	var texts, references []jinja.Value
	for _, x := range items {
		d := x.Dict()
		if d == nil {
			t.fault = reasonMessage
			return
		}
		switch typ, _ := d.Get("type"); typ.Text() {
		case "text":
			s, has := d.Get("text")
			if has && !s.IsString() {
				t.fault = reasonMessage
				return
			}
			if has {
				texts = append(texts, s)
			} else {
				texts = append(texts, jinja.Str(""))
			}
		case "image":
			t.fault = reasonMedia
			return
		case "tool_reference":
			name, _ := d.Get("tool_name")
			if !name.Truth() {
				name, _ = d.Get("name")
			}
			if name.Truth() {
				references = append(references, t.n.partDict(partReference, name))
			}
		}
	}
	if !content.IsString() {
		content = t.n.joined(texts)
	}
	t.toolMessage(id, content)
	if len(references) > 0 {
		t.toolMessage(id, jinja.List(references))
	}
}

func (t *turnReader) toolMessage(id, content jinja.Value) {
	d := jinja.NewDict(3, t.n.m)
	d.Set("role", jinja.Str("tool"))
	d.Set("tool_call_id", id)
	d.Set("content", content)
	m := t.n.message(d.Value())
	if m.fault != "" {
		t.fault = m.fault
		return
	}
	t.before = append(t.before, m.v)
}

// finish adds the message itself. A user's list of blocks that contains only
// results adds no message.
func (t *turnReader) finish(role jinja.Value, text bool) *decoded {
	out := t.before
	if !t.user || text || len(t.texts) > 0 {
		d := jinja.NewDict(5, t.n.m)
		d.Set("role", role)
		d.Set("content", t.n.contentOf(t.texts))
		if len(t.calls) > 0 && !t.user {
			d.Set("tool_calls", jinja.List(t.calls))
		}
		if t.thought && !t.user {
			r := jinja.Own(strings.Join(t.reasoning, ""), t.n.m)
			d.Set("reasoning", r)
			d.Set("reasoning_content", r)
		}
		out = append(out, d.Value())
	}
	t.n.m.AddValues(len(out))
	return &decoded{v: jinja.List(out)}
}

// contentOf returns the content of texts in the form that the template expects.
func (n *normalizer) contentOf(texts []jinja.Value) jinja.Value {
	if !n.parts {
		return n.joined(texts)
	}
	parts := make([]jinja.Value, len(texts))
	for i, s := range texts {
		parts[i] = n.partDict(partText, s)
	}
	n.m.AddValues(len(parts))
	return jinja.List(parts)
}

// systemText returns the text of a system prompt, with its blocks joined, or None if
// there is none. ok is false for blocks that change the tools.
func (n *normalizer) systemText(content jinja.Value) (text jinja.Value, ok bool) {
	blocks, isList := content.Items()
	if !isList {
		if !content.Truth() {
			return jinja.None, true
		}
		return content, true
	}
	var all []string
	for _, b := range blocks {
		typ, _ := b.Dict().Get("type")
		switch typ.Text() {
		case "text":
			s, _ := b.Dict().Get("text")
			if t := s.Text(); t != "" && !strings.HasPrefix(t, billing) {
				all = append(all, t)
			}
		case "tool_addition", "tool_removal":
			return jinja.None, false
		}
	}
	if len(all) == 0 {
		return jinja.None, true
	}
	return jinja.Own(strings.Join(all, ""), n.m), true
}

// system creates the message of a system prompt; no message if text is None.
func (n *normalizer) system(text jinja.Value) *decoded {
	d := &decoded{v: jinja.List(nil), role: roleSystem, text: text}
	if text.IsNone() {
		return d
	}
	m := jinja.NewDict(2, n.m)
	m.Set("role", jinja.Str("system"))
	m.Set("content", text)
	made := n.message(m.Value())
	d.v, d.fault = jinja.List([]jinja.Value{made.v}), made.fault
	return d
}
