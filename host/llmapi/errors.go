package llmapi

import (
	"strconv"
	"time"
)

// Error types of the OpenAI API.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeNotFound       = "not_found_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
	TypeUpstream       = "upstream_error" // the router's own: no engine answered
)

// Error is an error for a client. Message is written for the client: it never
// contains text of the body except the name of a known field.
type Error struct {
	Status     int    // HTTP status
	Type       string // one of the Type constants or an engine's; "" = by Code and Status
	Code       Code
	CodeText   string // shown in place of Code: an engine's own code; "" = Code
	Param      string // the field at fault, "" = null
	Message    string
	RetryAfter time.Duration // when a retry may succeed; 0 = not known
}

// Error implements error.
func (e *Error) Error() string { return "llmapi: " + e.Message }

// AppendJSON appends the error as the body of an answer:
// {"error":{"message":…,"type":…,"param":…,"code":…}}.
func (e *Error) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendQuoted(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendQuoted(dst, e.kind())
	dst = append(dst, `,"param":`...)
	dst = appendQuotedOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendQuotedOrNull(dst, e.code())
	return append(dst, "}}"...)
}

// AppendAnthropic appends the error in the form of Anthropic's API:
// {"type":"error","error":{"type":…,"message":…},"request_id":…}.
func (e *Error) AppendAnthropic(dst []byte, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":`...)
	dst = appendQuoted(dst, e.anthropicKind())
	dst = append(dst, `,"message":`...)
	dst = appendQuoted(dst, e.Message)
	dst = append(dst, '}')
	if requestID != "" {
		dst = append(dst, `,"request_id":`...)
		dst = appendQuoted(dst, requestID)
	}
	return append(dst, '}')
}

// anthropicKind returns the error type for the status, as the Anthropic API
// reference lists them.
func (e *Error) anthropicKind() string {
	switch e.Status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	case 408, 504:
		return "timeout_error"
	}
	if e.Status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// AppendBody appends the error as the body of an answer of an API.
func (e *Error) AppendBody(dst []byte, f Family, requestID string) []byte {
	if f == FamilyAnthropic {
		return e.AppendAnthropic(dst, requestID)
	}
	return e.AppendJSON(dst)
}

// AppendEvent appends the error as the event that ends a stream of op. sequence is
// the number of the event, for formats that number them.
func (e *Error) AppendEvent(dst []byte, op Operation, sequence int, requestID string) []byte {
	switch op.StreamFormat() {
	case StreamMessages:
		dst = append(dst, "event: error\ndata: "...)
		dst = e.AppendAnthropic(dst, requestID)
	case StreamResponses:
		dst = append(dst, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"...)
		dst = strconv.AppendInt(dst, int64(sequence), 10)
		dst = append(dst, `,"code":`...)
		dst = appendQuoted(dst, e.code())
		dst = append(dst, `,"message":`...)
		dst = appendQuoted(dst, e.Message)
		dst = append(dst, `,"param":`...)
		dst = append(appendQuotedOrNull(dst, e.Param), '}')
	default:
		dst = append(dst, "data: "...)
		dst = e.AppendJSON(dst)
	}
	return append(dst, "\n\n"...)
}

// code returns the code that the client sees, "" if there is none.
func (e *Error) code() string {
	switch {
	case e.CodeText != "":
		return e.CodeText
	case e.Code == CodeEngine:
		return "" // the engine gave none
	}
	return e.Code.String()
}

func (e *Error) kind() string {
	switch {
	case e.Type != "":
		return e.Type
	case codes[e.Code.row()].kind != "":
		return codes[e.Code.row()].kind
	case e.Status == 401:
		return TypeAuthentication
	case e.Status == 403:
		return TypePermission
	case e.Status == 404:
		return TypeNotFound
	case e.Status == 429:
		return TypeRateLimit
	case e.Status >= 500:
		return TypeServer
	}
	return TypeInvalidRequest
}

func invalidJSON(at int, what string) *Error {
	return Refuse(CodeInvalidJSON, "Request body is not valid JSON: "+what+" at byte "+strconv.Itoa(at)+".")
}

func badKey(code Code, name, what string, at int) *Error {
	return RefuseParam(code, name, what+" "+strconv.Quote(name)+" at byte "+strconv.Itoa(at)+".")
}

func badValue(name, want string, at int) *Error {
	return RefuseParam(CodeInvalidType, name, "Invalid value of "+strconv.Quote(name)+" at byte "+strconv.Itoa(at)+
		": expected "+want+".")
}

func stateful(name, why string) *Error {
	return RefuseParam(CodeUnsupportedField, name, strconv.Quote(name)+" is not supported: "+why+".")
}
