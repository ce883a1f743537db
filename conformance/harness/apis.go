package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// API is one of the APIs that generate text, so that a test can be run for all.
type API struct {
	Name string // in policies
	Path string
	// Ends is what the last event of a stream holds.
	Ends string
	// Breaks begins the event of a stream that ends early.
	Breaks string
}

// APIs are all of them.
var APIs = []API{
	{"chat.completions", "/v1/chat/completions", "data: [DONE]", `data: {"error":`},
	{"completions", "/v1/completions", "data: [DONE]", `data: {"error":`},
	{"responses", "/v1/responses", "event: response.completed",
		"event: error\ndata: {\"type\":\"error\",\"sequence_number\":"},
	{"messages", "/v1/messages", "event: message_stop",
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\""},
}

// Body is a request with a system prompt and the turns of a conversation: the
// user's, the assistant's and so on, the last one the user's.
func (a *API) Body(model, system string, turns []string, limit int, stream bool) map[string]any {
	b := map[string]any{"model": model, "stream": stream, "temperature": 0, "max_tokens": limit}
	var messages []any
	for i, t := range turns {
		messages = append(messages, map[string]any{"role": [...]string{"user", "assistant"}[i%2], "content": t})
	}
	switch a.Name {
	case "completions":
		b["prompt"] = system + "\n" + strings.Join(turns, "\n")
	case "responses":
		delete(b, "max_tokens")
		b["max_output_tokens"], b["instructions"], b["input"] = limit, system, messages
	case "messages":
		b["system"], b["messages"] = system, messages
	default:
		b["messages"] = append([]any{map[string]any{"role": "system", "content": system}}, messages...)
	}
	return b
}

// Reply is the content of an answer in any API.
type Reply struct {
	Text           string
	Prompt, Output int // tokens
	Cached         int
}

var errNoCached = errors.New("cached tokens are not reported")

// Reply reads an answer that is not a stream.
func (a *API) Reply(body []byte) (*Reply, error) {
	var x struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
		Output  []struct{ Content []struct{ Text string } }
		Content []struct{ Text string }
		Usage   struct {
			Prompt     int  `json:"prompt_tokens"`
			Completion int  `json:"completion_tokens"`
			Input      int  `json:"input_tokens"`
			Output     int  `json:"output_tokens"`
			Read       *int `json:"cache_read_input_tokens"`
			Created    int  `json:"cache_creation_input_tokens"`
			Details    struct {
				Cached *int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
			InputDetails struct {
				Cached *int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
		}
	}
	if err := json.Unmarshal(body, &x); err != nil {
		return nil, fmt.Errorf("%w: %.300q", err, body)
	}
	u := &x.Usage
	r := &Reply{Prompt: u.Prompt + u.Input + u.Created, Output: u.Completion + u.Output}
	cached := u.Details.Cached
	switch {
	case len(x.Choices) > 0:
		r.Text = x.Choices[0].Text + x.Choices[0].Message.Content
	case len(x.Output) > 0 && len(x.Output[0].Content) > 0:
		r.Text, cached = x.Output[0].Content[0].Text, u.InputDetails.Cached
	case len(x.Output) > 0:
		cached = u.InputDetails.Cached
	case len(x.Content) > 0:
		r.Text, cached = x.Content[0].Text, u.Read
	}
	if cached == nil {
		return r, fmt.Errorf("%w: %.300q", errNoCached, body)
	}
	r.Cached = *cached
	if a.Name == "messages" {
		r.Prompt += r.Cached
	}
	return r, nil
}
