// Package llmapi reads and edits the request bodies of the LLM HTTP APIs
// without copying them.
//
// A body is scanned once: [Request.Scan] validates it as JSON, notes where each
// top-level member is and decodes the few values the router acts on. The changes
// for an engine are a list of edits over the original bytes
// ([Request.AppendEdits]); everything else is forwarded byte for byte.
//
// Go and Python, in which the engines are written, disagree on which of two
// equal keys wins and on whether case matters. A client could use that to show
// the router one thing and the engine another, so a second occurrence or a case
// variant of a key the router knows is refused, also when it is spelled with
// \u escapes.
package llmapi
