package llmapi

import (
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/host/dialect"
)

// Class is what the router does with a top-level member.
type Class uint8

const (
	ClassUnknown  Class = iota // not in the table: see Rewrite.UnknownFields
	ClassKnown                 // part of some engine's API: passes
	ClassActed                 // read or edited by the router
	ClassInternal              // controls routing, cache or code inside the engine: never passes
)

// Fields is a set of groups of fields, one bit each. An operation has the fields
// of its groups (Spec.Fields).
type Fields = dialect.Fields

// The groups.
const (
	FieldsChat        = dialect.Chat
	FieldsCompletions = dialect.Completions
	FieldsTokenize    = dialect.Tokenize
	FieldsResponses   = dialect.Responses
	FieldsMessages    = dialect.Messages
	FieldsCount       = dialect.Count
)

func (o Operation) set() Fields { return o.spec().Fields }

// SaltField returns the member that an engine of a dialect reads the cache salt
// from, "" if it has none or the operation uses no cache. It is that of the latest
// release; for an older one see [Unsalted].
func SaltField(op Operation, name string) string { return dialect.Of(name).SaltField(op.set()) }

// Unsalted returns the operations in which a release of an engine shares its cache
// between requests with different cache salts: only requests of the public
// namespace, or of the one tenant that the engine serves, may be placed there for
// them. version is as the engine reports it, "" = the latest.
func Unsalted(d *dialect.Dialect, version string) (ops Operations) {
	for o := range Operation(len(specs)) {
		if s := o.spec(); s.Computes && !d.Salted(s.Fields, version) {
			ops |= 1 << o
		}
	}
	return ops
}

// field is one key of the table. Its id is its index.
type field struct {
	name     string
	class    Class
	in       Fields   // requests that have it in any dialect
	dialects []Fields // the same for each dialect, by Number
}

// has reports whether requests of a group have the field in a dialect.
func (f *field) has(in Fields, d *dialect.Dialect) bool { return f.dialects[d.Number()]&in != 0 }

// ids of the fields that code refers to: the first of the table, in the order of acted.
const (
	fModel = iota
	fStream
	fStreamOptions
	fMaxTokens
	fMaxCompletionTokens
	fNPredict
	fPrompt
	fMessages
	fN
	fUser
	fEcho
	fLogprobs
	fTopLogprobs
	fPromptLogprobs
	fCacheSalt
	fTemplateKwargs
	fMaxOutputTokens
	fPreviousResponse
	fBackground
	fStore
	fConversation
	fContainer
	fPriority
	fInput
	nActed

	fNone  = -1 // of a name outside the table
	fUnset = -2 // of no name
)

// acted are the fields that the router reads or edits: those with an id, then what
// shapes the prompt beside them, which the tokenizer reads. Which dialects have them
// is in host/dialect, as for all others.
var acted = [...]string{
	fModel: "model", fStream: "stream", fStreamOptions: "stream_options", fMaxTokens: "max_tokens",
	fMaxCompletionTokens: "max_completion_tokens",
	fNPredict:            "n_predict", fPrompt: "prompt", fMessages: "messages", fN: "n", fUser: "user", fEcho: "echo",
	fLogprobs:    "logprobs",
	fTopLogprobs: "top_logprobs", fPromptLogprobs: "prompt_logprobs", fCacheSalt: "cache_salt",
	fTemplateKwargs:  "chat_template_kwargs",
	fMaxOutputTokens: "max_output_tokens", fPreviousResponse: "previous_response_id", fBackground: "background",
	fStore:        "store",
	fConversation: "conversation", fContainer: "container", fPriority: "priority", fInput: "input",

	nActed: "tools", "tool_choice", "documents", "response_format", "reasoning_effort", "add_generation_prompt",
	"continue_final_message",
	"add_special_tokens", "truncate_prompt_tokens", "truncation_side", "mm_processor_kwargs", "media_io_kwargs",
	"prompt_embeds",
	"instructions", "reasoning", "truncation", "previous_input_messages", "system", "thinking", "output_config", "suffix",
	"content", "add_special", "parse_special",
}

// fields is the allow-list, and fieldByName the ids of its names. Both are made of
// acted and of what the dialects declare.
var (
	fields      []field
	fieldByName map[string]int16
)

func init() { dialect.OnRegister(makeFields) }

// makeFields makes the allow-list of all dialects.
func makeFields() {
	t := table{byName: map[string]int16{}}
	for _, name := range acted {
		t.row(name).class = ClassActed
	}
	for _, d := range dialect.All() {
		t.addDialect(d)
	}
	for _, name := range dialect.InternalElsewhere {
		t.row(name).class = ClassInternal
	}
	if len(t.fields) > maxFields {
		panic("BUG: llmapi: more fields than Request.seen has bits")
	}
	fields, fieldByName = t.fields, t.byName
}

// table is the allow-list while it is made.
type table struct {
	fields []field
	byName map[string]int16
}

// row returns the row of a name, made on demand. It is valid until the next call.
func (t *table) row(name string) *field {
	id, ok := t.byName[name]
	if !ok {
		if len(name) > maxFieldName/3 {
			panic("BUG: llmapi: field name longer than maxFieldName: " + name)
		}
		id = int16(len(t.fields))
		t.fields = append(t.fields, field{name: name, dialects: make([]Fields, len(dialect.All()))})
		t.byName[name] = id
	}
	return &t.fields[id]
}

func (t *table) addDialect(d *dialect.Dialect) {
	for _, list := range [][]dialect.Members{dialect.Common, d.Has} {
		for _, m := range list {
			for name := range strings.FieldsSeq(m.Names) {
				t.addMember(d, name, m.In)
			}
		}
	}
	for _, name := range d.Internal {
		t.row(name).class = ClassInternal
	}
	for _, own := range []dialect.Members{{In: d.Salt.In, Names: d.Salt.Field},
		{In: d.Priority.In, Names: d.Priority.Field}} {
		if own.Names != "" { // the router's own, never a client's
			t.addMember(d, own.Names, own.In)
			t.row(own.Names).class = ClassInternal
		}
	}
}

func (t *table) addMember(d *dialect.Dialect, name string, in Fields) {
	f := t.row(name)
	if slices.Contains(d.Lacks, name) {
		return
	}
	f.in |= in
	f.dialects[d.Number()] |= in
	if f.class == ClassUnknown {
		f.class = ClassKnown
	}
}

// internalPrefixes are families of internal keys.
var internalPrefixes = []string{"bootstrap_", "disagg_"}

// streamOptions are the members of stream_options that pass.
var streamOptions = map[string]bool{"include_usage": true, "continuous_usage_stats": true, "include_obfuscation": true}

// templateDenied are members of chat_template_kwargs that are not variables of the
// template but replace it or change how it is applied (CVE-2025-62426).
var templateDenied = map[string]bool{"chat_template": true, "tokenize": true}

// maxFields is the number of bits of Request.seen.
const maxFields = 256

// maxFieldName is longer than any spelling that folds to a name of the table: one
// byte of a name has at most three bytes in a spelling (U+212A).
const maxFieldName = 3 * 40

// lookup finds a decoded key. variant reports whether the key differs from the
// field's name in case only, as encoding/json compares (ASCII, and the two letters
// outside of it that fold into it). A member of an internal
// family has id fNone and class ClassInternal.
func lookup(name string) (id int, class Class, variant bool) {
	if i, ok := fieldByName[name]; ok {
		return int(i), fields[i].class, false
	}
	if len(name) > maxFieldName {
		return fNone, ClassUnknown, false
	}
	var buf [maxFieldName]byte
	folded := fold(buf[:0], name)
	variant = len(folded) != len(name) || string(folded) != name
	if variant {
		if i, ok := fieldByName[string(folded)]; ok {
			return int(i), fields[i].class, true
		}
	}
	for _, p := range internalPrefixes {
		if len(folded) > len(p) && string(folded[:len(p)]) == p {
			return fNone, ClassInternal, variant
		}
	}
	return fNone, ClassUnknown, false
}

// fold appends name in lower case.
func fold(dst []byte, name string) []byte {
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c-'A' <= 'Z'-'A':
			dst = append(dst, c|0x20)
		case c == 0xc5 && i+1 < len(name) && name[i+1] == 0xbf: // U+017F long s
			dst = append(dst, 's')
			i++
		case c == 0xe2 && i+2 < len(name) && name[i+1] == 0x84 && name[i+2] == 0xaa: // U+212A Kelvin sign
			dst = append(dst, 'k')
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
