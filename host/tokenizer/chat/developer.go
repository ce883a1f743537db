package chat

import (
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// withoutDeveloper converts developer messages to system messages and merges all
// system messages into one at the front, for templates that do not support the
// developer role (vllm/renderers/hf.py, _convert_developer_to_system and
// _consolidate_system_messages). It runs on every request, because it examines
// several messages. roles holds the role of each of msgs. The result uses the
// memory of msgs.
func withoutDeveloper(msgs []jinja.Value, roles []role) []jinja.Value {
	if !needsMerge(roles) {
		for i, r := range roles {
			if r == roleDeveloper {
				msgs[i] = asSystem(msgs[i].Dict())
			}
		}
		return msgs
	}
	var texts []jinja.Value
	rest := make([]jinja.Value, 1, len(msgs)+1)
	for i, r := range roles {
		if r == roleOther {
			rest = append(rest, msgs[i])
			continue
		}
		c, _ := msgs[i].Dict().Get("content")
		if c = systemText(c); !c.Truth() {
			continue
		}
		if len(texts) > 0 {
			texts = append(texts, jinja.Str("\n\n"))
		}
		texts = append(texts, c)
	}
	d := jinja.NewDict(2, nil)
	d.Set("role", jinja.Str("system"))
	d.Set("content", jinja.Concat(texts...))
	rest[0] = d.Value()
	return rest
}

// role is the property of a message that merging depends on.
type role uint8

const (
	roleOther role = iota
	roleSystem
	roleDeveloper
)

// needsMerge reports whether a system message is anywhere but first.
func needsMerge(roles []role) bool {
	for i, r := range roles {
		if i > 0 && r != roleOther {
			return true
		}
	}
	return false
}

// asSystem copies a developer message as a system message, without tools.
func asSystem(d *jinja.Dict) jinja.Value {
	out := jinja.NewDict(len(d.Keys), nil)
	for i, k := range d.Keys {
		switch k {
		case "role":
			out.Set(k, jinja.Str("system"))
		case "tools":
		default:
			out.Set(k, d.Vals[i])
		}
	}
	return out.Value()
}

// systemText returns the text of a content, with its parts joined by line ends.
func systemText(c jinja.Value) jinja.Value {
	items, ok := c.Items()
	if !ok {
		return c
	}
	var texts []string
	for _, p := range items {
		if t, has := p.Dict().Get("text"); has {
			texts = append(texts, t.Text())
		}
	}
	return jinja.Str(strings.Join(texts, "\n"))
}
