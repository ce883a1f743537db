package simengine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/kvasir-router/kvasir/host/tokenizer/bpe"
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// ModelFiles is the [Prompter] and [Vocabulary] of a model's folder. It renders
// the whole template and encodes the whole prompt at every request, so that it
// agrees with a router's shortcuts only if those are right. Safe for concurrent
// use.
type ModelFiles struct {
	*bpe.Tokenizer
	template *jinja.Template // nil: no chat
	specials map[string]jinja.Value
	eos      uint32
	now      func() time.Time // the date in templates

	developer   bool   // the template has the role
	systemFirst bool   // the template refuses system messages within a conversation
	noThinking  string // the reasoning effort that Anthropic's disabled thinking is
}

// LoadModel reads tokenizer.json, tokenizer_config.json and, if it is there,
// chat_template.jinja, which goes before the config's template. An
// *bpe.UnsupportedError or *jinja.UnsupportedError names what is not supported.
func LoadModel(files fs.FS) (*ModelFiles, error) {
	tokenizer, err := fs.ReadFile(files, "tokenizer.json")
	if err != nil {
		return nil, fmt.Errorf("simengine: %w", err)
	}
	config, err := fs.ReadFile(files, "tokenizer_config.json")
	if err != nil {
		return nil, fmt.Errorf("simengine: %w", err)
	}
	m := &ModelFiles{now: time.Now, specials: map[string]jinja.Value{}}
	if m.Tokenizer, err = bpe.ParseFiles(tokenizer, config); err != nil {
		return nil, fmt.Errorf("simengine: %w", err)
	}
	source, err := m.readConfig(config)
	if err != nil {
		return nil, err
	}
	if file, err := fs.ReadFile(files, "chat_template.jinja"); err == nil {
		source = string(file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("simengine: %w", err)
	}
	if source == "" {
		return m, nil
	}
	// As vLLM finds out (_detect_developer_role_support).
	m.developer = strings.Contains(source, `"developer"`) || strings.Contains(source, `'developer'`)
	if m.template, err = jinja.Compile(source, jinja.Options{}); err != nil {
		return nil, fmt.Errorf("simengine: %w", err)
	}
	m.systemFirst, m.noThinking = m.refusesSystem(), m.disabledEffort()
	return m, nil
}

// trial renders a conversation of the given roles with further variables.
func (m *ModelFiles) trial(roles []string, more map[string]jinja.Value) (string, error) {
	var messages []jinja.Value
	form := messageForm{parts: m.template.LoopsOverContent(), developer: m.developer}
	for _, role := range roles {
		messages = append(messages, object("role", jinja.Str(role), "content", form.content([]part{{text: "t"}}, role)))
	}
	vars := map[string]jinja.Value{"messages": jinja.List(messages)}
	for k, v := range more {
		vars[k] = v
	}
	var out jinja.Output
	err := m.template.Render(vars, m.now(), &out)
	return string(out.Append(nil)), err
}

// refusesSystem does as vLLM's _detect_merge_inline_system.
func (m *ModelFiles) refusesSystem() bool {
	_, err := m.trial([]string{"system", "user", "system", "user"},
		map[string]jinja.Value{"add_generation_prompt": jinja.Bool(false),
			"raise_exception": jinja.Undefined, "strftime_now": jinja.Undefined})
	return err != nil
}

// disabledEffort does as vLLM's _probe_disabled_thinking_effort.
func (m *ModelFiles) disabledEffort() string {
	show := func(effort string) (string, error) {
		vars := map[string]jinja.Value{"tools": jinja.None, "documents": jinja.None,
			"add_generation_prompt": jinja.Bool(true),
			"reasoning_effort":      jinja.Str(effort), "enable_thinking": jinja.Bool(effort != "none")}
		for name, v := range m.specials {
			vars[name] = v
		}
		return m.trial([]string{"user"}, vars)
	}
	none, err := show("none")
	for _, effort := range []string{"low", "medium", "high", "xhigh", "max"} {
		if text, fault := show(effort); err != nil || fault == nil && text == none {
			return "low"
		}
	}
	return "none"
}

// readConfig takes the special tokens from tokenizer_config.json and returns
// the chat template, "" if there is none.
func (m *ModelFiles) readConfig(raw []byte) (template string, err error) {
	var config map[string]json.RawMessage
	if err := json.Unmarshal(raw, &config); err != nil {
		return "", fmt.Errorf("simengine: tokenizer_config.json: %w", err)
	}
	for _, name := range []string{"bos_token", "eos_token", "pad_token", "unk_token"} {
		text := tokenText(config[name])
		if text == "" {
			continue
		}
		m.specials[name] = jinja.Str(text)
		if id, ok := m.ID(text); ok && name == "eos_token" {
			m.eos = id
		}
	}
	if json.Unmarshal(config["chat_template"], &template) == nil {
		return template, nil
	}
	var named []struct{ Name, Template string }
	if json.Unmarshal(config["chat_template"], &named) == nil {
		for _, t := range named {
			if t.Name == "default" {
				return t.Template, nil
			}
		}
	}
	return "", nil
}

// tokenText returns the text of a token given as a string or as an object.
func tokenText(raw json.RawMessage) string {
	var text string
	var token struct{ Content string }
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if json.Unmarshal(raw, &token) == nil {
		return token.Content
	}
	return ""
}

// EOS returns the id of the token that ends an answer, 0 if there is none.
func (m *ModelFiles) EOS() uint32 { return m.eos }

// TextTokens implements [Prompter].
func (m *ModelFiles) TextTokens(text string) ([]uint32, error) {
	prefix, suffix := m.Affixes()
	ids, err := m.Encode(slices.Clone(prefix), []byte(text))
	return append(ids, suffix...), err
}

var errNoTemplate = errors.New("the model has no chat template")

// ChatTokens implements [Prompter].
func (m *ModelFiles) ChatTokens(body []byte, route string) ([]uint32, error) {
	if m.template == nil {
		return nil, errNoTemplate
	}
	root, err := jinja.DecodeJSON(body, nil)
	if err != nil {
		return nil, err
	}
	converted, err := m.chatBody(root.Dict(), route)
	if err != nil {
		return nil, err
	}
	vars, err := m.variables(converted, route)
	if err != nil {
		return nil, err
	}
	var out jinja.Output
	if err := m.template.Render(vars, m.now(), &out); err != nil {
		if raised, ok := errors.AsType[*jinja.RaisedError](err); ok {
			return nil, errors.New(raised.Message)
		}
		return nil, err
	}
	if route == responsesPath {
		return m.TextTokens(string(out.Append(nil)))
	}
	return m.Encode(nil, out.Append(nil))
}

// chatBody returns the chat that is equivalent to a body sent to route.
func (m *ModelFiles) chatBody(body *jinja.Dict, route string) (*jinja.Dict, error) {
	switch route {
	case responsesPath:
		return responsesChat(body)
	case messagesPath, countPath:
		return anthropicChat(body, m.systemFirst, m.noThinking)
	}
	return body, nil
}

// variables is what vLLM 0.32 gives a chat template (build_chat_params and
// merge_kwargs): the caller's chat_template_kwargs, then what requests have
// members for.
func (m *ModelFiles) variables(body *jinja.Dict, route string) (map[string]jinja.Value, error) {
	if body == nil {
		return nil, errBadMessages
	}
	vars := map[string]jinja.Value{"tools": jinja.None, "documents": jinja.None}
	for name, v := range m.specials {
		vars[name] = v
	}
	kwargs := member(body, "chat_template_kwargs").Dict()
	if kwargs != nil {
		for i, k := range kwargs.Keys {
			vars[k] = kwargs.Vals[i]
		}
	}
	vars["add_generation_prompt"], vars["continue_final_message"] = jinja.Bool(true), jinja.Bool(false)
	for _, name := range []string{"add_generation_prompt", "continue_final_message", "documents", "reasoning_effort"} {
		if v := member(body, name); !v.IsNone() {
			vars[name] = v
		}
	}
	if effort := member(body, "reasoning_effort"); !effort.IsNone() {
		if _, given := vars["enable_thinking"]; !given {
			vars["enable_thinking"] = jinja.Bool(effort.Text() != "none")
		}
	}
	tools, err := normalTools(member(body, "tools"))
	if err != nil {
		return nil, err
	}
	form := messageForm{parts: m.template.LoopsOverContent(), developer: m.developer, rename: route == chatPath,
		converted: route != chatPath && route != tokenizePath}
	messages, err := form.messages(member(body, "messages"))
	vars["tools"], vars["messages"] = tools, messages
	return vars, err
}

// member returns a member of an object, None if it is not there.
func member(d *jinja.Dict, name string) jinja.Value {
	if d == nil {
		return jinja.None
	}
	if v, ok := d.Get(name); ok {
		return v
	}
	return jinja.None
}
