package chat

import (
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// Input items of the responses API, as vLLM 0.32 converts them to chat messages
// (vllm/entrypoints/openai/responses/utils.py, after the validation of
// ResponsesRequest). That code generates testdata/vllm_apis.json.

// itemPiece is the role of an item in the message that it becomes part of.
type itemPiece uint8

const (
	pieceMessage   itemPiece = iota // a separate message
	pieceText                       // the text of an assistant's message
	pieceCall                       // one of its tool calls
	pieceReasoning                  // its reasoning
)

// item decodes one item. Items that are parts of an assistant's message are
// joined by assistant.
func (n *normalizer) item(v jinja.Value) *decoded {
	d := v.Dict()
	if d == nil {
		return &decoded{fault: reasonMessage}
	}
	typ, has := d.Get("type")
	if has && !typ.IsString() {
		return &decoded{fault: reasonMessage}
	}
	switch typ.Text() {
	case "function_call":
		return n.callItem(d, "arguments")
	case "custom_tool_call":
		return n.callItem(d, "input")
	case "reasoning":
		return n.reasoningItem(d)
	case "function_call_output", "custom_tool_call_output":
		return n.outputItem(d)
	case "message", "":
		return n.messageItem(d)
	}
	return &decoded{fault: reasonItem}
}

// callItem decodes a call of a function, or of a custom tool, whose only argument
// is its input.
func (n *normalizer) callItem(d *jinja.Dict, payload string) *decoded {
	id, _ := d.Get("call_id")
	name, _ := d.Get("name")
	raw, _ := d.Get(payload)
	space, ok := optional(d, "namespace", jinja.Value.IsString)
	if !ok || !id.IsString() || !name.IsString() || !raw.IsString() {
		return &decoded{fault: reasonMessage}
	}
	var args jinja.Value
	if payload == "input" {
		o := jinja.NewDict(1, n.m)
		o.Set("input", raw)
		args = o.Value()
	} else {
		if space.Truth() {
			name = jinja.Own(space.Text()+"__"+name.Text(), n.m)
		}
		if args, ok = n.arguments(raw); !ok {
			return &decoded{fault: reasonMessage}
		}
	}
	f := jinja.NewDict(2, n.m)
	f.Set("name", name)
	f.Set("arguments", args)
	out := jinja.NewDict(3, n.m)
	out.Set("id", id)
	out.Set("function", f.Value())
	out.Set("type", jinja.Str("function"))
	return &decoded{v: out.Value(), piece: pieceCall}
}

// reasoningItem uses the first text of the content, else of the summary.
func (n *normalizer) reasoningItem(d *jinja.Dict) *decoded {
	summary, _ := d.Get("summary")
	texts, ok := summary.Items()
	if encrypted, has := d.Get("encrypted_content"); !ok || has && encrypted.Truth() {
		return &decoded{fault: reasonMessage}
	}
	content, has := d.Get("content")
	if has && !content.IsNone() {
		items, ok := content.Items()
		if !ok {
			return &decoded{fault: reasonMessage}
		}
		if len(items) > 0 {
			texts = items
		}
	}
	text := jinja.Str("")
	if len(texts) > 0 {
		text, _ = texts[0].Dict().Get("text")
		if !text.IsString() {
			return &decoded{fault: reasonMessage}
		}
	}
	return &decoded{v: text, piece: pieceReasoning, open: unfinished(d)}
}

// unfinished reports whether an item is to be continued.
func unfinished(d *jinja.Dict) bool {
	status, _ := d.Get("status")
	return status.Text() == "in_progress" || status.Text() == "incomplete"
}

// outputItem creates the message of a tool's output.
func (n *normalizer) outputItem(d *jinja.Dict) *decoded {
	output, _ := d.Get("output")
	id, ok := optional(d, "call_id", jinja.Value.IsString)
	if !ok {
		return &decoded{fault: reasonMessage}
	}
	return n.madeMessage("tool", output, id)
}

// madeMessage creates a message from a text or from input parts.
func (n *normalizer) madeMessage(role string, content, callID jinja.Value) *decoded {
	if items, ok := content.Items(); ok {
		parts := make([]jinja.Value, len(items))
		for i, x := range items {
			text, fault := inputPart(x)
			if fault != "" {
				return &decoded{fault: fault}
			}
			parts[i] = text
		}
		content = jinja.List(parts)
	} else if !content.IsString() {
		return &decoded{fault: reasonMessage}
	}
	d := jinja.NewDict(3, n.m)
	d.Set("role", jinja.Str(role))
	d.Set("content", content)
	if role == "tool" {
		d.Set("tool_call_id", callID)
	}
	m := n.message(d.Value())
	out := &decoded{v: m.v, fault: m.fault}
	switch {
	case m.developer:
		out.role = roleDeveloper
	case m.system:
		out.role = roleSystem
	}
	return out
}

// inputPart returns the text of one input part.
func inputPart(x jinja.Value) (text jinja.Value, fault string) {
	typ, _ := x.Dict().Get("type")
	text, _ = x.Dict().Get("text")
	switch {
	case typ.Text() == "input_image", typ.Text() == "input_file", typ.Text() == "input_audio":
		return text, reasonMedia
	case typ.Text() != "input_text" || !text.IsString():
		return text, reasonMessage
	}
	return text, ""
}

// messageItem decodes an item with a role.
func (n *normalizer) messageItem(d *jinja.Dict) *decoded {
	role, _ := d.Get("role")
	content, _ := d.Get("content")
	switch role.Text() {
	case "assistant":
		return n.assistantItem(d, content)
	case "user", "system", "developer":
		if unfinished(d) {
			return &decoded{fault: reasonContinue}
		}
		return n.madeMessage(role.Text(), content, jinja.None)
	}
	return &decoded{fault: reasonMessage}
}

// assistantItem uses the first text of an assistant's message.
func (n *normalizer) assistantItem(d *jinja.Dict, content jinja.Value) *decoded {
	items, parts := content.Items()
	if content.IsString() {
		return &decoded{v: n.contentOf([]jinja.Value{content}), piece: pieceText, open: unfinished(d)}
	}
	if !parts || len(items) == 0 {
		return &decoded{fault: reasonMessage}
	}
	first := items[0].Dict()
	typ, _ := first.Get("type")
	text, _ := first.Get("text")
	switch typ.Text() {
	case "output_text", "input_text":
	case "input_image", "input_file":
		return &decoded{fault: reasonMedia}
	default:
		return &decoded{fault: reasonMessage}
	}
	if !text.IsString() {
		return &decoded{fault: reasonMessage}
	}
	return &decoded{v: n.contentOf([]jinja.Value{text}), piece: pieceText, open: unfinished(d)}
}

// assistant is an assistant's message to which items are being added.
type assistant struct {
	content, reasoning       jinja.Value
	hasContent, hasReasoning bool
	calls                    []jinja.Value
}

// takes adds an item, unless the message already has a part of that kind.
func (a *assistant) takes(d *decoded) bool {
	switch d.piece {
	case pieceText:
		if a.hasContent {
			return false
		}
		a.content, a.hasContent = d.v, true
	case pieceReasoning:
		if a.hasReasoning {
			return false
		}
		a.reasoning, a.hasReasoning = d.v, true
	case pieceCall:
		a.calls = append(a.calls, d.v)
	}
	return true
}

// message returns the message built from the items.
func (a *assistant) message(n *normalizer) jinja.Value {
	d := jinja.NewDict(5, nil)
	d.Set("role", jinja.Str("assistant"))
	if !a.hasContent {
		a.content = n.contentOf(nil)
	}
	d.Set("content", a.content)
	if len(a.calls) > 0 {
		d.Set("tool_calls", jinja.List(a.calls))
	}
	if a.hasReasoning {
		d.Set("reasoning", a.reasoning)
		d.Set("reasoning_content", a.reasoning)
	}
	return d.Value()
}
