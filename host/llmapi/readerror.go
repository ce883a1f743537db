package llmapi

import (
	"encoding/json"
	"strconv"
)

// ReadError reads the body of an engine's answer with an error status. It knows the
// forms that engines use:
//
//	{"error":{"message":…,"type":…,"param":…,"code":…}}   vLLM, llama.cpp, OpenAI; Anthropic with fewer members
//	{"object":"error","message":…,"type":…,"code":…}      vLLM before 0.10, SGLang
//	{"error":"…"}                                         Ollama, TGI
//	{"detail":"…"} or {"detail":[…]}                      FastAPI's own errors
//
// Any other body becomes an error with the status only. A number as code repeats
// the status and is left out.
func ReadError(body []byte, status int) *Error {
	e := &Error{Status: status, Code: CodeEngine, Message: "The engine answered with status " + strconv.Itoa(status) + "."}
	var top struct {
		engineError
		Error, Detail json.RawMessage
	}
	if json.Unmarshal(body, &top) != nil {
		return e
	}
	var in engineError
	switch {
	case json.Unmarshal(top.Error, &in) == nil && in.Message != "":
		in.fill(e)
	case text(top.Error) != "":
		e.Message = text(top.Error)
	case top.Message != "":
		top.engineError.fill(e)
	case text(top.Detail) != "":
		e.Message = text(top.Detail)
	case len(top.Detail) > 0 && top.Detail[0] == '[':
		e.Message = string(top.Detail)
	}
	return e
}

// engineError has the members of an error object. Code may be a number; Type and
// Param may be null.
type engineError struct {
	Message           string
	Type, Code, Param json.RawMessage
}

func (in *engineError) fill(e *Error) {
	e.Message, e.Type, e.CodeText, e.Param = in.Message, text(in.Type), text(in.Code), text(in.Param)
}

// text returns a JSON value that is a string, "" for other values.
func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
