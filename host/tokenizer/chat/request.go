package chat

import (
	"time"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// work is the scratch memory of one request.
type work struct {
	now    time.Time
	vars   map[string]jinja.Value
	msgs   []jinja.Value
	roles  []role
	values []*value // values of the memo that this request uses
	out    jinja.Output
	pieces []piece
	ids    []uint32 // a prompt given as ids
	given  bool     // the prompt is ids
	affix  bool     // special tokens surround the prompt

	lit     []byte // the literal being split
	from    int    // start of its next piece
	splitAt func(at int)
	buf     []byte
	tokens  []uint32
	created []*node
	touched bool // the memo grew
	hash    hasher
}

func newWork() *work { return &work{vars: map[string]jinja.Value{}} }

// maxKeptScratch limits the scratch memory that a work returns to the pool.
const maxKeptScratch = 1 << 20

// release clears the references of w.
func (w *work) release() {
	clear(w.vars)
	clear(w.msgs)
	clear(w.values)
	clear(w.out.Pieces)
	clear(w.pieces)
	clear(w.created)
	w.msgs, w.roles, w.values, w.pieces, w.created = w.msgs[:0], w.roles[:0], w.values[:0], w.pieces[:0], w.created[:0]
	w.out.Reset()
	w.ids, w.given, w.affix, w.touched = w.ids[:0], false, false, false
	if cap(w.buf) > maxKeptScratch {
		w.buf = nil
	}
	if cap(w.tokens) > maxKeptScratch/4 {
		w.tokens = nil
	}
	if cap(w.out.Buf) > maxKeptScratch {
		w.out.Buf = nil
	}
}

// text appends the prompt's text.
func (w *work) text(dst []byte) []byte { return w.out.Append(dst) }

// prepare stores the rendered prompt in w.out, or its ids in w.ids. o may be nil.
// It returns the reason why the prompt is not exact, or "".
func (m *Model) prepare(w *work, r *llmapi.Request, o *memo) string {
	switch r.Op.Shape() {
	case llmapi.ShapeChat, llmapi.ShapeTurns, llmapi.ShapeInput:
		return m.prepareChat(w, r, o)
	case llmapi.ShapeText:
		return m.prepareText(w, r)
	case llmapi.ShapeTokenize:
		if _, ok := member(r, "messages"); ok {
			return m.prepareChat(w, r, o)
		}
		return m.prepareText(w, r)
	}
	return reasonOperation
}

// member returns the raw value of a top-level member that reaches the engine
// and is not null.
func member(r *llmapi.Request, name string) ([]byte, bool) {
	for i := len(r.Members) - 1; i >= 0; i-- {
		if x := &r.Members[i]; x.Name == name && x.Class != llmapi.ClassInternal {
			raw := r.Body[x.Value.Start:x.Value.End]
			return raw, !isNull(raw)
		}
	}
	return nil, false
}

// flag reads a boolean member.
func flag(r *llmapi.Request, name string, def bool) (value, ok bool) {
	raw, has := member(r, name)
	switch {
	case !has:
		return def, true
	case string(raw) == "true":
		return true, true
	case string(raw) == "false":
		return false, true
	}
	return def, false
}

// prepareChat renders messages.
func (m *Model) prepareChat(w *work, r *llmapi.Request, o *memo) string {
	if m.why != "" {
		return m.why
	}
	if _, has := member(r, "truncate_prompt_tokens"); has {
		return reasonTruncate
	}
	x := &chatReader{m: m, w: w, r: r, o: o, t: m.template, chat: r.Op.Shape() == llmapi.ShapeChat}
	if reason := x.affix(); reason != "" {
		return reason
	}
	if reason := x.variables(); reason != "" {
		return reason
	}
	if reason := x.messages(); reason != "" {
		return reason
	}
	return x.render()
}

// chatReader reads a chat body into the variables of its template.
type chatReader struct {
	m         *Model
	w         *work
	r         *llmapi.Request
	o         *memo
	t         *template
	chat      bool // POST /v1/chat/completions, not /tokenize
	continues bool
	developer bool   // a message has that role
	last      string // text of the final message, if it is continued
}

// affix determines whether special tokens surround the prompt. vLLM adds them to
// the prompt of a response (ResponsesRequest.build_tok_params).
func (x *chatReader) affix() string {
	var ok bool
	switch x.r.Op.Shape() {
	case llmapi.ShapeInput:
		x.w.affix = true
	case llmapi.ShapeChat, llmapi.ShapeTokenize:
		if x.w.affix, ok = flag(x.r, "add_special_tokens", false); !ok {
			return reasonField
		}
	}
	return ""
}

// toolsKind returns the kind as which the member tools is decoded.
func (x *chatReader) toolsKind() kind {
	switch x.r.Op.Shape() {
	case llmapi.ShapeTurns:
		return kindToolsMessages
	case llmapi.ShapeInput:
		return kindToolsResponses
	}
	return kindTools
}

// variables sets w.vars except messages.
func (x *chatReader) variables() string {
	vars := x.w.vars
	vars["tools"], vars["documents"] = jinja.None, jinja.None
	for _, s := range x.m.special {
		vars[s.name] = s.value
	}
	if raw, has := member(x.r, "tools"); has && !(x.r.Op.Shape() == llmapi.ShapeInput && isEmptyList(raw)) {
		v := x.m.lookup(x.w, x.o, raw, x.toolsKind())
		if v.fault != "" {
			return v.fault
		}
		vars["tools"] = v.v
	}
	user, reason := x.kwargs()
	if reason != "" {
		return reason
	}
	if !areMappings(vars["tools"]) {
		return reasonTools
	}
	if !vars["tools"].IsNone() {
		x.t = x.m.tools
	}
	if reason := x.effort(user); reason != "" {
		return reason
	}
	if raw, has := member(x.r, "documents"); has && x.chat {
		v := x.m.lookup(x.w, x.o, raw, kindJSON)
		if v.fault != "" {
			return reasonDocuments
		}
		vars["documents"] = v.v
	}
	if !areMappings(vars["documents"]) {
		return reasonDocuments
	}
	vars["add_generation_prompt"] = jinja.Bool(true)
	if x.chat || x.r.Op.Shape() == llmapi.ShapeTokenize {
		return x.ending()
	}
	return ""
}

// ending determines how the prompt ends.
func (x *chatReader) ending() string {
	add, ok1 := flag(x.r, "add_generation_prompt", true)
	more, ok2 := flag(x.r, "continue_final_message", false)
	if !ok1 || !ok2 {
		return reasonField
	}
	if more && add {
		return reasonContinue
	}
	x.w.vars["add_generation_prompt"] = jinja.Bool(add)
	x.continues = more
	return ""
}

// reserved are the parameters of apply_chat_template and the variables that it
// sets. As template variables they change or break the call.
var reserved = map[string]bool{"messages": true, "conversation": true, "conversations": true, "padding": true,
	"truncation": true, "max_length": true, "return_tensors": true, "return_dict": true,
	"return_assistant_tokens_mask": true, "tokenizer_kwargs": true}

// kwargs sets the variables of chat_template_kwargs. The router removes those
// that name the template itself.
func (x *chatReader) kwargs() (user *jinja.Dict, reason string) {
	raw, has := member(x.r, "chat_template_kwargs")
	if !has {
		return nil, ""
	}
	v := x.m.lookup(x.w, x.o, raw, kindJSON)
	if v.fault != "" {
		return nil, reasonKwargs
	}
	user = v.v.Dict()
	if user == nil {
		return nil, reasonKwargs
	}
	for i, k := range user.Keys {
		switch {
		case k == "chat_template" || k == "tokenize":
		case reserved[k]:
			return nil, reasonKwargs
		case k == "namespace" || k == "range" || k == "dict" || k == "lipsum" || k == "cycler" || k == "joiner":
			// names of Jinja2 itself, which vLLM filters out
		case user.Vals[i].IsNone() || user.Vals[i].Text() == "auto":
			// unset, to vLLM's merge_kwargs
		default:
			x.w.vars[k] = user.Vals[i]
		}
	}
	delete(x.w.vars, "continue_final_message")
	return user, ""
}

// effort sets reasoning_effort, which also turns thinking on or off unless the
// request sets that explicitly.
func (x *chatReader) effort(user *jinja.Dict) string {
	effort, reason := x.wantedEffort()
	if reason != "" || effort.IsNone() {
		return reason
	}
	if !effort.IsString() {
		return reasonField
	}
	x.w.vars["reasoning_effort"] = effort
	if user != nil {
		if _, says := user.Get("enable_thinking"); says {
			return ""
		}
	}
	x.w.vars["enable_thinking"] = jinja.Bool(effort.Text() != "none")
	return ""
}

// wantedEffort returns the reasoning effort that a request asks for, or None.
func (x *chatReader) wantedEffort() (jinja.Value, string) {
	switch x.r.Op.Shape() {
	case llmapi.ShapeChat:
		return x.json("reasoning_effort")
	case llmapi.ShapeInput:
		return x.jsonMember("reasoning", "effort")
	case llmapi.ShapeTurns:
		typ, reason := x.jsonMember("thinking", "type")
		if reason != "" {
			return typ, reason
		}
		if typ.Text() == "disabled" {
			return jinja.Str(x.m.noThinking), ""
		}
		return x.jsonMember("output_config", "effort")
	}
	return jinja.None, ""
}

// json returns a member unchanged, or None if it is missing.
func (x *chatReader) json(name string) (jinja.Value, string) {
	raw, has := member(x.r, name)
	if !has {
		return jinja.None, ""
	}
	v := x.m.lookup(x.w, x.o, raw, kindJSON)
	if v.fault != "" {
		return jinja.None, reasonField
	}
	return v.v, ""
}

// jsonMember returns a member of a member.
func (x *chatReader) jsonMember(name, inner string) (jinja.Value, string) {
	v, reason := x.json(name)
	if reason != "" || v.IsNone() {
		return v, reason
	}
	if v.Dict() == nil {
		return v, reasonField
	}
	if v, has := v.Dict().Get(inner); has {
		return v, ""
	}
	return jinja.None, ""
}

// areMappings reports whether v is None or a list of mappings, as tools and
// documents must be.
func areMappings(v jinja.Value) bool {
	if v.IsNone() {
		return true
	}
	items, ok := v.Items()
	if !ok {
		return false
	}
	for _, d := range items {
		if d.Dict() == nil {
			return false
		}
	}
	return true
}

// messages sets the variable messages.
func (x *chatReader) messages() string {
	reason := ""
	switch x.r.Op.Shape() {
	case llmapi.ShapeTurns:
		reason = x.turns()
	case llmapi.ShapeInput:
		reason = x.items()
	default:
		reason = x.each("messages", messageKind(x.chat, x.t.parts), func(v *decoded) { x.add(v.v, v.role) })
	}
	switch {
	case reason != "":
		return reason
	case len(x.w.msgs) == 0:
		return reasonNoMessages
	}
	msgs := x.w.msgs
	if x.developer && !x.t.developer {
		msgs = withoutDeveloper(msgs, x.w.roles)
	}
	if x.continues {
		if msgs = x.openFinal(msgs); msgs == nil {
			return reasonContinue
		}
	}
	x.w.vars["messages"] = jinja.List(msgs)
	return ""
}

// add adds a message.
func (x *chatReader) add(v jinja.Value, r role) {
	x.w.msgs = append(x.w.msgs, v)
	x.w.roles = append(x.w.roles, r)
	x.developer = x.developer || r == roleDeveloper
}

// each calls f for every item of a member that is a list.
func (x *chatReader) each(name string, k kind, f func(v *decoded)) string {
	raw, has := member(x.r, name)
	if !has || raw[0] != '[' {
		return reasonNoMessages
	}
	var last *value
	fault := ""
	ok := jsonscan.EachElement(raw, 0, func(i int) int {
		v, end := x.m.next(x.w, x.o, raw, i, k, last)
		if v == nil {
			return -1
		}
		if v.fault != "" {
			fault = v.fault
			return -1
		}
		f(v)
		last = v.entry
		return end
	})
	switch {
	case fault != "":
		return fault
	case !ok:
		return reasonMessage
	}
	return ""
}

// render runs the template.
func (x *chatReader) render() string {
	if err := x.t.t.Render(x.w.vars, x.w.now, &x.w.out); err != nil {
		return renderReason(err)
	}
	if x.continues && !x.closeFinal() {
		return reasonContinue
	}
	return ""
}

// isEmptyList reports whether raw, a JSON value, is a list without items.
func isEmptyList(raw []byte) bool { return raw[0] == '[' && raw[jsonscan.Space(raw, 1)] == ']' }

func isNull(raw []byte) bool { return string(raw) == "null" }
