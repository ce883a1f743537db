package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// template is a compiled chat template with the properties that vLLM detects.
type template struct {
	t         *jinja.Template
	parts     bool // content is passed as a list of parts
	developer bool // it supports the role developer
	content   bool // it mentions content
}

// special is a special token and the name under which templates use it.
type special struct {
	name  string
	value jinja.Value
}

// affixes are the tokens around a text that is encoded with special tokens.
type affixes struct {
	known          bool
	prefix, suffix []uint32
}

// tokenizerConfig holds the used members of tokenizer_config.json.
type tokenizerConfig struct {
	ChatTemplate json.RawMessage `json:"chat_template"`
	AddBOS       *bool           `json:"add_bos_token"`
	AddEOS       *bool           `json:"add_eos_token"`
	raw          map[string]json.RawMessage
}

// files are the files whose content determines the tokens.
var files = []string{"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json",
	"special_tokens_map.json", "tiktoken.model", "tokenizer.model"}

// Identity identifies a tokenizer by the content of its files, "sha256:…", for
// Config.CacheIdentity.
func Identity(dir fs.FS) (string, error) {
	h := sha256.New()
	found := false
	for _, name := range files {
		b, err := fs.ReadFile(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("chat: %w", err)
		}
		found = true
		fmt.Fprintf(h, "%s %d\n", name, len(b))
		h.Write(b)
	}
	if !found {
		return "", errors.New("chat: no tokenizer files")
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// load reads the files and compiles the templates.
func (m *Model) load() error {
	var config tokenizerConfig
	if m.cfg.Files != nil {
		if err := readJSON(m.cfg.Files, "tokenizer_config.json", &config); err != nil {
			return err
		}
		if err := readJSON(m.cfg.Files, "tokenizer_config.json", &config.raw); err != nil {
			return err
		}
		why, err := nativeRenderer(m.cfg.Files)
		if err != nil {
			return err
		}
		m.why = why
	}
	m.loadSpecial(&config)
	plain, withTools, err := m.sources(&config)
	if err != nil {
		return err
	}
	if m.why == "" {
		m.template = m.compile(plain)
		m.tools = m.template
		if withTools != plain {
			m.tools = m.compile(withTools)
		}
	}
	if m.why == "" {
		m.mergeSystem = m.wantsSystemFirst(m.template, plain) || m.wantsSystemFirst(m.tools, withTools)
		m.noThinking = m.disabledEffort()
	}
	m.loadAffixes(&config)
	return nil
}

// readJSON decodes a file into v, if the file exists.
func readJSON(dir fs.FS, name string, v any) error {
	b, err := fs.ReadFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("chat: %s: %w", name, err)
	}
	return nil
}

// natives are models that vLLM 0.32 renders with its own code instead of a template
// (vllm/renderers and the harmony encoder).
var natives = map[string]bool{"gpt_oss": true, "deepseek_v32": true, "deepseek_v4": true, "deepseek_v41": true,
	"kimi_k3": true, "kimi_audio": true, "inkling": true}

// nativeRenderer returns why a model's prompts are not rendered by a template.
func nativeRenderer(dir fs.FS) (string, error) {
	var config struct {
		ModelType string `json:"model_type"`
	}
	if err := readJSON(dir, "config.json", &config); err != nil {
		return "", err
	}
	if natives[config.ModelType] {
		return "engines render " + config.ModelType + " by code of their own", nil
	}
	if _, err := fs.Stat(dir, "tekken.json"); err == nil {
		return "engines render Mistral's own tokenizer files by code of their own", nil
	}
	return "", nil
}

// sources returns the templates for requests without and with tools, as
// transformers chooses them (get_chat_template).
func (m *Model) sources(config *tokenizerConfig) (plain, tools string, err error) {
	if m.cfg.Template != "" {
		return m.cfg.Template, m.cfg.Template, nil
	}
	b, err := fs.ReadFile(m.cfg.Files, "chat_template.jinja")
	if err == nil {
		plain = string(b)
		tools = plain
		if b, err := fs.ReadFile(m.cfg.Files, "additional_chat_templates/tool_use.jinja"); err == nil {
			tools = string(b)
		}
		return plain, tools, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("chat: %w", err)
	}
	raw := config.ChatTemplate
	if len(raw) == 0 {
		var f struct {
			ChatTemplate json.RawMessage `json:"chat_template"`
		}
		if err := readJSON(m.cfg.Files, "chat_template.json", &f); err != nil {
			return "", "", err
		}
		raw = f.ChatTemplate
	}
	return namedTemplates(raw)
}

// namedTemplates reads the member chat_template: a text, or a list of named
// ones.
func namedTemplates(raw json.RawMessage) (plain, tools string, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", "", nil
	}
	if json.Unmarshal(raw, &plain) == nil {
		return plain, plain, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", "", fmt.Errorf("chat: chat_template: %w", err)
	}
	for _, n := range named {
		switch n.Name {
		case "default":
			plain = n.Template
		case "tool_use":
			tools = n.Template
		}
	}
	if tools == "" {
		tools = plain
	}
	return plain, tools, nil
}

// compile compiles a template, or sets the reason why there is none.
func (m *Model) compile(src string) *template {
	if src == "" {
		m.why = "the model has no chat template"
		return nil
	}
	t, err := jinja.Compile(src, jinja.Options{})
	if err != nil {
		m.why = "the chat template is not supported: " + strings.TrimPrefix(err.Error(), "jinja: ")
		return nil
	}
	parts := t.LoopsOverContent()
	switch m.cfg.ContentFormat {
	case "string":
		parts = false
	case "openai":
		parts = true
	}
	return &template{
		t: t, parts: parts,
		developer: strings.Contains(src, `"developer"`) || strings.Contains(src, "'developer'"),
		content:   strings.Contains(src, "content"),
	}
}

// specialNames are the special tokens of transformers' special_tokens_map.
var specialNames = []string{"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"}

func (m *Model) loadSpecial(config *tokenizerConfig) {
	for _, name := range specialNames {
		if s, ok := tokenText(config.raw[name]); ok {
			m.special = append(m.special, special{name, jinja.Str(s)})
		}
	}
}

// tokenText reads a token that is either a text or an object.
func tokenText(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return "", false
	}
	if json.Unmarshal(raw, &s) == nil {
		return s, true
	}
	var o struct {
		Content *string `json:"content"`
	}
	if json.Unmarshal(raw, &o) != nil || o.Content == nil {
		return "", false
	}
	return *o.Content, true
}

// loadAffixes reads the encoder's affixes. If tokenizer_config.json has
// add_bos_token or add_eos_token, transformers 5 builds the post-processor again
// from them (tokenization_utils_tokenizers.py, update_post_processor), so they
// must agree with the affixes.
func (m *Model) loadAffixes(config *tokenizerConfig) {
	a, ok := m.encoder.(affixer)
	if !ok {
		return
	}
	prefix, suffix := a.Affixes()
	m.affixes = affixes{known: true, prefix: prefix, suffix: suffix}
	if config.AddBOS != nil && *config.AddBOS != (len(prefix) > 0) ||
		config.AddEOS != nil && *config.AddEOS != (len(suffix) > 0) {
		m.affixes = affixes{}
	}
}
