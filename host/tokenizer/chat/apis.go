package chat

import (
	"regexp"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// turns adds the messages of a body of Anthropic's API. Some templates require
// all system prompts at the front. For these, the system prompts within the
// conversation become part of the first one (_convert_system_message).
func (x *chatReader) turns() string {
	var systems []*decoded
	if raw, has := member(x.r, "system"); has {
		v := x.m.lookup(x.w, x.o, raw, kindSystem.of(x.t.parts))
		if v.fault != "" {
			return v.fault
		}
		systems = append(systems, v)
	}
	first := len(systems)
	if first == 1 && !x.m.mergeSystem {
		x.addAll(systems[0])
	}
	if x.m.mergeSystem {
		x.add(jinja.None, roleSystem) // placeholder, see merged
	}
	reason := x.each("messages", kindTurn.of(x.t.parts), func(v *decoded) {
		if x.m.mergeSystem && v.role == roleSystem {
			systems = append(systems, v)
			return
		}
		x.addAll(v)
	})
	if reason == "" && x.m.mergeSystem {
		reason = x.merged(systems)
	}
	return reason
}

// addAll adds the messages that one input message was converted to.
func (x *chatReader) addAll(v *decoded) {
	items, _ := v.v.Items()
	for _, m := range items {
		x.add(m, v.role)
	}
}

// merged joins system prompts into one message in the first place, or removes
// the placeholder if there are none.
func (x *chatReader) merged(systems []*decoded) string {
	var texts []jinja.Value
	var only *decoded
	for _, s := range systems {
		if !s.text.IsNone() {
			texts, only = append(texts, s.text), s
		}
	}
	switch len(texts) {
	case 0:
		x.w.msgs, x.w.roles = slices.Delete(x.w.msgs, 0, 1), slices.Delete(x.w.roles, 0, 1)
	case 1:
		items, _ := only.v.Items()
		x.w.msgs[0] = items[0]
	default:
		n := normalizer{parts: x.t.parts, chat: true}
		text := jinja.Concat(texts...)
		if strings.HasPrefix(texts[0].Text(), billing) {
			items, _ := n.system(jinja.Str(text.Text())).v.Items()
			x.w.msgs[0] = items[0]
			break
		}
		d := jinja.NewDict(2, nil)
		d.Set("role", jinja.Str("system"))
		d.Set("content", n.contentOf([]jinja.Value{text}))
		x.w.msgs[0] = d.Value()
	}
	return ""
}

// items adds the messages of a body of the responses API
// (construct_input_messages).
func (x *chatReader) items() string {
	if _, has := member(x.r, "previous_response_id"); has {
		return reasonState
	}
	if _, has := member(x.r, "previous_input_messages"); has {
		return reasonField
	}
	if raw, has := member(x.r, "truncation"); has && string(raw) != `"disabled"` {
		return reasonTruncate
	}
	if raw, has := member(x.r, "instructions"); has {
		v := x.m.lookup(x.w, x.o, raw, kindSystem.of(x.t.parts))
		if v.fault != "" || raw[0] != '"' {
			return reasonField
		}
		x.addAll(v)
	}
	raw, has := member(x.r, "input")
	if has && raw[0] == '"' {
		v := x.m.lookup(x.w, x.o, raw, kindUser.of(x.t.parts))
		if v.fault == "" {
			x.add(v.v, roleOther)
		}
		return v.fault
	}
	n := normalizer{parts: x.t.parts, chat: true}
	var cur *assistant // the last message, if it is an assistant's
	open := false
	flush := func() {
		if cur != nil {
			x.add(cur.message(&n), roleOther)
			cur = nil
		}
	}
	reason := x.each("input", kindItem.of(x.t.parts), func(v *decoded) {
		open = v.open
		if v.piece == pieceMessage {
			flush()
			x.add(v.v, v.role)
			return
		}
		if cur == nil || !cur.takes(v) {
			flush()
			cur = new(assistant)
			cur.takes(v)
		}
	})
	flush()
	if x.continues = open; open {
		x.w.vars["add_generation_prompt"] = jinja.Bool(false)
	}
	return reason
}

// generationTag is a tag of transformers that plain Jinja2 does not support.
var generationTag = regexp.MustCompile(`\{%[-+]?\s*generation\b`)

// wantsSystemFirst determines, as vLLM does (_detect_merge_inline_system), whether
// a template rejects system messages within the conversation: it renders one, in a
// Jinja2 without the additions of transformers.
func (m *Model) wantsSystemFirst(t *template, src string) bool {
	if t == nil || generationTag.MatchString(src) {
		return true
	}
	var msgs []jinja.Value
	for _, role := range []string{"system", "user", "system", "user"} {
		d := jinja.NewDict(2, nil)
		d.Set("role", jinja.Str(role))
		d.Set("content", jinja.Str("t"))
		msgs = append(msgs, d.Value())
	}
	vars := map[string]jinja.Value{"messages": jinja.List(msgs), "add_generation_prompt": jinja.Bool(false),
		"raise_exception": jinja.Undefined, "strftime_now": jinja.Undefined}
	var out jinja.Output
	return t.t.Render(vars, m.cfg.Now(), &out) != nil
}

// efforts are the reasoning efforts of Anthropic's API.
var efforts = [...]string{"low", "medium", "high", "xhigh", "max"}

// disabledEffort determines, as vLLM does (_probe_disabled_thinking_effort), which
// reasoning effort represents disabled thinking: "low" if the template does not
// support "none".
func (m *Model) disabledEffort() string {
	now := m.cfg.Now()
	show := func(effort string) (string, bool) {
		d := jinja.NewDict(2, nil)
		d.Set("role", jinja.Str("user"))
		d.Set("content", (&normalizer{parts: m.template.parts}).contentOf([]jinja.Value{jinja.Str("Hi")}))
		vars := map[string]jinja.Value{"messages": jinja.List([]jinja.Value{d.Value()}), "tools": jinja.None,
			"documents": jinja.None, "add_generation_prompt": jinja.Bool(true),
			"reasoning_effort": jinja.Str(effort), "enable_thinking": jinja.Bool(effort != "none")}
		for _, s := range m.special {
			vars[s.name] = s.value
		}
		var out jinja.Output
		if m.template.t.Render(vars, now, &out) != nil {
			return "", false
		}
		return string(out.Append(nil)), true
	}
	none, ok := show("none")
	if !ok {
		return "low"
	}
	for _, e := range efforts {
		if text, ok := show(e); ok && text == none {
			return "low"
		}
	}
	return "none"
}
