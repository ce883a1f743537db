package llmapi

import (
	"bytes"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
)

// Usage is an engine's report of the tokens of an answer, read from any of the APIs.
type Usage struct {
	PromptTokens     int // all of the prompt, cached or not
	CompletionTokens int
	CachedTokens     int
	HasPrompt        bool // the prompt's tokens are reported
	Counts           bool // any count is reported: the object is a report, not another member called usage
	HasCached        bool // cached tokens are reported; false is not the same as 0

	Span         Span // the usage object in the answer
	ChoicesEmpty bool // "choices":[] — with Span this marks the usage event of a stream
}

var usageKey = []byte(`"usage"`)

// ParseUsage reads the usage object out of one JSON object of an answer: a whole
// body or the data of one event of a stream. ok is false if there is none (a
// byte search finds that out) or if the answer is not a JSON object. It allocates
// nothing and keeps nothing of answer.
//
// Chat and completions report prompt_tokens with prompt_tokens_details.cached_tokens
// in it, responses the same as input_tokens. Anthropic's input_tokens leave out
// what cache_read_input_tokens and cache_creation_input_tokens count.
func ParseUsage(answer []byte, u *Usage) (ok bool) {
	*u = Usage{}
	if !bytes.Contains(answer, usageKey) {
		return false
	}
	whole := each(answer, jsonscan.Space(answer, 0), func(name []byte, v Span) bool {
		switch string(name) {
		case "choices":
			u.ChoicesEmpty = answer[v.Start] == '[' && answer[jsonscan.Space(answer, v.Start+1)] == ']'
		case "usage":
			if answer[v.Start] == '{' {
				u.Span = v
			}
		}
		return true
	})
	if ok = whole && u.Span.End > 0; ok {
		u.read(answer)
	}
	return ok
}

// read fills u from the object at u.Span.
func (u *Usage) read(answer []byte) {
	excluded := 0 // tokens that input_tokens does not include
	each(answer, u.Span.Start, func(name []byte, v Span) bool {
		switch string(name) {
		case "prompt_tokens", "input_tokens":
			u.PromptTokens, u.HasPrompt = parseInt(answer[v.Start:v.End])
			u.Counts = u.Counts || u.HasPrompt
		case "completion_tokens", "output_tokens":
			n, ok := parseInt(answer[v.Start:v.End])
			u.CompletionTokens, u.Counts = n, u.Counts || ok
		case "prompt_tokens_details", "input_tokens_details":
			u.details(answer, v)
		case "cache_read_input_tokens":
			if u.cached(answer, v) {
				excluded += u.CachedTokens
			}
		case "cache_creation_input_tokens":
			n, _ := parseInt(answer[v.Start:v.End])
			excluded += n
		}
		return true
	})
	if u.HasPrompt {
		u.PromptTokens += excluded
	}
}

func (u *Usage) details(answer []byte, details Span) {
	if answer[details.Start] != '{' {
		return
	}
	each(answer, details.Start, func(name []byte, v Span) bool {
		if string(name) == "cached_tokens" {
			u.cached(answer, v)
		}
		return true
	})
}

func (u *Usage) cached(answer []byte, v Span) bool {
	n, ok := parseInt(answer[v.Start:v.End])
	if ok {
		u.CachedTokens, u.HasCached, u.Counts = n, true, true
	}
	return ok
}

// Merge fills in what u leaves out from an earlier report of the same answer:
// Anthropic's first event reports the prompt's tokens, the last one may report the
// output's only.
func (u *Usage) Merge(earlier *Usage) {
	if !u.HasPrompt {
		u.PromptTokens, u.HasPrompt = earlier.PromptTokens, earlier.HasPrompt
		if !u.HasCached {
			u.CachedTokens, u.HasCached = earlier.CachedTokens, earlier.HasCached
		}
	}
}

// each calls f with every member of the object that begins at i: its raw name
// without quotes and the span of its value. It returns false if f did or if the
// text is no JSON object.
func each(b []byte, i int, f func(name []byte, value Span) bool) bool {
	return jsonscan.Each(b, i, func(key, keyEnd, start, end int) bool { return f(b[key+1:keyEnd-1], Span{start, end}) })
}

var idKey = []byte(`"id"`)

// maxAnswerID bounds the id of an answer; engines use some 40 bytes.
const maxAnswerID = 256

// AnswerID returns the first member "id" with a plain string in the beginning of an
// answer, JSON or a stream of events; "" if it is not there or not complete.
func AnswerID(opening []byte) string {
	for b := opening; ; {
		i := bytes.Index(b, idKey)
		if i < 0 {
			return ""
		}
		b = b[i+len(idKey):]
		j := jsonscan.Space(b, 0)
		if j >= len(b) || b[j] != ':' {
			continue
		}
		if j = jsonscan.Space(b, j+1); j >= len(b) || b[j] != '"' {
			continue
		}
		end := bytes.IndexByte(b[j+1:], '"')
		if id := b[j+1:]; end > 0 && end <= maxAnswerID && bytes.IndexByte(id[:end], '\\') < 0 {
			return string(id[:end])
		}
		return ""
	}
}
