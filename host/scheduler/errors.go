package scheduler

import (
	"net/http"
	"strconv"
	"time"
)

// Machine words of a DeniedError.
const (
	CodeModelNotFound = "model_not_found"         // 404: no such model
	CodeDenied        = "policy_denied"           // 403 or what policy says
	CodePolicyError   = "policy_error"            // 503: policy gave no usable decision
	CodeNoEndpoint    = "no_eligible_endpoint"    // 503: nobody may or can take it
	CodeTooLong       = "context_length_exceeded" // 400: the prompt is longer than policy allows
	CodeNoResponse    = "response_not_found"      // 404: the answer to be continued is not known
	CodeOverCapacity  = "over_capacity"           // 429: every endpoint is at its cap
	CodeRateLimit     = "rate_limit_exceeded"     // 429: the tenant's requests or tokens per minute
	CodeConcurrency   = "concurrency_limit"       // 429: the tenant's requests in flight
	CodeTooLarge      = "request_too_large"       // 400: more tokens than a minute's worth
)

// DeniedError says why a request is not placed. It is for the client: Message
// names no endpoint, no other tenant and nothing of the prompt.
type DeniedError struct {
	Status     int    // HTTP status
	Code       string // one of the Code constants
	Message    string
	Param      string        // field of the request at fault, "" = none
	RetryAfter time.Duration // > 0: when a retry may succeed
	Wait       *Wait         // what the request may wait for; nil = nothing, or it may not
}

// Error implements error.
func (e *DeniedError) Error() string { return "scheduler: " + e.Message }

// retrySoon is Retry-After where the state may change by itself: health checks
// and scrapes run about once a second.
const retrySoon = time.Second

func errModel(name string) *DeniedError {
	return &DeniedError{Status: http.StatusNotFound, Code: CodeModelNotFound, Param: "model", Message: "the model " + strconv.Quote(name) + " does not exist"}
}

func errPolicy() *DeniedError {
	return &DeniedError{Status: http.StatusServiceUnavailable, Code: CodePolicyError, Message: "no policy decision could be made"}
}

func errNoEndpoint(why string) *DeniedError {
	return &DeniedError{Status: http.StatusServiceUnavailable, Code: CodeNoEndpoint, Message: "no endpoint can take this request: " + why, RetryAfter: retrySoon}
}

func errCapacity() *DeniedError {
	return &DeniedError{Status: http.StatusTooManyRequests, Code: CodeOverCapacity, Message: "every endpoint is at its limit of concurrent requests", RetryAfter: retrySoon}
}

func errTooLong(prompt, limit int, param string) *DeniedError {
	return tooLong("", prompt, limit, param)
}

func tooLong(how string, prompt, limit int, param string) *DeniedError {
	return &DeniedError{Status: http.StatusBadRequest, Code: CodeTooLong, Param: param,
		Message: "this request has " + how + strconv.Itoa(prompt) + " prompt tokens; the limit is " + strconv.Itoa(limit) + " tokens"}
}
