package chat

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
)

// mediaMark stands for media while a prompt is rendered. It is a text that no
// template changes.
const mediaMark = "kvasirMediaMark7f3a9c51"

// maxPartialBytes bounds the body that is read for its prompt before the first media.
const maxPartialBytes = 32 << 20

// mediaTypes are the types of content parts that hold media, in all APIs.
var mediaTypes = map[string]bool{
	"image_url": true, "input_image": true, "image": true, "image_embeds": true, "audio_url": true, "input_audio": true,
	"audio_embeds": true, "video_url": true, "input_video": true, "video": true, "input_file": true,
}

// partial computes what is known of a prompt that is not exact because of media, or
// because there are several: the chains up to the first media, or those of the first
// prompt, and the tokens of all its text. It is computed without a memo: its cost is that of
// the whole text.
func (m *Model) partial(r *llmapi.Request, reason string, q *tokenizer.Query, p *tokenizer.Prompt) {
	if len(r.Body) > maxPartialBytes {
		return
	}
	w := newWork()
	w.now = m.cfg.Now().In(m.cfg.TimeZone)
	ok := false
	switch reason {
	case reasonMedia:
		ok = m.beforeMedia(w, r, q, p)
	case reasonPrompts:
		ok = m.firstPrompt(w, r, q, p)
	}
	if p.Partial = ok; !ok {
		p.Reset()
	}
	p.Reason = reason
}

// beforeMedia renders the conversation with a mark in place of each medium. An engine
// puts tokens of its own there, so that what is before the first mark is its prompt.
func (m *Model) beforeMedia(w *work, r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) bool {
	if m.template == nil {
		return false
	}
	e := mediaEditor{part: textPart(r.Op), first: !m.template.parts}
	body, ok := e.edit(r)
	if !ok || e.count == 0 {
		return false
	}
	var marked llmapi.Request
	if marked.Scan(r.Op, body) != nil || m.prepare(w, &marked, nil) != "" || w.given || w.affix && !m.affixes.known {
		return false
	}
	text := w.text(nil)
	at := bytes.Index(text, []byte(mediaMark))
	if at < 0 {
		return false
	}
	if w.affix {
		w.ids = append(w.ids, m.affixes.prefix...)
	}
	ids, err := m.encoder.Encode(w.ids, text[:at])
	if err != nil {
		return false
	}
	rest, err := m.encoder.Encode(nil, bytes.ReplaceAll(text[at:], []byte(mediaMark), nil))
	if err != nil {
		return false
	}
	if !q.Private {
		hashWhole(m.memoFor(q).seed, q, p, ids)
	}
	p.Tokens, p.MediaTokens = len(ids)+len(rest), e.tokens
	return true
}

// firstPrompt computes the first prompt of a list, and the tokens of all.
func (m *Model) firstPrompt(w *work, r *llmapi.Request, q *tokenizer.Query, p *tokenizer.Prompt) bool {
	raw, has := member(r, "prompt")
	special, ok := flag(r, "add_special_tokens", true)
	if !has || !ok || raw[0] != '[' {
		return false
	}
	i := jsonscan.Space(raw, 1)
	end := jsonscan.End(raw, i)
	if end < 0 {
		return false
	}
	reason := reasonPrompt
	if raw[i] == '[' {
		reason = w.promptIDs(raw[i:end])
	} else if raw[i] == '"' {
		reason = m.promptText(w, raw[i:end], special)
	}
	if reason != "" {
		return false
	}
	ids, reason := m.encodeWhole(w, nil)
	if reason != "" {
		return false
	}
	if !q.Private {
		hashWhole(m.memoFor(q).seed, q, p, ids)
	}
	p.Tokens = max(len(ids), m.AtLeast(r, math.MaxInt))
	return true
}

// textPart returns a content part that shows text, in the form of an operation.
func textPart(op llmapi.Operation) string {
	if op.Shape() == llmapi.ShapeInput {
		return `{"type":"input_text","text":"` + mediaMark + `"}`
	}
	return `{"type":"text","text":"` + mediaMark + `"}`
}

// mediaEditor replaces media in a body by text parts.
type mediaEditor struct {
	part  string // that replaces a medium
	first bool   // media are shown before the text of their content

	count  int // media found
	tokens int // estimate
	edits  []mediaEdit
	d      *json.Decoder
	from   int // of the value that d reads, in the body
	body   []byte
}

// mediaEdit replaces body[start:end].
type mediaEdit struct {
	start, end int
	text       string
}

// edit returns the body of r with its media replaced.
func (e *mediaEditor) edit(r *llmapi.Request) (out []byte, ok bool) {
	e.body = r.Body
	for _, name := range r.Op.PromptFields() {
		for i := range r.Members {
			x := &r.Members[i]
			if x.Name != name || x.Class == llmapi.ClassInternal {
				continue
			}
			e.from = int(x.Value.Start)
			e.d = json.NewDecoder(bytes.NewReader(r.Body[x.Value.Start:x.Value.End]))
			if _, ok := e.value(-1); !ok {
				return nil, false
			}
		}
	}
	at := 0
	for _, x := range e.edits {
		out = append(append(out, r.Body[at:x.start]...), x.text...)
		at = x.end
	}
	return append(out, r.Body[at:]...), true
}

// value reads a value; list is where its list begins, behind the bracket, -1 = it is in
// none. It returns the value's type member.
func (e *mediaEditor) value(list int) (typ string, ok bool) {
	t, err := e.d.Token()
	if err != nil {
		return "", false
	}
	begin, known := e.offset()-1, len(e.edits)
	switch t {
	case json.Delim('['):
		for e.d.More() {
			if _, ok := e.value(begin + 1); !ok {
				return "", false
			}
		}
	case json.Delim('{'):
		if typ, ok = e.members(); !ok {
			return "", false
		}
	default:
		return "", true
	}
	if _, err = e.d.Token(); err != nil {
		return "", false
	}
	if mediaTypes[typ] && list >= 0 {
		e.replace(begin, e.offset(), list, known)
	}
	return typ, true
}

// members reads the members of an object and returns its type.
func (e *mediaEditor) members() (typ string, ok bool) {
	for e.d.More() {
		key, err := e.d.Token()
		if err != nil {
			return "", false
		}
		if key != "type" {
			if _, ok := e.value(-1); !ok {
				return "", false
			}
			continue
		}
		t, err := e.d.Token()
		if err != nil {
			return "", false
		}
		if _, nested := t.(json.Delim); nested {
			return "", false
		}
		typ, _ = t.(string)
	}
	return typ, true
}

// replace replaces the medium body[start:end] of a list. Edits within it are dropped.
func (e *mediaEditor) replace(start, end, list, known int) {
	e.count++
	in := llmapi.InlineMedia(e.body[start:end])
	if in.Count == 0 {
		in.Tokens = llmapi.MediaTokens
	}
	e.tokens += in.Tokens
	e.edits = e.edits[:known]
	if !e.first {
		e.edits = append(e.edits, mediaEdit{start, end, e.part})
		return
	}
	// The mark goes to the beginning of the list, once; the medium becomes an empty text.
	empty := bytes.Replace([]byte(e.part), []byte(mediaMark), nil, 1)
	if !slices.ContainsFunc(e.edits, func(x mediaEdit) bool { return x.start == list && x.end == list }) {
		e.insert(mediaEdit{list, list, e.part + ","})
	}
	e.edits = append(e.edits, mediaEdit{start, end, string(empty)})
}

// insert adds an edit in its place.
func (e *mediaEditor) insert(x mediaEdit) {
	i := len(e.edits)
	for i > 0 && e.edits[i-1].start >= x.start {
		i--
	}
	e.edits = slices.Insert(e.edits, i, x)
}

func (e *mediaEditor) offset() int { return e.from + int(e.d.InputOffset()) }
