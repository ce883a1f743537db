package chat

import (
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// The rules are those of vLLM 0.32: vllm/renderers/chat_utils.py
// (_parse_chat_message_content, _postprocess_messages) after the validation of
// ChatCompletionMessageParam, which drops unknown fields and puts those of tool
// calls in order. That code generates testdata/vllm_messages.json.

// message is a normalized message.
type message struct {
	v         jinja.Value
	developer bool   // its role is developer
	system    bool   // its role is system
	fault     string // why the prompt is not exact
}

// normalizer creates messages for one kind of template and operation.
type normalizer struct {
	parts bool // content as a list of parts
	chat  bool // reasoning_content is used; POST /tokenize ignores it
	m     *jinja.Meter
}

// message normalizes one message.
func (n *normalizer) message(v jinja.Value) message {
	d := v.Dict()
	if d == nil {
		return message{fault: reasonMessage}
	}
	roleValue, _ := d.Get("role")
	if !roleValue.IsString() {
		return message{fault: reasonMessage}
	}
	role := roleValue.Text()
	content, fault := n.content(d, role)
	if fault != "" {
		return message{fault: fault}
	}
	out := jinja.NewDict(4, n.m)
	out.Set("role", roleValue)
	out.Set("content", content)
	ok := true
	switch role {
	case "assistant":
		ok = n.assistant(d, out)
	case "tool":
		if id, has := d.Get("tool_call_id"); has {
			ok = id.IsString() || id.IsNone()
			out.Set("tool_call_id", id)
		}
	}
	if name, has := d.Get("name"); has {
		ok = ok && name.IsString()
		out.Set("name", name)
	}
	if task, has := d.Get("task"); has && task.IsString() {
		out.Set("task", task)
	}
	if role == "developer" {
		ok = ok && n.developerTools(d, out)
	}
	if !ok {
		return message{fault: reasonMessage}
	}
	return message{v: out.Value(), developer: role == "developer", system: role == "system"}
}

// content normalizes the content of a message.
func (n *normalizer) content(d *jinja.Dict, role string) (jinja.Value, string) {
	c, has := d.Get("content")
	if !has {
		c = jinja.List(nil)
	}
	if c.IsNone() {
		if role != "assistant" && role != "function" {
			return c, reasonMessage
		}
		c = jinja.List(nil)
	}
	if c.IsString() {
		c = jinja.List([]jinja.Value{c})
	}
	items, ok := c.Items()
	if !ok {
		return c, reasonMessage
	}
	parts := make([]jinja.Value, 0, len(items)) // texts, or mappings if n.parts
	reference := false
	for _, x := range items {
		kind, text, fault := part(x)
		if fault != "" {
			return c, fault
		}
		if role == "system" && kind != partOther {
			var keep bool
			if text, keep = n.withoutBilling(text); !keep {
				continue
			}
		}
		reference = reference || kind == partReference
		if n.parts {
			text = n.partDict(kind, text)
		}
		parts = append(parts, text)
	}
	if !n.parts {
		return n.joined(parts), ""
	}
	if role == "tool" && !reference {
		texts := make([]jinja.Value, len(parts))
		for i, p := range parts {
			texts[i], _ = p.Dict().Get("text")
		}
		return n.joined(texts), ""
	}
	n.m.AddValues(len(parts))
	return jinja.List(parts), ""
}

// partKind is the way in which the template sees a part of a content.
type partKind uint8

const (
	partText      partKind = iota // a text, or a part of type text
	partOther                     // refusal, thinking: shown as text
	partReference                 // tool_reference
)

// part reads one part of a content.
func part(x jinja.Value) (kind partKind, text jinja.Value, fault string) {
	if x.IsString() {
		return partText, x, ""
	}
	d := x.Dict()
	if d == nil {
		return 0, x, reasonMessage
	}
	if id, has := d.Get("uuid"); has && !id.IsNone() {
		return 0, x, reasonMedia
	}
	typ, _ := d.Get("type")
	field := typ.Text()
	switch field {
	case "text":
	case "refusal", "thinking":
		kind = partOther
	case "tool_reference":
		kind, field = partReference, "name"
	case "":
		return 0, x, reasonMessage
	default:
		return 0, x, reasonMedia
	}
	text, _ = d.Get(field)
	if !text.IsString() {
		return 0, x, reasonMessage
	}
	return kind, text, ""
}

func (n *normalizer) partDict(kind partKind, text jinja.Value) jinja.Value {
	d := jinja.NewDict(2, n.m)
	if kind == partReference {
		d.Set("type", jinja.Str("tool_reference"))
		d.Set("name", text)
	} else {
		d.Set("type", jinja.Str("text"))
		d.Set("text", text)
	}
	return d.Value()
}

// joined joins texts with line ends.
func (n *normalizer) joined(texts []jinja.Value) jinja.Value {
	switch len(texts) {
	case 0:
		return jinja.Str("")
	case 1:
		return texts[0]
	}
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = t.Text()
	}
	return jinja.Own(strings.Join(all, "\n"), n.m)
}

// billing is the prefix of a line that a client puts before system texts. It changes
// with every request, so vLLM drops it (_strip_claude_code_billing_header).
const billing = "x-anthropic-billing-header"

func (n *normalizer) withoutBilling(text jinja.Value) (rest jinja.Value, keep bool) {
	s := text.Text()
	if !strings.HasPrefix(s, billing) {
		return text, true
	}
	_, after, _ := strings.Cut(s, "\n")
	return jinja.Own(after, n.m), after != ""
}

// assistant adds tool calls and reasoning.
func (n *normalizer) assistant(d, out *jinja.Dict) bool {
	if calls, has := d.Get("tool_calls"); has && !calls.IsNone() {
		items, ok := calls.Items()
		if !ok {
			return false
		}
		list := make([]jinja.Value, len(items))
		n.m.AddValues(len(items))
		for i, c := range items {
			if list[i], ok = n.toolCall(c); !ok {
				return false
			}
		}
		if len(list) > 0 {
			out.Set("tool_calls", jinja.List(list))
		}
	}
	reasoning, has := d.Get("reasoning")
	if n.chat && (!has || reasoning.IsNone()) {
		if r, ok := d.Get("reasoning_content"); ok {
			reasoning, has = r, true
		}
	}
	if has && !reasoning.IsNone() {
		if !reasoning.IsString() {
			return false
		}
		out.Set("reasoning", reasoning)
		out.Set("reasoning_content", reasoning)
	}
	return true
}

// toolCall keeps the known fields in their order and converts the arguments to
// a mapping.
func (n *normalizer) toolCall(v jinja.Value) (jinja.Value, bool) {
	d := v.Dict()
	if d == nil {
		return v, false
	}
	id, _ := d.Get("id")
	typ, _ := d.Get("type")
	fv, _ := d.Get("function")
	f := fv.Dict()
	if !id.IsString() || typ.Text() != "function" || f == nil {
		return v, false
	}
	name, _ := f.Get("name")
	raw, _ := f.Get("arguments")
	if !name.IsString() || !raw.IsString() {
		return v, false
	}
	args, ok := n.arguments(raw)
	if !ok {
		return v, false
	}
	function := jinja.NewDict(2, n.m)
	function.Set("arguments", args)
	function.Set("name", name)
	out := jinja.NewDict(3, n.m)
	out.Set("id", id)
	out.Set("function", function.Value())
	out.Set("type", typ)
	return out.Value(), true
}

// arguments reads the arguments of a call, which are a text, as a mapping. It is
// empty for every text that is not a mapping. False: nested too deeply.
func (n *normalizer) arguments(raw jinja.Value) (jinja.Value, bool) {
	args, err := jinja.DecodeJSON([]byte(raw.Text()), n.m)
	if err == jinja.ErrDepth {
		return args, false
	}
	if err != nil || args.Dict() == nil {
		args = jinja.NewDict(0, n.m).Value()
	}
	return args, true
}

// developerTools adds the tools of a developer message: function, type, with
// the function's known fields in their order.
func (n *normalizer) developerTools(d, out *jinja.Dict) bool {
	tools, has := d.Get("tools")
	if !has || tools.IsNone() {
		out.Set("tools", jinja.None)
		return true
	}
	items, ok := tools.Items()
	if !ok {
		return false
	}
	list := make([]jinja.Value, len(items))
	n.m.AddValues(len(items))
	for i, t := range items {
		td := t.Dict()
		if td == nil {
			return false
		}
		typ, _ := td.Get("type")
		fv, _ := td.Get("function")
		f := fv.Dict()
		if typ.Text() != "function" || f == nil {
			return false
		}
		function := jinja.NewDict(4, n.m)
		for _, k := range [...]string{"name", "description", "parameters", "strict"} {
			if x, has := f.Get(k); has {
				function.Set(k, x)
			}
		}
		if name, _ := function.Get("name"); !name.IsString() {
			return false
		}
		tool := jinja.NewDict(2, n.m)
		tool.Set("function", function.Value())
		tool.Set("type", typ)
		list[i] = tool.Value()
	}
	out.Set("tools", jinja.List(list))
	return true
}
