package simengine

import (
	"encoding/json"
	"errors"
	"strconv"
)

// form is the API an answer is written for.
type form uint8

const (
	chatForm form = iota
	textForm
	responsesForm
	messagesForm
)

// other reports whether the form is none of OpenAI's completions.
func (f form) other() bool { return f >= responsesForm }

func (f form) idPrefix() string {
	switch f {
	case textForm:
		return "cmpl-"
	case responsesForm:
		return "resp_"
	}
	return "chatcmpl-" // of messages, too
}

var errGone = errors.New("simengine: client left")

// answer is the answer being written to one request.
type answer struct {
	x       *exchange
	p       *params
	jobs    []*job
	form    form
	id      string
	created int64
	die     int // events after which the connection is cut, -1: never
	events  int // written so far
	head    []byte
	buf     []byte
}

// text returns the text of the tokens [from, to) of a job's answer; the end of
// text token has none.
func (a *answer) text(j *job, from, to int) string {
	var b []byte
	for i := from; i < to; i++ {
		id := j.tokens[j.Prompt+i]
		if j.stop && a.x.e.lex.eos != 0 && i == j.Output-1 {
			continue
		}
		b = append(b, a.x.e.cfg.Vocabulary.Token(id)...)
	}
	return string(b)
}

// finish returns a job's finish_reason.
func (j *job) finish() *string {
	reason := "length"
	if j.stop {
		reason = "stop"
	}
	return &reason
}

// completion is the body of a whole answer; the events of a streamed one have
// the same members, with delta for message.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int      `json:"index"`
	Message      *message `json:"message,omitempty"` // chat, whole
	Delta        *message `json:"delta,omitempty"`   // chat, streamed
	Text         *string  `json:"text,omitempty"`    // completions
	Logprobs     *int     `json:"logprobs"`
	FinishReason *string  `json:"finish_reason"`
	StopReason   *int     `json:"stop_reason"`
}

type message struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

// whole waits for all jobs and writes one JSON body.
func (a *answer) whole() error {
	for !a.finished() {
		if err := a.x.wait(a.jobs); err != nil {
			return err
		}
	}
	if a.form.other() {
		return a.send(a.wholeAPI())
	}
	body := completion{ID: a.id, Object: "text_completion", Created: a.created, Model: a.p.model}
	if a.form == chatForm {
		body.Object = "chat.completion"
	}
	total := 0
	for i, j := range a.jobs {
		total += j.Output
		c := choice{Index: i, FinishReason: j.finish()}
		if text := a.text(j, 0, j.Output); a.form == chatForm {
			c.Message = &message{Role: "assistant", Content: text}
		} else {
			c.Text = &text
		}
		body.Choices = append(body.Choices, c)
	}
	body.Usage = a.usage(total)
	return a.send(body)
}

// send writes the one body of an answer.
func (a *answer) send(body any) error {
	raw := appendJSON(nil, body)
	if a.die >= 0 {
		a.x.w.half("application/json", raw)
		a.x.w.fail()
		return errCut
	}
	a.x.w.json(200, raw)
	return nil
}

func (a *answer) finished() bool {
	for _, j := range a.jobs {
		if j.progress.Load() < int64(j.Output) {
			return false
		}
	}
	return true
}

// stream writes one event per token as they are generated.
func (a *answer) stream() error {
	w := a.x.w
	sent := make([]int, len(a.jobs))
	w.begin(a.x.e.faults.get().LateHead)
	if err := a.accepted(); err != nil {
		return err
	}
	for begun := false; !a.allSent(sent); {
		if err := a.x.wait(a.jobs); err != nil {
			return err
		}
		if !begun {
			begun = true
			a.usage(0) // the record has the cached tokens from the first byte on
			if err := a.roles(); err != nil {
				return err
			}
		}
		for i, j := range a.jobs {
			for n := int(j.progress.Load()); sent[i] < n; sent[i]++ {
				if err := a.token(i, sent); err != nil {
					return err
				}
			}
		}
		if w.flush(); w.err != nil {
			return w.err
		}
	}
	return a.ending(sum(sent))
}

func sum(n []int) (total int) {
	for _, v := range n {
		total += v
	}
	return total
}

func (a *answer) allSent(sent []int) bool {
	for i, j := range a.jobs {
		if sent[i] < j.Output {
			return false
		}
	}
	return true
}

// roles writes the first event of each choice of a chat.
func (a *answer) roles() error {
	if a.form.other() {
		return a.opened()
	}
	if a.form != chatForm {
		return nil
	}
	for i := range a.jobs {
		if err := a.chunk(choice{Index: i, Delta: &message{Role: "assistant"}}, nil); err != nil {
			return err
		}
	}
	return nil
}

// token writes the event of the next token of choice i.
func (a *answer) token(i int, sent []int) error {
	j, n := a.jobs[i], sent[i]
	if a.form.other() {
		return a.delta(a.text(j, n, n+1))
	}
	c := choice{Index: i}
	if n == j.Output-1 {
		c.FinishReason = j.finish()
	}
	if text := a.text(j, n, n+1); a.form == chatForm {
		c.Delta = &message{Content: text}
	} else {
		c.Text = &text
	}
	var u *usage
	if a.p.continuous {
		u = a.usage(sum(sent) + 1)
	}
	return a.chunk(c, u)
}

// chunk appends one event with one choice to the stream. It is written by hand:
// nearly all of a stream's cost is here.
func (a *answer) chunk(c choice, u *usage) error {
	b := a.open()
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(c.Index), 10)
	if c.Delta != nil {
		b = append(b, `,"delta":{`...)
		if c.Delta.Role != "" {
			b = append(appendJSON(append(b, `"role":`...), c.Delta.Role), ',')
		}
		b = append(appendJSON(append(b, `"content":`...), c.Delta.Content), '}')
	} else {
		b = appendJSON(append(b, `,"text":`...), *c.Text)
	}
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	if c.FinishReason != nil {
		b = appendJSON(b, *c.FinishReason)
	} else {
		b = append(b, "null"...)
	}
	return a.close(append(b, `,"stop_reason":null}`...), u)
}

// open begins an event: everything up to its choices.
func (a *answer) open() []byte {
	if a.head == nil {
		object := "text_completion"
		if a.form == chatForm {
			object = "chat.completion.chunk"
		}
		a.head = appendJSON([]byte(`data: {"id":`), a.id)
		a.head = appendJSON(append(a.head, `,"object":`...), object)
		a.head = strconv.AppendInt(append(a.head, `,"created":`...), a.created, 10)
		a.head = appendJSON(append(a.head, `,"model":`...), a.p.model)
		a.head = append(a.head, `,"choices":[`...)
	}
	return append(a.buf[:0], a.head...)
}

// close ends an event after its choices and appends it to the stream, unless
// the connection is to be cut before it.
func (a *answer) close(b []byte, u *usage) error {
	if a.events == a.die {
		a.x.w.flush()
		a.x.w.fail()
		return errCut
	}
	a.events++
	b = append(b, ']')
	if u != nil {
		b = appendJSON(append(b, `,"usage":`...), u)
	}
	a.buf = append(b, "}\n\n"...)
	a.x.w.chunk(a.buf)
	return nil
}

// appendJSON appends v, which has a JSON form.
func appendJSON(b []byte, v any) []byte {
	if s, ok := v.(string); ok && plain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic("BUG: simengine: " + err.Error())
	}
	return append(b, raw...)
}

// plain reports whether s needs no escape in JSON.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// ending writes what follows the last token.
func (a *answer) ending(generated int) error {
	if a.form.other() {
		err := a.closed()
		if err == nil && a.die >= 0 && a.events >= a.die {
			a.x.w.flush()
			a.x.w.fail()
			err = errCut
		}
		if err == nil {
			a.x.w.end()
			err = a.x.w.err
		}
		return err
	}
	u := a.usage(generated)
	if a.p.includeUsage {
		if err := a.close(a.open(), u); err != nil {
			return err
		}
	}
	if a.die >= 0 && a.events >= a.die {
		a.x.w.flush()
		a.x.w.fail()
		return errCut
	}
	a.x.w.chunk([]byte("data: [DONE]\n\n"))
	a.x.w.end()
	return a.x.w.err
}
