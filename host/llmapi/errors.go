package llmapi

import (
	"strconv"
)

// Error types of the OpenAI API.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypeAuthentication = "authentication_error"
	TypePermission     = "permission_error"
	TypeNotFound       = "not_found_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
)

// Error is an answer to a client in the shape of the OpenAI API. Message is
// meant for the client: it never holds text of the body beyond the name of a
// key the router knows.
type Error struct {
	Status  int    // HTTP status
	Type    string // one of the Type constants; "" = by Status
	Code    string // machine word, "" = null
	Param   string // the field at fault, "" = null
	Message string
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
	dst = appendQuotedOrNull(dst, e.Code)
	return append(dst, "}}"...)
}

func (e *Error) kind() string {
	switch {
	case e.Type != "":
		return e.Type
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
	return &Error{Status: 400, Type: TypeInvalidRequest, Code: "invalid_json",
		Message: "Request body is not valid JSON: " + what + " at byte " + strconv.Itoa(at) + "."}
}

func badKey(name, code, what string, at int) *Error {
	return &Error{Status: 400, Type: TypeInvalidRequest, Code: code, Param: name,
		Message: what + " " + strconv.Quote(name) + " at byte " + strconv.Itoa(at) + "."}
}

func badValue(name, want string, at int) *Error {
	return &Error{Status: 400, Type: TypeInvalidRequest, Code: "invalid_type", Param: name,
		Message: "Invalid value of " + strconv.Quote(name) + " at byte " + strconv.Itoa(at) + ": expected " + want + "."}
}
