package replay

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// Prompter turns a request into the tokens and blocks of its prompt
// (tokenizer/chat.Model).
type Prompter interface {
	Blocks(r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) error
}

// OpenAIBlock is the block size of prompts that are read as text, in tokens: vLLM's.
const OpenAIBlock = 16

// requestLine is one line of a log of OpenAI requests. A line without body is a body
// itself.
type requestLine struct {
	Time         json.RawMessage `json:"timestamp"` // seconds, or RFC 3339
	Conversation string          `json:"conversation"`
	Tenant       string          `json:"tenant"`
	Think        float64         `json:"think"` // seconds since the answer before
	Output       int             `json:"output_tokens"`
	Path         string          `json:"url"` // as in OpenAI's batch files
	Body         json.RawMessage `json:"body"`
}

// OpenOpenAI reads requests to the OpenAI API (JSON lines, gzip when the name ends in
// .gz). A line is a request body, or an object with the members body, url (default
// /v1/chat/completions), timestamp (seconds or RFC 3339), conversation, tenant, think
// (seconds since the conversation's previous answer) and output_tokens; OpenAI's batch
// files are such. Prompts are rendered and tokenized by p; nothing of their text is
// kept.
func OpenOpenAI(path string, p Prompter) (*Trace, error) {
	return open(path, func(r io.Reader) (*Trace, error) { return ReadOpenAI(r, p) })
}

// ReadOpenAI is OpenOpenAI for a stream.
func ReadOpenAI(r io.Reader, p Prompter) (*Trace, error) {
	o := openAI{prompter: p, trace: &Trace{BlockTokens: OpenAIBlock, Turnless: true}, at: map[string]int{}}
	err := eachLine(r, func(b []byte, line int) error {
		if len(b) == 0 {
			return nil
		}
		if err := o.line(b, line); err != nil {
			return err
		}
		if o.count++; o.count > maxRequests {
			return errTooMany
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	o.trace.sort()
	first := math.Inf(1)
	for i := range o.trace.Conversations {
		first = min(first, o.trace.Conversations[i].Start)
	}
	for i := range o.trace.Conversations {
		o.trace.Conversations[i].Start -= first
	}
	return o.trace, nil
}

// openAI is a log being read.
type openAI struct {
	prompter Prompter
	trace    *Trace
	at       map[string]int // index of a conversation by tenant and name
	chains   []chainer      // of the conversations
	count    int
	api      llmapi.Request
	prompt   tokenizer.Prompt
}

// line adds one request.
func (o *openAI) line(b []byte, n int) error {
	var l requestLine
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	if l.Body == nil {
		l = requestLine{Body: b}
	}
	start, err := parseTime(l.Time)
	if err != nil {
		return err
	}
	if l.Think < 0 || l.Output < 0 || l.Output > maxTokens {
		return fmt.Errorf("think %g, output_tokens %d", l.Think, l.Output)
	}
	q, err := o.request(&l)
	if err != nil {
		return err
	}
	key := l.Tenant + "\x00" + l.Conversation
	i, known := o.at[key]
	if !known || l.Conversation == "" {
		i = len(o.trace.Conversations)
		name := l.Conversation
		if name == "" {
			name = fmt.Sprint("request ", n)
		} else {
			o.at[key], o.trace.Turnless = i, false
		}
		o.trace.Conversations = append(o.trace.Conversations, Conversation{Name: name, Tenant: l.Tenant, Start: start})
		o.chains = append(o.chains, chainer{})
	}
	q.Blocks = o.chains[i].add(q.Blocks)
	c := &o.trace.Conversations[i]
	c.Requests = append(c.Requests, q)
	return nil
}

// request reads a body. Blocks are the prompter's and valid until the next call.
func (o *openAI) request(l *requestLine) (q Request, err error) {
	op := llmapi.OpChat
	if l.Path != "" {
		var ok bool
		if op, ok = operationOf(l.Path); !ok {
			return q, fmt.Errorf("url %.60q: want /v1/chat/completions, /v1/completions, /v1/responses or /v1/messages", l.Path)
		}
	}
	if err := o.api.Scan(op, l.Body); err != nil {
		return q, err
	}
	query := tokenizer.Query{Sizes: []int{OpenAIBlock}}
	o.prompt.Reset()
	if err := o.prompter.Blocks(&o.api, &query, &o.prompt); err != nil {
		return q, err
	}
	q = Request{Tokens: o.prompt.Tokens, Output: l.Output, Think: l.Think}
	if o.prompt.Exact {
		q.Blocks = o.prompt.Chains[0]
	} else {
		q.Tokens = 1 + len(l.Body)/4
	}
	if q.Output == 0 {
		q.Output = o.api.MaxTokens
	}
	if q.Output <= 0 || q.Output > maxTokens {
		q.Output = defaultOutput
	}
	return q, nil
}

// defaultOutput is the length in tokens assumed of answers of which a log does not tell.
const defaultOutput = 256

func operationOf(path string) (llmapi.Operation, bool) {
	ops := []llmapi.Operation{llmapi.OpChat, llmapi.OpCompletions, llmapi.OpResponses, llmapi.OpMessages}
	for _, op := range ops {
		if op.Path() == path {
			return op, true
		}
	}
	return 0, false
}

// parseTime reads seconds or RFC 3339; nothing is 0.
func parseTime(b json.RawMessage) (float64, error) {
	if len(b) == 0 || string(b) == "null" {
		return 0, nil
	}
	var s float64
	if json.Unmarshal(b, &s) == nil {
		if s < 0 || s > 1e11 {
			return 0, fmt.Errorf("timestamp %g, want seconds", s)
		}
		return s, nil
	}
	var t time.Time
	if err := json.Unmarshal(b, &t); err != nil {
		return 0, fmt.Errorf("timestamp %.40s: want seconds or RFC 3339", b)
	}
	return float64(t.UnixMicro()) / 1e6, nil
}
