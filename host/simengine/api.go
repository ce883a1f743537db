package simengine

import "net/http"

// version is the release of vLLM whose behaviour is imitated.
const version = "0.32.0"

// chat serves POST /v1/chat/completions.
func (x *exchange) chat() error {
	p, err := x.e.parse(x.r)
	if err != nil {
		return err
	}
	if !p.given("messages") {
		return validation("[{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required'}]")
	}
	prompt, err := x.e.cfg.Prompter.ChatTokens(x.r.body, x.r.path)
	if err != nil {
		return clientError(err)
	}
	return x.generate(p, [][]uint32{prompt}, chatForm)
}

// completions serves POST /v1/completions.
func (x *exchange) completions() error {
	p, err := x.e.parse(x.r)
	if err != nil {
		return err
	}
	prompts, err := x.e.prompts(p.fields["prompt"])
	if err != nil {
		return err
	}
	return x.generate(p, prompts, textForm)
}

// tokenize serves POST /tokenize for messages or a prompt.
func (x *exchange) tokenize() error {
	p, err := x.e.parse(x.r)
	if err != nil {
		return err
	}
	var tokens []uint32
	if p.given("messages") {
		tokens, err = x.e.cfg.Prompter.ChatTokens(x.r.body, x.r.path)
	} else {
		tokens, err = x.e.tokenizeText(p)
	}
	if err != nil {
		return clientError(err)
	}
	if tokens == nil {
		tokens = []uint32{}
	}
	x.w.value(map[string]any{"count": len(tokens), "max_model_len": x.e.cfg.MaxModelLen, "tokens": tokens,
		"token_strs": nil})
	return nil
}

func (e *Engine) tokenizeText(p *params) ([]uint32, error) {
	var text string
	special := true
	if err := p.field("prompt", &text); err != nil {
		return nil, err
	}
	if err := p.field("add_special_tokens", &special); err != nil {
		return nil, err
	}
	if !p.given("prompt") {
		return nil, validation("[{'type': 'missing', 'loc': ('body', 'prompt'), 'msg': 'Field required'}]")
	}
	if !special {
		return e.cfg.Vocabulary.Encode(nil, []byte(text))
	}
	return e.cfg.Prompter.TextTokens(text)
}

// jobs makes the sequences of a request.
func (e *Engine) jobs(p *params, prompts [][]uint32, spaced bool) ([]*job, error) {
	var jobs []*job
	if e.cfg.IgnoreSalt {
		p.salt = ""
	}
	wake := make(chan struct{}, 1)
	var h hasher
	for _, prompt := range prompts {
		if err := e.checkLength(p, len(prompt)); err != nil {
			return nil, err
		}
		lim := answerLimits{mean: e.cfg.AnswerTokens, maximum: e.cfg.MaxModelLen - len(prompt),
			minimum: p.minTokens, noEnding: p.ignoreEOS}
		if p.maxTokens > 0 {
			lim.maximum = p.maxTokens
		}
		j := &job{adapter: p.adapter, salt: p.salt, wake: wake}
		j.tokens, j.stop = e.lex.answer(append([]uint32(nil), prompt...), prompt, spaced, lim)
		j.Prompt, j.Output, j.NoReuse = len(prompt), len(j.tokens)-len(prompt), p.noReuse
		j.Hashes = h.chain(nil, j.tokens, e.cfg.BlockTokens, p.adapter, p.salt)
		if e.cfg.HostChunk > 0 {
			salt := p.salt
			if e.cfg.HostIgnoreSalt {
				salt = ""
			}
			j.Chunks = h.chain(nil, j.tokens, e.cfg.HostChunk, p.adapter, salt)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// checkLength refuses what does not fit the context, in vLLM's words.
func (e *Engine) checkLength(p *params, prompt int) error {
	limit := e.cfg.MaxModelLen
	switch {
	case prompt == 0:
		return badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty.")
	case prompt >= limit:
		return badRequest("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains "+
			"%d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the "+
			"input prompt.", limit, prompt)
	case prompt+p.maxTokens > limit:
		return badRequest("input_tokens",
			"This model's maximum context length is %d tokens. However, you requested %d output "+
				"tokens and your prompt contains %d input tokens, for a total of %d tokens. Please reduce the length of the "+
				"input prompt or the number of requested output tokens.", limit, p.maxTokens, prompt, prompt+p.maxTokens)
	}
	return nil
}

// generate runs a request and writes its answer.
func (x *exchange) generate(p *params, prompts [][]uint32, f form) error {
	jobs, err := x.e.jobs(p, prompts, f == textForm)
	if err != nil {
		return err
	}
	x.e.start(jobs)
	defer x.e.abort(jobs)
	a := &answer{x: x, p: p, jobs: jobs, form: f, die: x.e.faults.die(),
		id: f.idPrefix() + x.rec.ID, created: x.e.cfg.Clock.Now().Unix()}
	if p.stream {
		return a.stream()
	}
	return a.whole()
}

// wait returns when any job has made progress, or an error when the client left
// or the engine restarted.
func (x *exchange) wait(jobs []*job) error {
	select {
	case <-x.gone: // first, however fast tokens come
		return errGone
	default:
	}
	select {
	case <-jobs[0].wake:
	case <-x.gone:
		return errGone
	case <-x.ctx.Done():
		x.w.fail()
		return errCut
	}
	for _, j := range jobs {
		if j.lost.Load() {
			x.w.fail()
			return errCut
		}
	}
	return nil
}

// usage is the account of a request.
type usage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Details          *promptDetails `json:"prompt_tokens_details"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// usage counts what was generated up to the given tokens in all jobs.
func (a *answer) usage(generated int) *usage {
	u := &usage{CompletionTokens: generated}
	for _, j := range a.jobs {
		u.PromptTokens += j.Prompt
	}
	u.TotalTokens = u.PromptTokens + generated
	cached := a.x.e.cached(a.jobs)
	if !a.x.e.faults.get().NoCachedTokens {
		u.Details = &promptDetails{cached}
	}
	a.x.e.log.tokens(a.x.rec, u.PromptTokens, cached)
	return u
}

// serveModels answers GET /v1/models.
func (e *Engine) serveModels(w *reply, _ *request) {
	type card struct {
		ID          string   `json:"id"`
		Object      string   `json:"object"`
		Created     int64    `json:"created"`
		OwnedBy     string   `json:"owned_by"`
		Root        string   `json:"root"`
		Parent      *string  `json:"parent"`
		MaxModelLen *int     `json:"max_model_len"`
		Permission  []string `json:"permission"`
	}
	now := e.cfg.Clock.Now().Unix()
	cards := []card{{ID: e.cfg.Model, Object: "model", Created: now, OwnedBy: "vllm", Root: e.cfg.Model,
		MaxModelLen: &e.cfg.MaxModelLen, Permission: []string{}}}
	for _, a := range e.cfg.Adapters {
		cards = append(cards, card{ID: a, Object: "model", Created: now, OwnedBy: "vllm", Root: adapterRoot + a,
			Parent: &e.cfg.Model, Permission: []string{}})
	}
	w.value(map[string]any{"object": "list", "data": cards})
}

// serveReset answers POST /reset_prefix_cache (vLLM's dev mode).
func (e *Engine) serveReset(w *reply, _ *request) {
	if !e.Reset() {
		w.error(httpError(http.StatusConflict, "blocks are in use"))
		return
	}
	w.whole(http.StatusOK, "", nil)
}
