package llmapi

import "bytes"

// Usage is what an engine reports at the end of an answer.
type Usage struct {
	PromptTokens     int
	CompletionTokens int
	CachedTokens     int  // prompt_tokens_details.cached_tokens
	HasCached        bool // false: not reported, which is not the same as 0

	Span          Span // the usage object in the answer
	CachedDigits  Span // the number of cached_tokens in the answer, if HasCached
	ChoicesEmpty  bool // "choices":[] — with Span this marks the usage event of a stream
	ChoicesAbsent bool
}

var usageKey = []byte(`"usage"`)

// ParseUsage reads the usage object out of one JSON object of an answer: a whole
// body or the data of one event of a stream. ok is false if there is none (an
// object without usage is told apart at the speed of a byte search) or if the
// answer is not a JSON object. It allocates nothing and keeps nothing of answer.
func ParseUsage(answer []byte, u *Usage) (ok bool) {
	*u = Usage{ChoicesAbsent: true}
	if !bytes.Contains(answer, usageKey) {
		return false
	}
	whole := each(answer, skipSpace(answer, 0), func(name []byte, v Span) bool {
		switch string(name) {
		case "choices":
			u.ChoicesAbsent = false
			u.ChoicesEmpty = answer[v.Start] == '[' && answer[skipSpace(answer, v.Start+1)] == ']'
		case "usage":
			if answer[v.Start] == '{' {
				ok, u.Span = true, v
			}
		}
		return true
	})
	if !whole || !ok {
		return false
	}
	each(answer, u.Span.Start, func(name []byte, v Span) bool {
		switch string(name) {
		case "prompt_tokens":
			u.PromptTokens, _ = parseInt(answer[v.Start:v.End])
		case "completion_tokens":
			u.CompletionTokens, _ = parseInt(answer[v.Start:v.End])
		case "prompt_tokens_details":
			u.details(answer, v)
		}
		return true
	})
	return true
}

func (u *Usage) details(answer []byte, details Span) {
	if answer[details.Start] != '{' {
		return
	}
	each(answer, details.Start, func(name []byte, v Span) bool {
		if string(name) == "cached_tokens" {
			if n, ok := parseInt(answer[v.Start:v.End]); ok {
				u.CachedTokens, u.HasCached, u.CachedDigits = n, true, v
			}
		}
		return true
	})
}

// MaskCached overwrites the digits of cached_tokens in answer by a 0 and spaces:
// the length stays, the meaning is "none".
func (u *Usage) MaskCached(answer []byte) {
	if !u.HasCached {
		return
	}
	digits := answer[u.CachedDigits.Start:u.CachedDigits.End]
	digits[0] = '0'
	for i := range digits[1:] {
		digits[1+i] = ' '
	}
}

// each calls f with every member of the object that begins at i: its raw name
// without quotes and the span of its value. It returns false if f did or if the
// text is no JSON object.
func each(b []byte, i int, f func(name []byte, value Span) bool) bool {
	if i >= len(b) || b[i] != '{' {
		return false
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return true
	}
	for {
		at := i
		if i >= len(b) || b[i] != '"' {
			return false
		}
		end, _, err := skipString(b, i)
		if err != nil {
			return false
		}
		if i, err = skipKey(b, i); err != nil {
			return false
		}
		from := i
		if i, err = skipValue(b, i, 1); err != nil || !f(b[at+1:end-1], Span{from, i}) {
			return false
		}
		i = skipSpace(b, i)
		switch {
		case i < len(b) && b[i] == ',':
			i = skipSpace(b, i+1)
		case i < len(b) && b[i] == '}':
			return true
		default:
			return false
		}
	}
}
