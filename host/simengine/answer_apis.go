package simengine

import "encoding/json"

// Answers in the forms of the responses API and of Anthropic's, as vLLM 0.32
// writes them: its events, the order of their members, and its usage.

// responses serves POST /v1/responses.
func (x *exchange) responses() error {
	p, err := x.e.parse(x.r)
	if err != nil {
		return err
	}
	if !p.given("input") {
		return validation("[{'type': 'missing', 'loc': ('body', 'input'), 'msg': 'Field required'}]")
	}
	if p.given("previous_response_id") {
		var id string
		if err := p.field("previous_response_id", &id); err != nil {
			return err
		}
		return &apiError{status: 404, kind: "invalid_request_error", param: "response_id",
			message: "Response with id '" + id + "' not found."}
	}
	return x.converse(p, responsesForm)
}

// messages serves POST /v1/messages.
func (x *exchange) messages() error {
	p, err := x.e.parse(x.r)
	if err != nil {
		return err
	}
	for _, name := range []string{"messages", "max_tokens"} {
		if !p.given(name) {
			return validation("[{'type': 'missing', 'loc': ('body', '%s'), 'msg': 'Field required'}]", name)
		}
	}
	return x.converse(p, messagesForm)
}

// countTokens serves POST /v1/messages/count_tokens.
func (x *exchange) countTokens() error {
	if _, err := x.e.parse(x.r); err != nil {
		return err
	}
	prompt, err := x.e.cfg.Prompter.ChatTokens(x.r.body, x.r.path)
	if err != nil {
		return clientError(err)
	}
	x.w.value(map[string]any{"input_tokens": len(prompt),
		"context_management": map[string]int{"original_input_tokens": len(prompt)}})
	return nil
}

func (x *exchange) converse(p *params, f form) error {
	prompt, err := x.e.cfg.Prompter.ChatTokens(x.r.body, x.r.path)
	if err != nil {
		return clientError(err)
	}
	return x.generate(p, [][]uint32{prompt}, f)
}

// response is the object of the responses API.
type response struct {
	ID                string           `json:"id"`
	CreatedAt         int64            `json:"created_at"`
	IncompleteDetails map[string]any   `json:"incomplete_details"`
	Instructions      json.RawMessage  `json:"instructions"`
	Metadata          json.RawMessage  `json:"metadata"`
	Model             string           `json:"model"`
	Object            string           `json:"object"`
	Output            []map[string]any `json:"output"`
	ParallelToolCalls bool             `json:"parallel_tool_calls"`
	Temperature       float64          `json:"temperature"`
	ToolChoice        string           `json:"tool_choice"`
	Tools             json.RawMessage  `json:"tools"`
	TopP              float64          `json:"top_p"`
	Background        bool             `json:"background"`
	MaxOutputTokens   int              `json:"max_output_tokens"`
	ServiceTier       string           `json:"service_tier"`
	Status            string           `json:"status"`
	Truncation        string           `json:"truncation"`
	Usage             *responseUsage   `json:"usage"`
	User              json.RawMessage  `json:"user"`
}

type responseUsage struct {
	InputTokens  int `json:"input_tokens"`
	InputDetails struct {
		CachedTokens int   `json:"cached_tokens"`
		Written      int   `json:"cache_write_tokens"`
		PerTurn      []int `json:"cached_tokens_per_turn"`
	} `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

// echoed returns a member of the request for the answer.
func (a *answer) echoed(name, absent string) json.RawMessage {
	if raw, ok := a.p.fields[name]; ok {
		return raw
	}
	return json.RawMessage(absent)
}

// response is the answer's object; done means that it is complete.
func (a *answer) response(done bool) *response {
	j := a.jobs[0]
	r := &response{ID: a.id, CreatedAt: a.created, Instructions: a.echoed("instructions", "null"),
		Metadata: a.echoed("metadata", "null"),
		Model:    a.p.model, Object: "response", Output: []map[string]any{}, ParallelToolCalls: true, Temperature: 1,
		ToolChoice: "auto",
		Tools:      a.echoed("tools", "[]"), TopP: 1, MaxOutputTokens: a.x.e.cfg.MaxModelLen - j.Prompt, ServiceTier: "auto",
		Status: "in_progress", Truncation: "disabled", User: a.echoed("user", "null")}
	if a.p.maxTokens > 0 {
		r.MaxOutputTokens = a.p.maxTokens
	}
	if !done {
		return r
	}
	r.Status = "completed"
	if !j.stop {
		r.Status, r.IncompleteDetails = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}
	r.Output = append(r.Output, a.item("completed", a.text(j, 0, j.Output)))
	u := a.usage(j.Output)
	r.Usage = &responseUsage{InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens}
	if u.Details != nil {
		r.Usage.InputDetails.CachedTokens = u.Details.CachedTokens
	}
	r.Usage.InputDetails.PerTurn = []int{}
	return r
}

// item is the one output item, a message.
func (a *answer) item(status, text string) map[string]any {
	content := []any{}
	if status == "completed" {
		content = append(content, textOutput(text))
	}
	return map[string]any{"id": "msg_" + a.id[len("resp_"):], "content": content, "role": "assistant", "status": status,
		"type": "message", "phase": nil}
}

func textOutput(text string) map[string]any {
	return map[string]any{"annotations": []any{}, "text": text, "type": "output_text", "logprobs": nil}
}

// anthropicUsage is usage as Anthropic's API reports it: what was read from the
// cache is not among the input tokens.
type anthropicUsage struct {
	Input   int  `json:"input_tokens"`
	Output  int  `json:"output_tokens"`
	Created *int `json:"cache_creation_input_tokens,omitempty"`
	Read    *int `json:"cache_read_input_tokens,omitempty"`
}

func (u *usage) anthropic() *anthropicUsage {
	out := &anthropicUsage{Input: u.PromptTokens, Output: u.CompletionTokens}
	if u.Details != nil {
		none := 0
		out.Input -= u.Details.CachedTokens
		out.Read, out.Created = &u.Details.CachedTokens, &none
	}
	return out
}

// stopReason is Anthropic's word for the end of an answer.
func (j *job) stopReason() string {
	if j.stop {
		return "end_turn"
	}
	return "max_tokens"
}

// wholeAPI is the body of a whole answer.
func (a *answer) wholeAPI() any {
	if a.form == responsesForm {
		return a.response(true)
	}
	j := a.jobs[0]
	return struct {
		ID         string          `json:"id"`
		Type       string          `json:"type"`
		Role       string          `json:"role"`
		Content    []any           `json:"content"`
		Model      string          `json:"model"`
		StopReason string          `json:"stop_reason"`
		Usage      *anthropicUsage `json:"usage"`
	}{a.id, "message", "assistant", []any{map[string]string{"type": "text", "text": a.text(j, 0, j.Output)}}, a.p.model,
		j.stopReason(), a.usage(j.Output).anthropic()}
}

// event appends one event to the stream, unless the connection is to be cut
// before it. members are names and values in turn; the type is added.
func (a *answer) event(name string, members ...any) error {
	if a.events == a.die {
		a.x.w.flush()
		a.x.w.fail()
		return errCut
	}
	b := append(append(a.buf[:0], "event: "...), name...)
	b = append(b, "\ndata: {"...)
	if a.form == messagesForm {
		b = append(appendJSON(append(b, `"type":`...), name), ',')
	}
	for i := 0; i < len(members); i += 2 {
		b = append(appendJSON(append(appendJSON(b, members[i]), ':'), members[i+1]), ',')
	}
	if a.form == responsesForm {
		b = appendJSON(append(b, `"sequence_number":`...), a.events)
		b = append(appendJSON(append(b, `,"type":`...), name), ',')
	}
	b[len(b)-1] = '}'
	a.buf = append(b, "\n\n"...)
	a.events++
	a.x.w.chunk(a.buf)
	return nil
}

// series writes events until one fails.
func series(events ...func() error) error {
	for _, e := range events {
		if err := e(); err != nil {
			return err
		}
	}
	return nil
}

// accepted writes the events of a stream of responses before anything is computed.
func (a *answer) accepted() error {
	if a.form != responsesForm {
		return nil
	}
	err := series(
		func() error { return a.event("response.created", "response", a.response(false)) },
		func() error { return a.event("response.in_progress", "response", a.response(false)) })
	a.x.w.flush()
	return err
}

// opened writes the events before the first text.
func (a *answer) opened() error {
	if a.form == responsesForm {
		item := a.item("in_progress", "")
		return series(
			func() error { return a.event("response.output_item.added", "item", item, "output_index", 0) },
			func() error {
				return a.event("response.content_part.added", "content_index", 0, "item_id", item["id"], "output_index", 0, "part",
					textOutput(""))
			})
	}
	message := struct {
		ID           string          `json:"id"`
		Type         string          `json:"type"`
		Role         string          `json:"role"`
		Content      []any           `json:"content"`
		Model        string          `json:"model"`
		StopReason   *string         `json:"stop_reason"`
		StopSequence *string         `json:"stop_sequence"`
		Usage        *anthropicUsage `json:"usage"`
	}{ID: a.id, Type: "message", Role: "assistant", Content: []any{}, Model: a.p.model,
		Usage: &anthropicUsage{Input: a.jobs[0].Prompt}}
	return series(
		func() error { return a.event("message_start", "message", message) },
		func() error {
			return a.event("content_block_start", "content_block", map[string]string{"type": "text", "text": ""}, "index", 0)
		})
}

// delta writes the event of a text.
func (a *answer) delta(text string) error {
	if text == "" { // the end of text token: no event
		return nil
	}
	if a.form == responsesForm {
		return a.event("response.output_text.delta", "content_index", 0, "delta", text, "item_id", a.item("", "")["id"],
			"logprobs", []any{}, "output_index", 0)
	}
	return a.event("content_block_delta", "delta", map[string]string{"type": "text_delta", "text": text}, "index", 0)
}

// closed writes what follows the last text.
func (a *answer) closed() error {
	j := a.jobs[0]
	text := a.text(j, 0, j.Output)
	if a.form == responsesForm {
		item := a.item("completed", text)
		return series(
			func() error {
				return a.event("response.output_text.done", "content_index", 0, "item_id", item["id"], "logprobs", []any{},
					"output_index", 0, "text", text)
			},
			func() error {
				return a.event("response.content_part.done", "content_index", 0, "item_id", item["id"], "output_index", 0, "part",
					textOutput(text))
			},
			func() error { return a.event("response.output_item.done", "item", item, "output_index", 0) },
			func() error { return a.event("response.completed", "response", a.response(true)) })
	}
	return series(
		func() error { return a.event("content_block_stop", "index", 0) },
		func() error {
			return a.event("message_delta", "delta", map[string]any{"stop_reason": j.stopReason(), "stop_sequence": nil},
				"usage", a.usage(j.Output).anthropic())
		},
		func() error { return a.event("message_stop") })
}
