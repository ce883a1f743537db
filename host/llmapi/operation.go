package llmapi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/kvasir-router/kvasir/abi"
)

// Operation is what a request asks for. Everything that differs between
// operations is in its [Spec]; the rest of the router asks for a property and
// not for the operation.
type Operation uint8

const (
	OpNone        Operation = iota // not served
	OpChat                         // POST /v1/chat/completions
	OpCompletions                  // POST /v1/completions
	OpModels                       // GET /v1/models, /v1/models/{id}
	OpTokenize                     // POST /tokenize
	OpResponses                    // POST /v1/responses
	OpMessages                     // POST /v1/messages
	OpCountTokens                  // POST /v1/messages/count_tokens
)

// Family is the API that an operation belongs to: it decides the shape of
// errors and the names of the headers with ids and budgets.
type Family uint8

const (
	FamilyOpenAI Family = iota
	FamilyAnthropic
)

// Shape is the form of an operation's prompt: which reader of
// host/tokenizer/chat makes tokens of it.
type Shape uint8

const (
	ShapeNone     Shape = iota // no prompt
	ShapeChat                  // messages of chat completions
	ShapeText                  // a text, or token ids
	ShapeTokenize              // messages, else a text
	ShapeInput                 // instructions and input of responses
	ShapeTurns                 // system and messages of Anthropic's API
)

// StreamFormat is the form of an operation's stream of server-sent events:
// how it ends, how it reports an error, and where its report of usage is.
type StreamFormat uint8

const (
	StreamNone      StreamFormat = iota // no stream
	StreamChunks                        // ends with [DONE]; reports usage if stream_options.include_usage asks for it
	StreamResponses                     // numbered events; ends with response.completed or its like; always reports usage
	StreamMessages                      // ends with message_stop; always reports usage
	NumStreamFormats
)

// Spec describes an operation completely. Another operation is one row of specs,
// plus a reader in host/tokenizer/chat if its prompt has a form of its own.
type Spec struct {
	Name   string // in policies, metrics and logs; operations may share one
	Method string // GET or POST
	Path   string
	Items  bool // Path/{id} is served as well
	Family Family
	Stream StreamFormat
	Fields Fields // whose fields of the allow-list the body has

	Shape        Shape
	PromptFields []string // that hold the prompt, the main one first
	Computes     bool     // an engine computes the prompt, and so uses and fills its cache
	EchoScores   bool     // "echo" alone has the engine compute the prompt's log probabilities

	Limit       string // field that bounds the output, "" = none
	LimitOpenAI string // the same for dialect openai; "" = Limit

	Stored bool // answers are kept under an id by which a later request continues them
	Once   bool // must not be sent again once an engine may have seen it

	ABI uint64 // value of the plugins' request column "operation"
}

// specs has one row for each Operation. To count the tokens of a message is to
// tokenize it, so policies see one name for both.
var specs = []Spec{
	OpNone: {ABI: abi.OperationOther},
	OpChat: {
		Name: "chat.completions", Method: "POST", Path: "/v1/chat/completions", Stream: StreamChunks, Fields: FieldsChat,
		Shape: ShapeChat, PromptFields: []string{"messages"}, Computes: true, EchoScores: true,
		Limit: "max_tokens", LimitOpenAI: "max_completion_tokens", ABI: abi.OperationChat,
	},
	OpCompletions: {
		Name: "completions", Method: "POST", Path: "/v1/completions", Stream: StreamChunks, Fields: FieldsCompletions,
		Shape: ShapeText, PromptFields: []string{"prompt"}, Computes: true,
		Limit: "max_tokens", ABI: abi.OperationCompletions,
	},
	OpModels: {Name: "models", Method: "GET", Path: "/v1/models", Items: true, ABI: abi.OperationOther},
	OpTokenize: {
		Name: "tokenize", Method: "POST", Path: "/tokenize", Fields: FieldsTokenize,
		Shape: ShapeTokenize, PromptFields: []string{"messages", "prompt"}, ABI: abi.OperationOther,
	},
	OpResponses: {
		Name: "responses", Method: "POST", Path: "/v1/responses", Stream: StreamResponses, Fields: FieldsResponses,
		Shape: ShapeInput, PromptFields: []string{"input", "instructions"}, Computes: true,
		Limit: "max_output_tokens", Stored: true, ABI: abi.OperationResponses,
	},
	OpMessages: {
		Name: "messages", Method: "POST", Path: "/v1/messages", Family: FamilyAnthropic, Stream: StreamMessages,
		Fields: FieldsMessages,
		Shape:  ShapeTurns, PromptFields: []string{"messages", "system"}, Computes: true,
		Limit: "max_tokens", ABI: abi.OperationMessages,
	},
	OpCountTokens: {
		Name: "tokenize", Method: "POST", Path: "/v1/messages/count_tokens", Family: FamilyAnthropic, Fields: FieldsCount,
		Shape: ShapeTurns, PromptFields: []string{"messages", "system"}, ABI: abi.OperationOther,
	},
}

// Operations is a set of operations: bit n for Operation(n).
type Operations uint16

// maxOperations is the number of bits of Operations.
const maxOperations = 16

// Prompts are the operations that compute a prompt.
var Prompts Operations

var byPath = map[string]Operation{}

func init() {
	for i := range specs[OpNone+1:] {
		index(OpNone + 1 + Operation(i))
	}
}

func index(o Operation) {
	s := &specs[o]
	if _, duplicate := byPath[s.Path]; duplicate || int(o) >= maxOperations {
		panic("BUG: llmapi: operation " + s.Path + ": duplicate path, or too many operations")
	}
	byPath[s.Path] = o
	if s.Computes {
		Prompts |= 1 << o
	}
}

// Register adds an operation to those of the table and returns it. It must be
// called before the first request is served: from an init function or a test.
func Register(s Spec) Operation {
	specs = append(specs, s)
	o := Operation(len(specs) - 1)
	index(o)
	return o
}

// spec returns the row of o, that of OpNone for what is no Operation.
func (o Operation) spec() *Spec {
	if int(o) < len(specs) {
		return &specs[o]
	}
	return &specs[OpNone]
}

// String returns the operation's name as policies and metrics know it, "" for
// OpNone.
func (o Operation) String() string { return o.spec().Name }

// Path returns the path of an operation that is posted, "" for others.
func (o Operation) Path() string {
	if s := o.spec(); s.Method == "POST" {
		return s.Path
	}
	return ""
}

// HasPrompt reports whether the operation has an engine compute a prompt, and so
// use and fill its cache.
func (o Operation) HasPrompt() bool { return o.spec().Computes }

// Family returns the API that the operation belongs to.
func (o Operation) Family() Family { return o.spec().Family }

// Shape returns the form of the operation's prompt.
func (o Operation) Shape() Shape { return o.spec().Shape }

// StreamFormat returns the form of the operation's streams.
func (o Operation) StreamFormat() StreamFormat { return o.spec().Stream }

// PromptFields returns the fields that hold the prompt, the main one first. The
// caller must not change it.
func (o Operation) PromptFields() []string { return o.spec().PromptFields }

// PromptParam returns the field that holds most of the prompt, "" if there is
// none: what an error about the prompt names.
func (o Operation) PromptParam() string {
	if f := o.spec().PromptFields; len(f) > 0 {
		return f[0]
	}
	return ""
}

// Stored reports whether answers are kept under an id by which a later request
// continues them.
func (o Operation) Stored() bool { return o.spec().Stored }

// Once reports whether a request must not be sent again once an engine may have
// seen it.
func (o Operation) Once() bool { return o.spec().Once }

// ABI returns the value of the plugins' request column "operation".
func (o Operation) ABI() uint64 { return o.spec().ABI }

// Has reports whether o is in the set.
func (s Operations) Has(o Operation) bool { return s&(1<<o) != 0 }

// Served names the paths that are served, for the text of a 404.
func Served() string {
	var paths []string
	for i := range specs[OpNone+1:] {
		paths = append(paths, specs[1+i].Path)
	}
	slices.Sort(paths)
	return strings.Join(paths, ", ")
}

// Names returns the names of the operations, sorted and each once.
func Names() []string {
	var names []string
	for i := range specs[OpNone+1:] {
		names = append(names, specs[1+i].Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Route maps a method and a path (without or with a query) to an operation. It
// is the path allow-list: known is false for a path that is not served (404).
// A served path with the wrong method has op OpNone and allow set to the value
// of the Allow header (405).
func Route(method, path []byte) (op Operation, known bool, allow string) {
	path = trimQuery(path)
	op, known = byPath[string(path)]
	if !known {
		if op, known = itemOf(path); !known {
			return OpNone, false, ""
		}
	}
	if allow = op.spec().Method; string(method) != allow {
		return OpNone, true, allow
	}
	return op, true, ""
}

// itemOf returns the operation that serves path as Path/{id}.
func itemOf(path []byte) (Operation, bool) {
	for i := range specs {
		if s := &specs[i]; s.Items && len(item(s, path)) > 0 {
			return Operation(i), true
		}
	}
	return OpNone, false
}

// item returns the {id} of Path/{id}, nil for another path.
func item(s *Spec, path []byte) []byte {
	rest, ok := bytes.CutPrefix(path, []byte(s.Path))
	if !ok || len(rest) < 2 || rest[0] != '/' {
		return nil
	}
	return rest[1:]
}

// ModelID returns the {id} of /v1/models/{id} as it is in the path, with percent
// escapes and slashes; nil for any other path.
func ModelID(path []byte) []byte { return item(&specs[OpModels], trimQuery(path)) }

// FamilyOf returns the API whose clients send to a path, served or not, so that
// they get errors they can read.
func FamilyOf(path []byte) Family {
	path = trimQuery(path)
	rest, ok := bytes.CutPrefix(path, []byte(specs[OpMessages].Path))
	if ok && (len(rest) == 0 || rest[0] == '/') {
		return FamilyAnthropic
	}
	if op, known := byPath[string(path)]; known {
		return op.Family()
	}
	return FamilyOpenAI
}

func trimQuery(path []byte) []byte {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		return path[:i]
	}
	return path
}
