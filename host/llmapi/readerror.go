package llmapi

import (
	"encoding/json"
	"strconv"
)

// ReadError reads the body of an engine's answer with an error status, in any of
// the shapes that engines have:
//
//	{"error":{"message":…,"type":…,"param":…,"code":…}}   vLLM, llama.cpp, OpenAI; Anthropic with fewer members
//	{"object":"error","message":…,"type":…,"code":…}      vLLM before 0.10, SGLang
//	{"error":"…"}                                         Ollama, TGI
//	{"detail":"…"} or {"detail":[…]}                      what FastAPI answers by itself
//
// What is something else becomes an error that tells the status only. A number as
// code is the status again and no word for a machine: it is left out.
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

// engineError are the members of an error object, of which Code may be a number
// and Type and Param null.
type engineError struct {
	Message           string
	Type, Code, Param json.RawMessage
}

func (in *engineError) fill(e *Error) {
	e.Message, e.Type, e.CodeText, e.Param = in.Message, text(in.Type), text(in.Code), text(in.Param)
}

// text returns the string that a JSON value is, "" if it is another.
func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
