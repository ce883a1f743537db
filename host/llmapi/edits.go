package llmapi

import (
	"errors"
	"strconv"

	"github.com/kvasir-router/kvasir/host/dialect"
)

// ErrNoSaltField is returned by AppendEdits if a salt must be set and the dialect
// has no field for it: the endpoint must not receive this request.
var ErrNoSaltField = errors.New("llmapi: dialect has no cache salt")

// Rewrite describes how the engine's body must differ from the client's.
type Rewrite struct {
	Model      string // the engine's name of the model; "" = as the client wrote it
	Salt       string // cache salt; never logged; also keys the names of media
	SetSalt    bool   // set the salt field of the dialect to Salt; false removes the client's
	ForceUsage bool   // make a stream report usage
	Priority   int    // higher = sooner; set in the priority field of the dialect; 0 = none: the client's is removed
	MaxTokens  int    // upper bound of output tokens, 0 = none; set if the client set none or a larger one

	Dialect        string // a name of host/dialect, "" = its Default; others as openai
	UnknownFields  string // for members outside the allow-list: pass (also ""), drop or refuse
	InternalFields string // for members that control the engine: drop (also "") or refuse
}

// Edit replaces the bytes [Start, End) of a body with New. Start == End inserts, an
// empty New deletes.
type Edit struct {
	Start, End int
	New        []byte
}

// AppendEdits appends the edits that apply rw to r's body: ordered, disjoint, each
// inside the body. All other bytes stay as they are.
// New slices belong to r and are valid until its next Scan. The error is a
// *Error for the client (a field that the settings refuse) or ErrNoSaltField.
func (r *Request) AppendEdits(dst []Edit, rw *Rewrite) ([]Edit, error) {
	if r.Op.set() == 0 || r.object.End == 0 {
		return dst, nil
	}
	e := editor{r: r, rw: rw, dst: dst, dialect: dialect.Of(rw.Dialect), saltID: fUnset, prioID: fUnset}
	if rw.SetSalt && r.Op.HasPrompt() {
		if e.salt = e.dialect.SaltField(r.Op.set()); e.salt == "" {
			return dst, ErrNoSaltField
		}
		e.saltID = fieldByName[e.salt]
	}
	if rw.Priority != 0 {
		if e.prio, e.prioValue = e.dialect.PriorityField(r.Op.set(), rw.Priority); e.prio != "" {
			e.prioID = fieldByName[e.prio]
		}
	}
	if err := e.top(); err != nil {
		return dst, err
	}
	e.inserts()
	return e.dst, nil
}

// AddsUsage reports whether the edits for rw ask for a report of usage that the
// client did not ask for. Streams of the other formats always have one.
func (r *Request) AddsUsage(rw *Rewrite) bool {
	return rw.ForceUsage && r.Stream && !r.IncludeUsage && r.Op.StreamFormat() == StreamChunks &&
		dialect.Of(rw.Dialect).StreamUsage
}

// editor walks the members in order, so that its edits come out in order.
type editor struct {
	r       *Request
	rw      *Rewrite
	dst     []Edit
	dialect *dialect.Dialect
	salt    string // name of the salt field, "" = none to set
	saltID  int16  // its id, or fUnset
	prio    string // name of the priority field, "" = none to set
	prioID  int16  // its id, or fUnset

	prioValue int
	kept      bool // a member stays
	done      struct{ model, salt, prio, usage, max bool }
}

func (e *editor) top() error {
	for k := range e.r.Members {
		drop, err := e.drops(&e.r.Members[k])
		if err != nil {
			return err
		}
		if drop {
			e.delete(e.r.Members, k, e.kept)
			continue
		}
		e.kept = true
		if err := e.value(&e.r.Members[k]); err != nil {
			return err
		}
	}
	return nil
}

// drops reports whether a top-level member is removed.
func (e *editor) drops(m *Member) (bool, error) {
	if m.field == e.saltID || m.field == e.prioID {
		return false, nil
	}
	if m.Class == ClassInternal {
		if e.rw.InternalFields == "refuse" {
			return false, badKey(CodeUnsupportedField, m.Name, "Unsupported field", m.NameSpan.Start)
		}
		return true, nil
	}
	if m.field >= 0 {
		if f := &fields[m.field]; f.has(e.r.Op.set(), e.dialect) {
			return false, nil
		}
	}
	return e.unknown(m)
}

func (e *editor) unknown(m *Member) (bool, error) {
	switch e.rw.UnknownFields {
	case "drop":
		return true, nil
	case "refuse":
		err := Refuse(CodeUnknownField, "Unknown field at byte "+strconv.Itoa(m.NameSpan.Start)+".")
		if m.field >= 0 {
			err.Param = fields[m.field].name
		}
		return false, err
	}
	return false, nil
}

// delete removes ms[k] and the comma that joins it to its neighbours. kept reports
// whether a member before it stays.
func (e *editor) delete(ms []Member, k int, kept bool) {
	switch {
	case kept:
		e.replace(Span{ms[k-1].Value.End, ms[k].Value.End}, nil)
	case k+1 < len(ms):
		e.replace(Span{ms[k].NameSpan.Start, ms[k+1].NameSpan.Start}, nil)
	default:
		e.replace(Span{ms[k].NameSpan.Start, ms[k].Value.End}, nil)
	}
}

// replace adds an edit. A deletion that touches the previous one is merged into it.
func (e *editor) replace(s Span, text []byte) {
	if n := len(e.dst); n > 0 && len(text) == 0 && len(e.dst[n-1].New) == 0 && e.dst[n-1].End == s.Start {
		e.dst[n-1].End = s.End
		return
	}
	e.dst = append(e.dst, Edit{s.Start, s.End, text})
}

// value edits the value of a member that stays.
func (e *editor) value(m *Member) error {
	switch m.field {
	case fModel:
		if e.done.model = true; e.rw.Model != "" && e.rw.Model != e.r.Model {
			e.replace(m.Value, e.quoted(e.rw.Model))
		}
	case e.saltID:
		e.done.salt = true
		e.replace(m.Value, e.quoted(e.rw.Salt))
	case e.prioID:
		e.done.prio = true
		e.replace(m.Value, e.number(e.prioValue))
	case fMaxTokens, fMaxCompletionTokens, fMaxOutputTokens, fNPredict:
		e.cap(m)
	case fMessages, fInput:
		e.media(m)
	case fStreamOptions:
		return e.streamOptions(m)
	case fTemplateKwargs:
		return e.templateKwargs()
	}
	return nil
}

// cap lowers an output limit. Null and negative values mean no limit.
func (e *editor) cap(m *Member) {
	f := &fields[m.field]
	if e.rw.MaxTokens <= 0 || !f.has(e.r.Op.set(), e.dialect) {
		return
	}
	e.done.max = true
	if n, _ := e.r.integer(int(m.field)); n > 0 && n <= e.rw.MaxTokens || e.zero(m) {
		return
	}
	e.replace(m.Value, e.number(e.rw.MaxTokens))
}

// zero reports whether the limit is 0 and the dialect takes 0 for "no output".
// Others take it for no limit: SGLang uses max_tokens, else max_completion_tokens,
// else the rest of the context (protocol.py, to_sampling_params); vLLM 0.10 did the
// same with max_completion_tokens (serving_chat.py); Ollama's runner ignores limits
// of 0.
func (e *editor) zero(m *Member) bool {
	if !e.dialect.ZeroLimit || m.field == fMaxCompletionTokens {
		return false
	}
	return m.Value.End-m.Value.Start == 1 && e.r.Body[m.Value.Start] == '0'
}

func (e *editor) forceUsage() bool { return e.r.AddsUsage(e.rw) }

const includeUsage = `"include_usage":true`

func (e *editor) streamOptions(m *Member) error {
	e.done.usage = true
	if e.r.raw(fStreamOptions) == nil {
		if e.forceUsage() {
			e.replace(m.Value, e.text("{"+includeUsage+"}"))
		}
		return nil
	}
	kept := false
	for k := range e.r.sub {
		s := &e.r.sub[k]
		if !streamOptions[s.Name] {
			drop, err := e.unknown(s)
			if err != nil {
				return err
			}
			if drop {
				e.delete(e.r.sub, k, kept)
				continue
			}
		}
		kept = true
		if k == e.r.usageIndex && e.forceUsage() {
			e.replace(s.Value, e.text("true"))
		}
	}
	if e.r.usageIndex < 0 && e.forceUsage() {
		e.insert(m.Value.End-1, kept, includeUsage)
	}
	return nil
}

func (e *editor) templateKwargs() error {
	kept := false
	for k := range e.r.subKwargs {
		s := &e.r.subKwargs[k]
		if !templateDenied[s.Name] {
			kept = true
			continue
		}
		if e.rw.InternalFields == "refuse" {
			return badKey(CodeUnsupportedField, "chat_template_kwargs."+s.Name, "Unsupported field", s.NameSpan.Start)
		}
		e.delete(e.r.subKwargs, k, kept)
	}
	return nil
}

// inserts adds the members that the body does not have, before the closing brace.
func (e *editor) inserts() {
	r := e.r
	if e.rw.Model != "" && !e.done.model {
		from := e.begin("model")
		r.edit = appendQuoted(r.edit, e.rw.Model)
		e.end(from)
	}
	if e.salt != "" && !e.done.salt {
		from := e.begin(e.salt)
		r.edit = appendQuoted(r.edit, e.rw.Salt)
		e.end(from)
	}
	if e.prio != "" && !e.done.prio {
		from := e.begin(e.prio)
		r.edit = strconv.AppendInt(r.edit, int64(e.prioValue), 10)
		e.end(from)
	}
	if e.forceUsage() && !e.done.usage {
		from := e.begin("stream_options")
		r.edit = append(r.edit, "{"+includeUsage+"}"...)
		e.end(from)
	}
	if e.rw.MaxTokens > 0 && !e.done.max && e.maxField() != "" {
		from := e.begin(e.maxField())
		r.edit = strconv.AppendInt(r.edit, int64(e.rw.MaxTokens), 10)
		e.end(from)
	}
}

// maxField returns the name of the output limit that every server of the dialect
// reads.
func (e *editor) maxField() string {
	s := e.r.Op.spec()
	if s.LimitOpenAI != "" && e.dialect.NewLimits {
		return s.LimitOpenAI
	}
	return s.Limit
}

// begin writes the comma and the key of another top-level member.
func (e *editor) begin(name string) (from int) {
	from = len(e.r.edit)
	if e.kept {
		e.r.edit = append(e.r.edit, ',')
	}
	e.kept = true
	e.r.edit = append(append(append(e.r.edit, '"'), name...), '"', ':')
	return from
}

func (e *editor) end(from int) {
	at := e.r.object.End - 1
	e.replace(Span{at, at}, e.since(from))
}

// insert adds text before a closing brace. comma reports whether a member precedes it.
func (e *editor) insert(at int, comma bool, text string) {
	from := len(e.r.edit)
	if comma {
		e.r.edit = append(e.r.edit, ',')
	}
	e.r.edit = append(e.r.edit, text...)
	e.replace(Span{at, at}, e.since(from))
}

func (e *editor) text(s string) []byte {
	from := len(e.r.edit)
	e.r.edit = append(e.r.edit, s...)
	return e.since(from)
}

func (e *editor) quoted(s string) []byte {
	from := len(e.r.edit)
	e.r.edit = appendQuoted(e.r.edit, s)
	return e.since(from)
}

func (e *editor) number(n int) []byte {
	from := len(e.r.edit)
	e.r.edit = strconv.AppendInt(e.r.edit, int64(n), 10)
	return e.since(from)
}

// since returns what was written to the buffer from an offset on. Later appends, in
// place or in a larger buffer, do not change it.
func (e *editor) since(from int) []byte {
	return e.r.edit[from:len(e.r.edit):len(e.r.edit)]
}

// EditedLen returns the length of body after the edits.
func EditedLen(body []byte, edits []Edit) int {
	n := len(body)
	for i := range edits {
		n += len(edits[i].New) - (edits[i].End - edits[i].Start)
	}
	return n
}

// AppendParts appends the parts of the edited body: slices of body and of the
// edits, none empty, to be written in order.
func AppendParts(dst [][]byte, body []byte, edits []Edit) [][]byte {
	at := 0
	for i := range edits {
		e := &edits[i]
		if e.Start > at {
			dst = append(dst, body[at:e.Start])
		}
		if len(e.New) > 0 {
			dst = append(dst, e.New)
		}
		at = e.End
	}
	if at < len(body) {
		dst = append(dst, body[at:])
	}
	return dst
}
