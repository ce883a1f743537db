package chat

import (
	"strings"
	"unicode/utf8"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// tag is appended to the final message to find its end in the prompt
// (transformers 5, utils/chat_template_utils.py, render_jinja_template).
const tag = "CONTINUE_FINAL_MESSAGE_TAG "

// openFinal returns msgs with the tag after the final message's text, or nil if
// that message has no text.
func (x *chatReader) openFinal(msgs []jinja.Value) []jinja.Value {
	d := msgs[len(msgs)-1].Dict()
	content, _ := d.Get("content")
	if !x.t.content {
		return nil
	}
	if items, ok := content.Items(); ok {
		i := len(items) - 1
		for ; i >= 0; i-- {
			if _, has := items[i].Dict().Get("text"); has {
				break
			}
		}
		if i < 0 {
			return nil
		}
		items = append([]jinja.Value(nil), items...)
		items[i] = x.tagged(items[i].Dict(), "text")
		content = jinja.List(items)
		out := copyDict(d)
		out.Set("content", content)
		return append(append([]jinja.Value(nil), msgs[:len(msgs)-1]...), out.Value())
	}
	return append(append([]jinja.Value(nil), msgs[:len(msgs)-1]...), x.tagged(d, "content"))
}

// tagged copies d with the tag after a member, whose text it records.
func (x *chatReader) tagged(d *jinja.Dict, key string) jinja.Value {
	v, _ := d.Get(key)
	x.last = v.Text()
	out := copyDict(d)
	out.Set(key, jinja.Concat(v, jinja.Str(tag)))
	return out.Value()
}

func copyDict(d *jinja.Dict) *jinja.Dict {
	out := jinja.NewDict(len(d.Keys), nil)
	for i, k := range d.Keys {
		out.Set(k, d.Vals[i])
	}
	return out
}

// closeFinal cuts the prompt at the tag.
func (x *chatReader) closeFinal() bool {
	prompt := string(x.w.text(nil))
	at := strings.LastIndex(prompt, strings.TrimSpace(tag))
	if at < 0 || !strings.Contains(prompt, strings.TrimFunc(x.last, jinja.IsSpace)) {
		return false
	}
	if !strings.HasPrefix(prompt[at:], tag) {
		// the template has trimmed the message
		at = len(strings.TrimRightFunc(prompt[:at], jinja.IsSpace))
	}
	truncate(&x.w.out, at)
	return utf8.ValidString(prompt)
}

// truncate keeps the first n bytes of o.
func truncate(o *jinja.Output, n int) {
	left := n
	for i := range o.Pieces {
		p := &o.Pieces[i]
		if p.N >= left {
			p.N = left
			if left > 0 {
				i++
			}
			o.Pieces = o.Pieces[:i]
			break
		}
		left -= p.N
	}
	o.N = n
}
