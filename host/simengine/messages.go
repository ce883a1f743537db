package simengine

import (
	"errors"
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// What vLLM 0.32 does to messages before it renders them, for text: the
// validation of its request types, then _parse_chat_message_content and
// _postprocess_messages of vllm/renderers/chat_utils.py and the treatment of the
// developer role of vllm/renderers/hf.py. Written apart from the router's.

var (
	errBadMessages = errors.New("messages must be a list of objects with a role")
	errBadName     = errors.New("the name of a message must be a string")
	errBadContent  = errors.New("only text content is supported")
	errBadToolCall = errors.New("chat completions only support assistant tool_calls of type 'function'")
)

// messageForm is the form in which a template takes messages.
type messageForm struct {
	parts     bool // content as a list of parts, not as text
	developer bool // it has the role developer
	rename    bool // reasoning_content is another name of reasoning (chat, not /tokenize)
	converted bool // of another API: tool calls have their final form
}

// messages returns the list that templates see.
func (f messageForm) messages(v jinja.Value) (jinja.Value, error) {
	items, ok := v.Items()
	if !ok {
		return v, errBadMessages
	}
	out := make([]*jinja.Dict, len(items))
	anyDeveloper := false
	for i, item := range items {
		d := item.Dict()
		if d == nil || !member(d, "role").IsString() {
			return v, errBadMessages
		}
		m, err := f.message(d)
		if err != nil {
			return v, err
		}
		out[i] = m
		anyDeveloper = anyDeveloper || member(d, "role").Text() == "developer"
	}
	if anyDeveloper && !f.developer {
		out = mergeSystem(out)
	}
	values := make([]jinja.Value, len(out))
	for i, m := range out {
		values[i] = m.Value()
	}
	return jinja.List(values), nil
}

func (f messageForm) message(d *jinja.Dict) (*jinja.Dict, error) {
	role := member(d, "role").Text()
	if name, given := d.Get("name"); given && !name.IsString() {
		return nil, errBadName
	}
	parts, err := contentParts(d, role)
	if err != nil {
		return nil, err
	}
	m := jinja.NewDict(4, nil)
	m.Set("role", member(d, "role"))
	m.Set("content", f.content(parts, role))
	switch role {
	case "assistant":
		err = f.assistant(m, d)
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
		m.Set("tools", developerTools(member(d, "tools")))
	}
	return m, err
}

// assistant adds what only an assistant's message d has to m.
func (f messageForm) assistant(m, d *jinja.Dict) error {
	calls, err := member(d, "tool_calls"), error(nil)
	if !f.converted {
		calls, err = normalCalls(calls)
	}
	if err != nil {
		return err
	}
	if !calls.IsNone() {
		m.Set("tool_calls", calls)
	}
	r := member(d, "reasoning")
	if r.IsNone() && f.rename {
		r = member(d, "reasoning_content")
	}
	if !r.IsNone() {
		m.Set("reasoning", r)
		m.Set("reasoning_content", r)
	}
	return nil
}

// part is one part of a content.
type part struct {
	text      string
	reference bool // text is the name of a tool
}

// textMember names the member that holds the text of each type of part.
var textMember = map[string]string{"text": "text", "refusal": "refusal", "thinking": "thinking",
	"tool_reference": "name"}

// contentParts returns the parts of a message's content. Only an assistant's
// (or a function's) may be null; it may be absent everywhere.
func contentParts(d *jinja.Dict, role string) (parts []part, err error) {
	v, given := d.Get("content")
	items, isList := v.Items()
	switch {
	case !given || v.IsNone() && (role == "assistant" || role == "function"):
		return nil, nil
	case v.IsString():
		items = []jinja.Value{v}
	case !isList:
		return nil, errBadContent
	}
	for _, item := range items {
		p := part{}
		text := item
		if d := item.Dict(); d != nil {
			kind := member(d, "type").Text()
			text = member(d, textMember[kind])
			p.reference = kind == "tool_reference"
		}
		if !text.IsString() {
			return nil, errBadContent
		}
		if p.text = text.Text(); withoutBilling(&p.text, role) {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// billingHeader begins a line that one client puts before its system prompt and
// that differs in every request; vLLM drops it.
const billingHeader = "x-anthropic-billing-header"

// withoutBilling cuts that line and reports whether a text is left.
func withoutBilling(text *string, role string) bool {
	if role != "system" || !strings.HasPrefix(*text, billingHeader) {
		return true
	}
	_, *text, _ = strings.Cut(*text, "\n")
	return *text != ""
}

// content is the content a template sees. A tool's is text unless it refers to
// tools.
func (f messageForm) content(parts []part, role string) jinja.Value {
	texts := make([]string, len(parts))
	list := make([]jinja.Value, len(parts))
	references := false
	for i, p := range parts {
		texts[i] = p.text
		d := jinja.NewDict(2, nil)
		if p.reference {
			references = true
			d.Set("type", jinja.Str("tool_reference"))
			d.Set("name", jinja.Str(p.text))
		} else {
			d.Set("type", jinja.Str("text"))
			d.Set("text", jinja.Own(p.text, nil))
		}
		list[i] = d.Value()
	}
	if !f.parts || role == "tool" && !references {
		return jinja.Own(strings.Join(texts, "\n"), nil)
	}
	return jinja.List(list)
}

// mergeSystem makes developer messages system ones, and one message at the
// front of all system messages if they are not one message at the front.
func mergeSystem(in []*jinja.Dict) (out []*jinja.Dict) {
	var texts []string
	scattered, seen := false, false
	for i, m := range in {
		role := member(m, "role").Text()
		if role != "system" && role != "developer" {
			out = append(out, m)
			continue
		}
		scattered = scattered || i > 0 || seen
		if text := plainContent(member(m, "content")); text != "" {
			texts, seen = append(texts, text), true
		}
	}
	if scattered {
		merged := jinja.NewDict(2, nil)
		merged.Set("role", jinja.Str("system"))
		merged.Set("content", jinja.Own(strings.Join(texts, "\n\n"), nil))
		return append([]*jinja.Dict{merged}, out...)
	}
	first := jinja.NewDict(4, nil)
	for i, k := range in[0].Keys {
		if k != "tools" {
			first.Set(k, in[0].Vals[i])
		}
	}
	first.Set("role", jinja.Str("system"))
	return append([]*jinja.Dict{first}, out...)
}

// plainContent is the text of a content in either form.
func plainContent(v jinja.Value) string {
	items, ok := v.Items()
	if !ok {
		return v.Text()
	}
	var texts []string
	for _, item := range items {
		if t, ok := item.Dict().Get("text"); ok {
			texts = append(texts, t.Text())
		}
	}
	return strings.Join(texts, "\n")
}
