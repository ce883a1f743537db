// Package llmapi reads and edits the request bodies of the LLM HTTP APIs
// without copying them.
//
// A body is scanned once: [Request.Scan] validates it as JSON, notes where each
// top-level member lies and decodes the few values the router acts on. What must
// change on the way to an engine is a list of edits over the original bytes
// ([Request.AppendEdits]); everything else is forwarded byte for byte.
//
// Go and Python, in which the engines are written, disagree on which of two
// equal keys wins and on whether case matters. A client could use that to show
// the router one thing and the engine another, so a second occurrence or a case
// variant of a key the router knows is refused, also when it is spelled with
// \u escapes.
package llmapi

import "bytes"

// Operation is what a request asks for.
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

var operationNames = [...]string{"", "chat.completions", "completions", "models", "tokenize", "responses", "messages", "tokenize"}

// String returns the operation's name as policies and metrics know it, "" for
// OpNone. To count the tokens of a message is to tokenize it.
func (o Operation) String() string {
	if int(o) < len(operationNames) {
		return operationNames[o]
	}
	return ""
}

// Operations is a set of operations: bit n for Operation(n).
type Operations uint16

// Prompts are the operations that compute a prompt.
const Prompts = Operations(1<<OpChat | 1<<OpCompletions | 1<<OpResponses | 1<<OpMessages)

// Has reports whether o is in the set.
func (s Operations) Has(o Operation) bool { return s&(1<<o) != 0 }

// HasPrompt reports whether the operation has an engine compute a prompt, and so
// use and fill its cache.
func (o Operation) HasPrompt() bool { return Prompts.Has(o) }

// Path returns the path of an operation that is posted, "" for others.
func (o Operation) Path() string {
	if int(o) < len(paths) {
		return paths[o]
	}
	return ""
}

var paths = [...]string{
	OpChat:        "/v1/chat/completions",
	OpCompletions: "/v1/completions",
	OpTokenize:    "/tokenize",
	OpResponses:   "/v1/responses",
	OpMessages:    messagesPath,
	OpCountTokens: messagesPath + "/count_tokens",
}

// Served names the paths that are served, for the text of a 404.
const Served = "/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/messages/count_tokens, /v1/models, /tokenize"

const (
	modelsPath   = "/v1/models"
	messagesPath = "/v1/messages"
)

// Route maps a method and a path (without or with a query) to an operation. It
// is the path allow-list: known is false for a path that is not served (404).
// A served path with the wrong method has op OpNone and allow set to the value
// of the Allow header (405).
func Route(method, path []byte) (op Operation, known bool, allow string) {
	path = trimQuery(path)
	switch string(path) {
	case "/v1/chat/completions":
		op, allow = OpChat, "POST"
	case "/v1/completions":
		op, allow = OpCompletions, "POST"
	case "/v1/responses":
		op, allow = OpResponses, "POST"
	case messagesPath:
		op, allow = OpMessages, "POST"
	case messagesPath + "/count_tokens":
		op, allow = OpCountTokens, "POST"
	case "/tokenize":
		op, allow = OpTokenize, "POST"
	case modelsPath:
		op, allow = OpModels, "GET"
	default:
		if len(ModelID(path)) == 0 {
			return OpNone, false, ""
		}
		op, allow = OpModels, "GET"
	}
	if string(method) != allow {
		return OpNone, true, allow
	}
	return op, true, ""
}

// ModelID returns the {id} of /v1/models/{id} as it stands in the path (percent
// escapes are kept; it may hold slashes), nil for any other path.
func ModelID(path []byte) []byte {
	path = trimQuery(path)
	if len(path) <= len(modelsPath)+1 || string(path[:len(modelsPath)]) != modelsPath || path[len(modelsPath)] != '/' {
		return nil
	}
	return path[len(modelsPath)+1:]
}

// IsAnthropic tells whether a path belongs to Anthropic's API, served or not, so
// that its clients get errors they can read.
func IsAnthropic(path []byte) bool {
	path = trimQuery(path)
	rest, ok := bytes.CutPrefix(path, []byte(messagesPath))
	return ok && (len(rest) == 0 || rest[0] == '/')
}

func trimQuery(path []byte) []byte {
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		return path[:i]
	}
	return path
}
