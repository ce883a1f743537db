package scheduler

import (
	"errors"
	"strconv"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// ErrReplaced is returned by Schedule if the attributes of the endpoints are
// not those that the scheduler's rules are made for: a revision of the rules is being
// replaced. Nothing was counted; the caller decides by the rules in force, which are
// there within microseconds.
var ErrReplaced = errors.New("scheduler: the rules are being replaced")

// DeniedError reports why a request is not placed. It is for the client: Message
// contains no endpoint, no other tenant and nothing of the prompt.
type DeniedError struct {
	Status     int // HTTP status
	Code       llmapi.Code
	Message    string
	Param      string        // field of the request at fault, "" = none
	RetryAfter time.Duration // > 0: when a retry may succeed
	Wait       *Wait         // what the request may wait for; nil = nothing, or it may not
}

// Error implements error.
func (e *DeniedError) Error() string { return "scheduler: " + e.Message }

// Unwrap returns the *llmapi.Error that the client gets.
func (e *DeniedError) Unwrap() error {
	return &llmapi.Error{Status: e.Status, Code: e.Code, Param: e.Param, Message: e.Message, RetryAfter: e.RetryAfter}
}

// deny returns a refusal with the status of its code.
func deny(code llmapi.Code, message string) *DeniedError {
	return &DeniedError{Status: code.Status(), Code: code, Message: message}
}

// retrySoon is the Retry-After of conditions that may end by themselves: health checks
// and scrapes run about once a second.
const retrySoon = time.Second

func errModel(name string) *DeniedError {
	e := deny(llmapi.CodeModelNotFound, "The model "+strconv.Quote(name)+" does not exist.")
	e.Param = "model"
	return e
}

func errPolicy() *DeniedError {
	return deny(llmapi.CodePolicyError, "The policy made no decision.")
}

func errNoEndpoint(why string) *DeniedError {
	e := deny(llmapi.CodeNoEligibleEndpoint, "No endpoint can take this request: "+why+".")
	e.RetryAfter = retrySoon
	return e
}

func errCapacity() *DeniedError {
	e := deny(llmapi.CodeOverCapacity, "Every endpoint is at its limit of concurrent requests.")
	e.RetryAfter = retrySoon
	return e
}

func errTooLong(prompt, limit int, param string) *DeniedError {
	return tooLong("", prompt, limit, param)
}

func tooLong(how string, prompt, limit int, param string) *DeniedError {
	e := deny(llmapi.CodeContextLength,
		"This request has "+how+strconv.Itoa(prompt)+" prompt tokens; the limit is "+strconv.Itoa(limit)+" tokens.")
	e.Param = param
	return e
}
