package simengine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// params are the members of a request body that the engine acts on. As in
// vLLM names are case sensitive and the last of duplicates wins.
type params struct {
	fields       map[string]json.RawMessage
	model        string
	adapter      string // model is an adapter
	stream       bool
	includeUsage bool
	continuous   bool // usage in every chunk
	maxTokens    int  // 0: not given
	minTokens    int
	ignoreEOS    bool
	noReuse      bool
	salt         string
}

// parse reads a JSON object and what is common to all operations.
func (e *Engine) parse(r *request) (*params, error) {
	if media, _, _ := strings.Cut(r.header("content-type"), ";"); !strings.EqualFold(strings.TrimSpace(media),
		"application/json") {
		return nil, validation("Unsupported Media Type: Only 'application/json' is allowed")
	}
	p := &params{}
	if err := json.Unmarshal(r.body, &p.fields); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			return nil, validation("[{'type': 'json_invalid', 'loc': ('body', %d), 'msg': 'JSON decode error', 'input': {}, "+
				"'ctx': {'error': %q}}]",
				syntax.Offset, syntax.Error())
		}
		return nil, validation("[{'type': 'model_attributes_type', 'loc': ('body',), 'msg': 'Input should be a valid " +
			"dictionary or object to extract fields from'}]")
	}
	if p.fields == nil {
		return nil, validation("[{'type': 'missing', 'loc': ('body',), 'msg': 'Field required', 'input': None}]")
	}
	if err := p.read(); err != nil {
		return nil, err
	}
	return p, e.resolveModel(p)
}

// validationKind is the type of errors in a body's shape, which have one form on
// all paths.
const validationKind = "Bad Request"

// validation is an error in a body's shape.
func validation(format string, args ...any) *apiError {
	return &apiError{status: 400, kind: validationKind, message: fmt.Sprintf(format, args...)}
}

// field decodes one member into v; it leaves v alone if the member is absent or
// null.
func (p *params) field(name string, v any) error {
	raw, ok := p.fields[name]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return validation("[{'type': 'invalid', 'loc': ('body', '%s'), 'msg': 'Input should be valid'}]", name)
	}
	return nil
}

// given reports whether a member is there and not null.
func (p *params) given(name string) bool {
	raw, ok := p.fields[name]
	return ok && !bytes.Equal(raw, []byte("null"))
}

func (p *params) read() error {
	var options struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	}
	n, echo := 1, false
	for _, f := range []struct {
		name string
		to   any
	}{
		{"model", &p.model}, {"stream", &p.stream}, {"stream_options", &options},
		{"max_tokens", &p.maxTokens}, {"max_completion_tokens", &p.maxTokens}, {"max_output_tokens", &p.maxTokens},
		{"min_tokens", &p.minTokens}, {"ignore_eos", &p.ignoreEOS}, {"cache_salt", &p.salt},
		{"n", &n}, {"echo", &echo},
	} {
		if err := p.field(f.name, f.to); err != nil {
			return err
		}
	}
	p.includeUsage, p.continuous = options.IncludeUsage, options.Continuous
	// Logprobs of prompt tokens need their computation.
	p.noReuse = p.given("prompt_logprobs") || echo && p.given("logprobs")
	return p.check(n)
}

func (p *params) check(n int) error {
	given := p.given("max_tokens") || p.given("max_completion_tokens") || p.given("max_output_tokens")
	switch {
	case given && p.maxTokens < 1:
		return badRequest("max_tokens", "max_tokens must be at least 1, got %d.", p.maxTokens)
	case p.minTokens < 0 || p.maxTokens > 0 && p.minTokens > p.maxTokens:
		return badRequest("min_tokens", "min_tokens must be between 0 and max_tokens, got %d.", p.minTokens)
	case n != 1:
		return badRequest("n", "the simulated engine gives one answer per prompt, not %d.", n)
	case p.given("stream_options") && !p.stream:
		return badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
	case p.given("cache_salt") && (p.salt == "" || len(p.salt) > 1024):
		return badRequest("cache_salt",
			"Parameter 'cache_salt' must be a non-empty string of at most 1024 characters if provided.")
	}
	return nil
}

// resolveModel finds what the model's name means; without one it is the model.
func (e *Engine) resolveModel(p *params) error {
	if p.model == "" || p.model == e.cfg.Model {
		p.model = e.cfg.Model
		return nil
	}
	for _, a := range e.cfg.Adapters {
		if a == p.model {
			p.adapter = a
			return nil
		}
	}
	return &apiError{status: 404, kind: "NotFoundError", param: "model",
		message: fmt.Sprintf("The model `%s` does not exist.", p.model)}
}

// prompts returns the prompts of a completion: a text, tokens, or a list of
// either.
func (e *Engine) prompts(raw json.RawMessage) ([][]uint32, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && len(raw) > 0 && raw[0] == '"' {
		return e.texts([]string{text})
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil, badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	}
	var texts []string
	var ids []uint32
	var lists [][]uint32
	switch list[0][0] {
	case '"':
		if json.Unmarshal(raw, &texts) == nil {
			return e.texts(texts)
		}
	case '[':
		if json.Unmarshal(raw, &lists) == nil {
			return lists, e.checkTokens(lists)
		}
	default:
		if json.Unmarshal(raw, &ids) == nil {
			return [][]uint32{ids}, e.checkTokens([][]uint32{ids})
		}
	}
	return nil, badRequest("prompt",
		"prompt must be a string, array of strings, array of tokens, or array of token arrays")
}

func (e *Engine) texts(texts []string) (prompts [][]uint32, err error) {
	for _, t := range texts {
		ids, err := e.cfg.Prompter.TextTokens(t)
		if err != nil {
			return nil, badRequest("prompt", "%v", err)
		}
		prompts = append(prompts, ids)
	}
	return prompts, nil
}

func (e *Engine) checkTokens(prompts [][]uint32) error {
	for _, p := range prompts {
		for _, id := range p {
			if int(id) >= e.cfg.Vocabulary.VocabSize() {
				return badRequest("prompt", "Token id %d is out of vocabulary", id)
			}
		}
	}
	return nil
}
