package chat

import (
	"bytes"
	"strconv"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// prepareText reads the prompt of a completions request: a text, token ids, or
// a list with one of them.
func (m *Model) prepareText(w *work, r *llmapi.Request) string {
	for _, f := range [...]struct{ name, reason string }{{"truncate_prompt_tokens", reasonTruncate},
		{"prompt_embeds", reasonEmbeds}, {"suffix", reasonSuffix}} {
		if _, has := member(r, f.name); has {
			return f.reason
		}
	}
	raw, has := member(r, "prompt")
	if !has {
		return reasonPrompt
	}
	special, ok := flag(r, "add_special_tokens", true)
	if !ok {
		return reasonField
	}
	switch raw[0] {
	case '"':
		return m.promptText(w, raw, special)
	case '[':
		return m.promptList(w, raw, special)
	}
	return reasonPrompt
}

func (m *Model) promptText(w *work, raw []byte, special bool) string {
	if special && !m.affixes.known {
		return reasonSpecial
	}
	v, err := jinja.DecodeJSON(raw, nil)
	if err != nil || v.Text() == "" {
		return reasonPrompt
	}
	w.affix = special
	s := v.Text()
	w.out.Buf = append(w.out.Buf, s...)
	w.out.Pieces = append(w.out.Pieces, jinja.Piece{Off: 0, N: len(s)})
	w.out.N = len(s)
	return ""
}

// promptList reads a list: ids, or one prompt.
func (m *Model) promptList(w *work, raw []byte, special bool) string {
	i := jsonscan.Space(raw, 1)
	if i >= len(raw) || raw[i] == ']' {
		return reasonPrompt
	}
	if raw[i] != '"' && raw[i] != '[' {
		return w.promptIDs(raw)
	}
	end := jsonscan.End(raw, i)
	if end < 0 {
		return reasonPrompt
	}
	if after := jsonscan.Space(raw, end); after >= len(raw) || raw[after] != ']' {
		return reasonPrompts
	}
	if raw[i] == '[' {
		return w.promptIDs(raw[i:end])
	}
	return m.promptText(w, raw[i:end], special)
}

// promptIDs reads a list of token ids, to which nothing is added.
func (w *work) promptIDs(raw []byte) string {
	ok := jsonscan.EachElement(raw, 0, func(i int) int {
		end := i + bytes.IndexAny(raw[i:], ", ]\n\t\r")
		if end < i {
			return -1
		}
		n, err := strconv.ParseUint(string(raw[i:end]), 10, 32)
		if err != nil {
			return -1
		}
		w.ids = append(w.ids, uint32(n))
		return end
	})
	if !ok || len(w.ids) == 0 {
		return reasonPrompt
	}
	w.given = true
	return ""
}
