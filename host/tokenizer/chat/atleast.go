package chat

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// textKeys are the members below the fields of a prompt that hold text for the
// model. Media, names and members that templates usually omit are not included.
var textKeys = map[string]bool{"text": true, "content": true, "output": true, "arguments": true}

// countPiece is the number of bytes of a text that are encoded at once: the
// beginning is enough to recognise a text that is far too long. A cut adds at most
// one token, which is subtracted again.
const countPiece = 32 << 10

// AtLeast returns a lower bound of the prompt tokens of a request whose prompt is
// not known exactly. It counts the tokens of the request's texts; the other content
// and the template only add to them. It stops soon after limit. Prompts of a list
// count together, as engines report them. It is safe for concurrent use.
func (m *Model) AtLeast(r *llmapi.Request, limit int) int { return atLeast(m.encoder, r, limit) }

func atLeast(e tokenizer.Encoder, r *llmapi.Request, limit int) int {
	c := textCounter{e: e, limit: limit}
	for _, name := range r.Op.PromptFields() {
		if raw, ok := r.Value(name); ok {
			c.d = json.NewDecoder(bytes.NewReader(raw))
			c.value(true)
		}
	}
	return c.n
}

// textCounter adds up tokens. It is not safe for concurrent use.
type textCounter struct {
	e        tokenizer.Encoder
	d        *json.Decoder
	ids      []uint32
	n, limit int
}

// value counts the next value; text means that its strings are text and its
// numbers are tokens. It reports whether to continue.
func (c *textCounter) value(text bool) bool {
	t, err := c.d.Token()
	if err != nil || c.n > c.limit {
		return false
	}
	switch t := t.(type) {
	case json.Delim:
		for c.d.More() {
			below := text
			if t == '{' {
				key, err := c.d.Token()
				if err != nil {
					return false
				}
				name, _ := key.(string)
				below = textKeys[name]
			}
			if !c.value(below) {
				return false
			}
		}
		_, err = c.d.Token()
		return err == nil
	case float64:
		if text {
			c.n++
		}
	case string:
		if text {
			c.text(t)
		}
	}
	return true
}

func (c *textCounter) text(s string) {
	s = strings.ReplaceAll(s, "\x00", " ")
	for first := true; s != "" && c.n <= c.limit; first = false {
		cut := min(len(s), countPiece)
		for cut < len(s) && cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		ids, err := c.e.Encode(c.ids[:0], []byte(s[:cut]))
		if err != nil {
			return
		}
		if c.ids, c.n = ids, c.n+len(ids); !first {
			c.n--
		}
		s = s[cut:]
	}
}
