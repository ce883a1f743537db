package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/kvasir-router/kvasir/host/internal/secret"
)

// Errors that implementations of the sources wrap. Other errors are answered with
// status 500 and their text.
var (
	// ErrNotFound is answered with 404.
	ErrNotFound = errors.New("admin: not found")
	// ErrRefused is answered with 422: the request is well-formed but was refused,
	// such as the reload of an invalid configuration. Wrap it with the reason.
	ErrRefused = errors.New("admin: refused")
)

// AmbiguousError is returned by Explainer.Explain where several tenants used the
// request id. It is answered with 409.
type AmbiguousError struct {
	RequestID string
	Tenants   []string // at least two, sorted
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("request id %q was used by the tenants %s: name one with tenant=", e.RequestID,
		strings.Join(e.Tenants, ", "))
}

// ErrorBody is the body of every answer with a status of 400 and above.
type ErrorBody struct {
	Error ErrorDetail `json:"error"`
}

// ErrorDetail says what is wrong.
type ErrorDetail struct {
	Message string `json:"message"` // for people
	Code    string `json:"code"`    // for programs
}

// apiError is an error with its status and code.
type apiError struct {
	status        int
	code, message string
}

// Error implements error.
func (e *apiError) Error() string { return "admin: " + e.message }

// respond writes v, or what err says.
func (s *Server) respond(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, v)
		return
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		writeError(w, e.status, e.code, e.message)
		return
	}
	if _, ok := errors.AsType[*AmbiguousError](err); ok {
		writeError(w, http.StatusConflict, "ambiguous_request_id", err.Error())
		return
	}
	switch {
	case errors.Is(err, ErrNotFound):
		writeError(w, http.StatusNotFound, "not_found", err.Error())
	case errors.Is(err, ErrRefused):
		writeError(w, http.StatusUnprocessableEntity, "refused", err.Error())
	default:
		s.cfg.Log.Warn("admin request failed", "path", r.URL.Path, "err", err)
		writeError(w, http.StatusInternalServerError, "internal_error", err.Error())
	}
}

// unrenderable is the body of an error that encoding/json cannot cause.
const unrenderable = `{"error":{"message":"The response cannot be rendered.","code":"internal_error"}}`

// writeJSON writes v as JSON. Credentials are removed from every response except
// the one that issues a key.
func writeJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(unrenderable)
	}
	if _, issued := v.(IssuedKey); !issued {
		b = []byte(secret.Redact(string(b)))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}

// writeError writes an error in the shape of the API.
func writeError(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, ErrorBody{ErrorDetail{message, code}})
}
