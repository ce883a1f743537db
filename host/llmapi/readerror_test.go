package llmapi

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// TestReadError reads what engines answered.
func TestReadError(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want Error
	}{
		"vllm": {`{"error":{"message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError",` +
			`"param":"input_tokens","code":400}}`,
			Error{Status: 400, Type: "BadRequestError", Code: CodeEngine, Param: "input_tokens",
				Message: "This model's maximum context length is 4096 tokens."}},
		"old vllm": {`{"object":"error","message":"no such model","type":"NotFoundError","param":null,"code":404}`,
			Error{Status: 400, Type: "NotFoundError", Code: CodeEngine, Message: "no such model"}},
		"openai": {`{"error":{"message":"m","type":"t","param":null,"code":"context_length_exceeded"}}`,
			Error{Status: 400, Type: "t", Code: CodeEngine, CodeText: "context_length_exceeded", Message: "m"}},
		"anthropic": {`{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`,
			Error{Status: 400, Type: "invalid_request_error", Code: CodeEngine, Message: "m"}},
		"llama.cpp": {`{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`,
			Error{Status: 400, Type: "unavailable_error", Code: CodeEngine, Message: "Loading model"}},
		"ollama": {`{"error":"model \"x\" not found"}`,
			Error{Status: 400, Code: CodeEngine, Message: `model "x" not found`}},
		"fastapi": {`{"detail":"Not Found"}`, Error{Status: 400, Code: CodeEngine, Message: "Not Found"}},
		"fields": {`{"detail":[{"loc":["body"],"msg":"bad"}]}`,
			Error{Status: 400, Code: CodeEngine, Message: `[{"loc":["body"],"msg":"bad"}]`}},
		"empty": {``, Error{Status: 400, Code: CodeEngine, Message: "The engine answered with status 400."}},
		"html": {`<html>Bad Gateway</html>`, Error{Status: 400, Code: CodeEngine,
			Message: "The engine answered with status 400."}},
		"cut": {`{"error":{"message":"m"`, Error{Status: 400, Code: CodeEngine,
			Message: "The engine answered with status 400."}},
		"nothing": {`{"error":{}}`, Error{Status: 400, Code: CodeEngine, Message: "The engine answered with status 400."}},
		"null": {`{"error":null,"detail":null}`, Error{Status: 400, Code: CodeEngine,
			Message: "The engine answered with status 400."}},
		"numbers": {`{"error":7}`, Error{Status: 400, Code: CodeEngine, Message: "The engine answered with status 400."}},
	} {
		if got := ReadError([]byte(c.body), 400); *got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, *got, c.want)
		}
	}
}

// FuzzReadError: for any body of an engine, the result is one event of valid JSON
// with a message.
func FuzzReadError(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"a\nb","type":"t","param":"p","code":"c"}}`))
	f.Add([]byte(`{"detail":[1, 2]}`))
	f.Add([]byte("{\"detail\":[\n\n1]}"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e := ReadError(body, 418)
		if e.Message == "" || e.Status != 418 {
			t.Fatalf("%+v", e)
		}
		for _, op := range []Operation{OpChat, OpResponses, OpMessages} {
			b := e.AppendEvent(nil, op, 0, "id")
			data, n := cutData(b)
			if n != 1 || !json.Valid(data) || utf8.Valid([]byte(e.Message)) && !utf8.Valid(b) {
				t.Fatalf("%v: %q", op, b)
			}
		}
	})
}

// cutData splits an event as the standard of server-sent events says: its
// data, and the number of events in b.
func cutData(b []byte) (data []byte, n int) {
	line := []byte{}
	for _, c := range b {
		if c != '\n' && c != '\r' {
			line = append(line, c)
			continue
		}
		switch {
		case len(line) == 0:
			n++
		case len(line) > 6 && string(line[:6]) == "data: ":
			data = append(data, line[6:]...)
		}
		line = line[:0]
	}
	return data, n
}
