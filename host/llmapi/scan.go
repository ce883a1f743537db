package llmapi

import (
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
)

// MaxMembers is the greatest number of top-level members of a body; the longest
// lists of options have some 60.
const MaxMembers = 512

// Span is a range of bytes in a Request's Body.
type Span struct{ Start, End int }

// Member is one member of an object.
type Member struct {
	Name     string // decoded; belongs to the Request, valid until the next Scan
	NameSpan Span   // the key with its quotes
	Value    Span   // the raw value, without space around it
	Class    Class
	field    int16 // id in fields, fNone
	media    bool  // the value may name media: see media.go
}

// Request is a scanned body. The zero Request is ready for Scan and is meant to
// be reused: once its buffers have grown, a scan allocates nothing. A Request is not safe
// for concurrent use while Scan or AppendEdits runs.
type Request struct {
	Op   Operation
	Body []byte // belongs to the caller, who must not change it while the Request is in use

	Model        string // decoded, "" if absent; valid as long as Body and until the next Scan
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	MaxTokens    int  // output limit: max_completion_tokens, else the field of the operation or dialect; 0 = unknown
	N            int  // number of answers, 1 if absent
	User         string

	PromptLogprobs bool // prompt_logprobs is set and not null
	Echo           bool
	Logprobs       bool // logprobs is set, and neither null nor false

	PreviousResponse string // previous_response_id, decoded; valid as Model
	NoStore          bool   // store is false: no later request can refer to the answer

	Members []Member // top-level members in order; valid until the next Scan

	object     Span // the body's object with its braces
	at         [nActed]int16
	seen       [maxFields / 64]uint64 // set of field ids
	text       []byte                 // decoded names and strings
	edit       []byte                 // bytes of edits
	sub        []Member               // members of stream_options
	subKwargs  []Member               // denied members of chat_template_kwargs and their neighbours
	usageIndex int                    // of include_usage in sub, -1
}

// NoReuse reports whether an engine computes the whole prompt of this request
// although it has a prefix of it cached, because the request asks for the log
// probabilities of prompt tokens (vLLM 0.32, to_sampling_params: echo takes logprobs of the prompt,
// and in chat does so by default).
func (r *Request) NoReuse() bool {
	return r.PromptLogprobs || r.Echo && (r.Logprobs || r.Op.spec().EchoScores)
}

// Value returns the raw value of a top-level member, the last one of that name.
func (r *Request) Value(name string) (raw []byte, ok bool) {
	for i := len(r.Members) - 1; i >= 0; i-- {
		if m := &r.Members[i]; m.Name == name {
			return r.Body[m.Value.Start:m.Value.End], true
		}
	}
	return nil, false
}

// Scan reads body as a request for op and replaces all state of r. The error
// is a *Error for the client with status 400: not an object, not JSON, nested
// deeper than jsonscan.MaxDepth, more than MaxMembers members, a second occurrence or a
// case variant of a known key, a value of the wrong type where the router acts
// on it. It names the key and the byte.
func (r *Request) Scan(op Operation, body []byte) error {
	r.reset(op, body)
	if err := r.scan(); err != nil {
		r.reset(op, body)
		return err
	}
	return nil
}

func (r *Request) reset(op Operation, body []byte) {
	*r = Request{Op: op, Body: body, N: 1, usageIndex: -1,
		Members: r.Members[:0], text: r.text[:0], edit: r.edit[:0], sub: r.sub[:0], subKwargs: r.subKwargs[:0]}
	for i := range r.at {
		r.at[i] = -1
	}
}

func (r *Request) scan() *Error {
	b := r.Body
	i := jsonscan.Space(b, 0)
	if i >= len(b) {
		return Refuse(CodeInvalidJSON, "Request body is empty.")
	}
	if b[i] != '{' {
		return invalidJSON(i, "expected an object")
	}
	r.object.Start = i
	var err *Error
	if r.Members, i, err = r.members(r.Members, i, 0); err != nil {
		return err
	}
	r.object.End = i
	if i = jsonscan.Space(b, i); i != len(b) {
		return invalidJSON(i, "data after the object")
	}
	for k := range r.Members {
		if err := r.classify(k); err != nil {
			return err
		}
	}
	return r.decode()
}

// members walks the object whose opening brace is at i and appends its members.
// depth is the number of brackets open around it.
func (r *Request) members(dst []Member, i, depth int) ([]Member, int, *Error) {
	b := r.Body
	first := len(dst)
	i = jsonscan.Space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return dst, i + 1, nil
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return dst, 0, invalidJSON(i, "expected a key")
		}
		end, escaped, err := jsonscan.String(b, i)
		if err != nil {
			return dst, 0, invalidJSON(err.At, err.What)
		}
		if len(dst)-first >= MaxMembers {
			return dst, 0, Refuse(CodeTooManyFields, "Request body has more than "+strconv.Itoa(MaxMembers)+
				" fields in one object.")
		}
		m := Member{NameSpan: Span{i, end}, Name: r.name(b[i:end], escaped), field: fNone}
		if i = jsonscan.Space(b, end); i >= len(b) || b[i] != ':' {
			return dst, 0, invalidJSON(i, "expected a colon")
		}
		m.Value.Start = jsonscan.Space(b, i+1)
		if m.Value.End, m.media, err = jsonscan.Find(b, m.Value.Start, depth+1, uuidKey); err != nil {
			return dst, 0, invalidJSON(err.At, err.What)
		}
		dst = append(dst, m)
		i = jsonscan.Space(b, m.Value.End)
		switch {
		case i < len(b) && b[i] == ',':
			i = jsonscan.Space(b, i+1)
		case i < len(b) && b[i] == '}':
			return dst, i + 1, nil
		default:
			return dst, 0, invalidJSON(i, "expected a comma or a closing bracket")
		}
	}
}

// name decodes a key. A key that cannot be decoded (an unpaired surrogate) equals
// no known name in any parser and keeps its raw spelling.
func (r *Request) name(raw []byte, escaped bool) string {
	if !escaped {
		return view(raw[1 : len(raw)-1])
	}
	from := len(r.text)
	text, ok := jsonscan.Unquote(r.text, raw)
	if !ok {
		return view(raw[1 : len(raw)-1])
	}
	r.text = text
	return view(text[from:])
}

// classify sets the class of member k and refuses a duplicate or a case variant of a known
// key.
func (r *Request) classify(k int) *Error {
	m := &r.Members[k]
	id, class, variant := lookup(m.Name)
	if class == ClassUnknown {
		return nil
	}
	if variant {
		name := "an internal field"
		if id != fNone {
			name = fields[id].name
		}
		return badKey(CodeInvalidKey, name, "Field is written in another case than", m.NameSpan.Start)
	}
	m.Class, m.field = class, int16(id)
	if id == fNone {
		return nil
	}
	m.Name = fields[id].name
	if w, bit := id>>6, uint64(1)<<(id&63); r.seen[w]&bit != 0 {
		return badKey(CodeDuplicateKey, m.Name, "Duplicate field", m.NameSpan.Start)
	} else {
		r.seen[w] |= bit
	}
	if id < nActed {
		r.at[id] = int16(k)
	}
	return nil
}

// raw returns the raw value of an acted-on field that the operation has; nil if
// it is absent or null.
func (r *Request) raw(id int) []byte {
	k := r.at[id]
	if k < 0 || fields[id].in&r.Op.set() == 0 {
		return nil
	}
	v := r.Members[k].Value
	if r.Body[v.Start] == 'n' {
		return nil
	}
	return r.Body[v.Start:v.End]
}

// decode fills the fields of r from the values the router acts on.
func (r *Request) decode() (err *Error) {
	if r.Model, err = r.str(fModel); err != nil {
		return err
	}
	if r.User, err = r.str(fUser); err != nil {
		return err
	}
	if r.Stream, err = r.flag(fStream); err != nil {
		return err
	}
	if r.Echo, err = r.flag(fEcho); err != nil {
		return err
	}
	if n, err := r.integer(fN); err != nil {
		return err
	} else if n > 0 {
		r.N = n
	}
	for _, id := range [...]int{fNPredict, fMaxTokens, fMaxCompletionTokens, fMaxOutputTokens} { // the last one there wins
		n, err := r.integer(id)
		if err != nil {
			return err
		}
		if n > 0 {
			r.MaxTokens = n
		}
	}
	r.PromptLogprobs = r.raw(fPromptLogprobs) != nil
	lp := r.raw(fLogprobs)
	r.Logprobs = lp != nil && lp[0] != 'f'
	if err := r.decodeState(); err != nil {
		return err
	}
	if err := r.decodeStreamOptions(); err != nil {
		return err
	}
	return r.decodeTemplateKwargs()
}

// decodeState reads the fields that refer to state that a server keeps between
// requests. It refuses state that the router cannot tell from another tenant's.
func (r *Request) decodeState() (err *Error) {
	if r.PreviousResponse, err = r.str(fPreviousResponse); err != nil {
		return err
	}
	if r.Op.Stored() {
		store, err := r.flag(fStore)
		if err != nil {
			return err
		}
		r.NoStore = r.raw(fStore) != nil && !store
	}
	if background, err := r.flag(fBackground); err != nil {
		return err
	} else if background {
		return stateful("background", "GET /v1/responses/{id} is not served here; omit the field and stream long answers")
	}
	for _, id := range [...]int{fConversation, fContainer} {
		if r.raw(id) != nil {
			return stateful(fields[id].name, "it names state of a server that is shared here; send the whole conversation")
		}
	}
	return nil
}

func (r *Request) str(id int) (string, *Error) {
	raw := r.raw(id)
	if raw == nil {
		return "", nil
	}
	if raw[0] != '"' {
		return "", badValue(fields[id].name, "a string", r.Members[r.at[id]].Value.Start)
	}
	s := raw[1 : len(raw)-1]
	plain := true
	for _, c := range s {
		if c == '\\' || c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain {
		return view(s), nil
	}
	from := len(r.text)
	text, ok := jsonscan.Unquote(r.text, raw)
	if !ok {
		return "", badValue(fields[id].name, "valid Unicode", r.Members[r.at[id]].Value.Start)
	}
	r.text = text
	return view(text[from:]), nil
}

func (r *Request) flag(id int) (bool, *Error) {
	raw := r.raw(id)
	if raw == nil {
		return false, nil
	}
	if raw[0] != 't' && raw[0] != 'f' {
		return false, badValue(fields[id].name, "true or false", r.Members[r.at[id]].Value.Start)
	}
	return raw[0] == 't', nil
}

// integer returns the value of a whole number (16.0 is one), 0 if it is absent or
// negative.
func (r *Request) integer(id int) (int, *Error) {
	raw := r.raw(id)
	if raw == nil {
		return 0, nil
	}
	if n, ok := parseInt(raw); ok {
		return max(n, 0), nil
	}
	f, err := strconv.ParseFloat(view(raw), 64)
	if err != nil || f != float64(int(f)) || f > 1<<53 {
		return 0, badValue(fields[id].name, "an integer", r.Members[r.at[id]].Value.Start)
	}
	return max(int(f), 0), nil
}

// parseInt reads at most 15 digits with an optional minus sign.
func parseInt(raw []byte) (int, bool) {
	neg := len(raw) > 0 && raw[0] == '-'
	if neg {
		raw = raw[1:]
	}
	if len(raw) == 0 || len(raw) > 15 {
		return 0, false
	}
	n := 0
	for _, c := range raw {
		if c-'0' > 9 {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	if neg {
		n = -n
	}
	return n, true
}

func (r *Request) decodeStreamOptions() *Error {
	raw := r.raw(fStreamOptions)
	if raw == nil {
		return nil
	}
	at := r.Members[r.at[fStreamOptions]].Value.Start
	if raw[0] != '{' {
		return badValue("stream_options", "an object", at)
	}
	var err *Error
	if r.sub, _, err = r.members(r.sub, at, 1); err != nil {
		return err
	}
	var buf [maxFieldName]byte
	for k := range r.sub {
		m := &r.sub[k]
		if len(m.Name) > maxFieldName {
			continue
		}
		if string(fold(buf[:0], m.Name)) != "include_usage" {
			continue
		}
		if m.Name != "include_usage" {
			return badKey(CodeInvalidKey, "stream_options.include_usage", "Field is written in another case than",
				m.NameSpan.Start)
		}
		if r.usageIndex >= 0 {
			return badKey(CodeDuplicateKey, "stream_options.include_usage", "Duplicate field", m.NameSpan.Start)
		}
		r.usageIndex = k
		switch r.Body[m.Value.Start] {
		case 't':
			r.IncludeUsage = true
		case 'f', 'n':
		default:
			return badValue("stream_options.include_usage", "true or false", m.Value.Start)
		}
	}
	return nil
}

// decodeTemplateKwargs notes the members of chat_template_kwargs if one of them
// must not pass.
func (r *Request) decodeTemplateKwargs() *Error {
	raw := r.raw(fTemplateKwargs)
	if raw == nil || raw[0] != '{' {
		return nil
	}
	var err *Error
	if r.subKwargs, _, err = r.members(r.subKwargs, r.Members[r.at[fTemplateKwargs]].Value.Start, 1); err != nil {
		return err
	}
	for k := range r.subKwargs {
		if templateDenied[r.subKwargs[k].Name] {
			return nil
		}
	}
	r.subKwargs = r.subKwargs[:0]
	return nil
}

// view returns b as a string without copying it.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
