// Package model gives a simulated engine the tokens of a real tokenizer
// directory: it renders the whole template and encodes the whole prompt on every
// request, as an engine does, and shares nothing with the router's own path from
// body to blocks.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// Model is a tokenizer with a chat template. It is immutable and safe for
// concurrent use. It is a simengine.Prompter and a simengine.Vocabulary.
type Model struct {
	*bpe.Tokenizer
	template *jinja.Template
	prefix   []uint32 // special tokens before a text
	eos      uint32
}

// Open reads tokenizer.json and tokenizer_config.json of a model directory.
func Open(dir fs.FS) (*Model, error) {
	tok, err := fs.ReadFile(dir, "tokenizer.json")
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	conf, err := fs.ReadFile(dir, "tokenizer_config.json")
	if err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	var c struct {
		ChatTemplate string `json:"chat_template"`
		EOS          any    `json:"eos_token"`
	}
	if err := json.Unmarshal(conf, &c); err != nil {
		return nil, fmt.Errorf("model: tokenizer_config.json: %w", err)
	}
	m := &Model{}
	if m.Tokenizer, err = bpe.ParseFiles(tok, conf); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if m.template, err = jinja.Compile(c.ChatTemplate, jinja.Options{}); err != nil {
		return nil, fmt.Errorf("model: chat template: %w", err)
	}
	m.prefix, _ = m.Affixes()
	if s, ok := c.EOS.(string); ok {
		m.eos, _ = m.ID(s)
	}
	return m, nil
}

// EOS returns the id of the end-of-text token, 0 without one.
func (m *Model) EOS() uint32 { return m.eos }

// TextTokens implements simengine.Prompter.
func (m *Model) TextTokens(text string) ([]uint32, error) {
	return m.Encode(append([]uint32(nil), m.prefix...), []byte(text))
}

// ChatTokens implements simengine.Prompter.
func (m *Model) ChatTokens(body []byte) ([]uint32, error) {
	v, err := jinja.DecodeJSON(body, nil)
	if err != nil || v.Dict() == nil {
		return nil, errors.New("the body is no JSON object")
	}
	vars, err := variables(v.Dict())
	if err != nil {
		return nil, err
	}
	var out jinja.Output
	if err := m.template.Render(vars, time.Now().UTC(), &out); err != nil {
		return nil, err
	}
	return m.Encode(nil, out.Append(nil))
}

// variables are what the template sees of a chat body.
func variables(body *jinja.Dict) (map[string]jinja.Value, error) {
	vars := map[string]jinja.Value{"tools": jinja.None, "documents": jinja.None, "add_generation_prompt": jinja.Bool(true)}
	for i, k := range body.Keys {
		switch k {
		case "tools", "documents", "add_generation_prompt":
			vars[k] = body.Vals[i]
		case "chat_template_kwargs":
			if d := body.Vals[i].Dict(); d != nil {
				for j, name := range d.Keys {
					vars[name] = d.Vals[j]
				}
			}
		}
	}
	v, _ := body.Get("messages")
	items, ok := v.Items()
	if !ok {
		return nil, errors.New("messages is no list")
	}
	messages := make([]jinja.Value, len(items))
	for i := range items {
		d := items[i].Dict()
		if d == nil {
			return nil, fmt.Errorf("messages[%d] is no object", i)
		}
		messages[i] = message(d).Value()
	}
	vars["messages"] = jinja.List(messages)
	return vars, nil
}

// message does to one message what vLLM 0.32 does for a template that takes
// content as text: parts are joined, arguments become objects.
func message(in *jinja.Dict) *jinja.Dict {
	out := jinja.NewDict(len(in.Keys), nil)
	for i, k := range in.Keys {
		switch v := in.Vals[i]; k {
		case "role", "name", "tool_call_id", "reasoning":
			out.Set(k, v)
		case "content":
			out.Set(k, content(v))
		case "tool_calls":
			if calls, ok := v.Items(); ok && len(calls) > 0 {
				out.Set(k, toolCalls(calls))
			}
		}
	}
	if _, ok := out.Get("content"); !ok {
		out.Set("content", jinja.Str(""))
	}
	return out
}

// content joins text parts by line ends.
func content(v jinja.Value) jinja.Value {
	parts, ok := v.Items()
	if !ok {
		if v.IsNone() {
			return jinja.Str("")
		}
		return v
	}
	text := ""
	for i := range parts {
		d := parts[i].Dict()
		if d == nil {
			continue
		}
		if t, ok := d.Get("text"); ok {
			if text != "" || i > 0 {
				text += "\n"
			}
			text += t.Text()
		}
	}
	return jinja.Str(text)
}

// toolCalls turns arguments from JSON text into what it says.
func toolCalls(calls []jinja.Value) jinja.Value {
	out := make([]jinja.Value, len(calls))
	for i := range calls {
		out[i] = calls[i]
		call := calls[i].Dict()
		if call == nil {
			continue
		}
		c := jinja.NewDict(len(call.Keys), nil)
		for j, k := range call.Keys {
			v := call.Vals[j]
			if f := v.Dict(); k == "function" && f != nil {
				v = function(f).Value()
			}
			c.Set(k, v)
		}
		out[i] = c.Value()
	}
	return jinja.List(out)
}

func function(f *jinja.Dict) *jinja.Dict {
	out := jinja.NewDict(len(f.Keys), nil)
	for i, k := range f.Keys {
		v := f.Vals[i]
		if k == "arguments" && v.IsString() {
			a, err := jinja.DecodeJSON([]byte(v.Text()), nil)
			if err != nil || a.Dict() == nil {
				a = jinja.NewDict(0, nil).Value()
			}
			v = a
		}
		out.Set(k, v)
	}
	return out
}
