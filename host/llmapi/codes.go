package llmapi

// Code is the machine-readable code of a refusal. The zero value is no code: an
// error with it has status 500 unless it sets its own, and never means success.
type Code uint8

// The codes of the router's own answers.
const (
	CodeUnset Code = iota
	CodeInvalidJSON
	CodeTooManyFields
	CodeInvalidKey // a known field in another case
	CodeDuplicateKey
	CodeInvalidType
	CodeUnsupportedField
	CodeUnknownField
	CodeInvalidRequest // not HTTP
	CodeInvalidHeader
	CodeDuplicateHeader
	CodeAmbiguousFraming
	CodeInvalidBody     // malformed or ended early
	CodeContextLength   // the prompt is longer than policy allows
	CodeRequestTooLarge // more tokens than a minute's worth
	CodeMissingAPIKey
	CodeInvalidAPIKey
	CodeInvalidToken
	CodeTenantMismatch // credential and trusted proxy name different tenants
	CodePolicyDenied   // or the status of the policy's decision
	CodeUnknownPath
	CodeModelNotFound    // as OpenAI's service
	CodeResponseNotFound // the response to be continued is not known
	CodeMethodNotAllowed
	CodeRequestTimeout // the body did not arrive in time
	CodeBodyTooLarge
	CodeContentEncoding
	CodeExpectation
	CodeTooManyFailures  // failed logins from one address
	CodeConcurrencyLimit // requests in flight, of the tenant or of the router
	CodeBytesInFlight    // memory of request bodies
	CodeOverCapacity     // every endpoint is at its limit
	CodeRateLimit        // the tenant's requests or tokens per minute
	CodeWaitingRoomFull  // too many requests wait for the model to be started
	CodeTooManyHeaders
	CodeHeadersTooLarge
	CodeInternal
	CodeUpstream           // no engine answered; CodeText has the exchange.End
	CodeEngine             // an engine's own error; CodeText has its code
	CodeNoEndpoint         // the router failed to place the request
	CodeNoEligibleEndpoint // no endpoint may or can take the request
	CodePolicyError        // policy gave no usable decision
	CodeAuditUnavailable   // the decision log cannot be written
	CodeModelNotStarted
	CodeShuttingDown
	CodeHTTPVersion
	NumCodes
)

// codes has one row for each Code.
var codes = [NumCodes]struct {
	name   string // in error bodies, metrics and logs
	status int    // HTTP status
	kind   string // error type of the OpenAI API; "" = by status
}{
	CodeUnset:              {"", 500, ""},
	CodeInvalidJSON:        {"invalid_json", 400, ""},
	CodeTooManyFields:      {"too_many_fields", 400, ""},
	CodeInvalidKey:         {"invalid_key", 400, ""},
	CodeDuplicateKey:       {"duplicate_key", 400, ""},
	CodeInvalidType:        {"invalid_type", 400, ""},
	CodeUnsupportedField:   {"unsupported_field", 400, ""},
	CodeUnknownField:       {"unknown_field", 400, ""},
	CodeInvalidRequest:     {"invalid_request", 400, ""},
	CodeInvalidHeader:      {"invalid_header", 400, ""},
	CodeDuplicateHeader:    {"duplicate_header", 400, ""},
	CodeAmbiguousFraming:   {"ambiguous_framing", 400, ""},
	CodeInvalidBody:        {"invalid_body", 400, ""},
	CodeContextLength:      {"context_length_exceeded", 400, ""},
	CodeRequestTooLarge:    {"request_too_large", 400, ""},
	CodeMissingAPIKey:      {"missing_api_key", 401, ""},
	CodeInvalidAPIKey:      {"invalid_api_key", 401, ""},
	CodeInvalidToken:       {"invalid_token", 401, ""},
	CodeTenantMismatch:     {"tenant_mismatch", 403, ""},
	CodePolicyDenied:       {"policy_denied", 403, ""},
	CodeUnknownPath:        {"unknown_path", 404, ""},
	CodeModelNotFound:      {"model_not_found", 404, TypeInvalidRequest},
	CodeResponseNotFound:   {"response_not_found", 404, TypeInvalidRequest},
	CodeMethodNotAllowed:   {"method_not_allowed", 405, ""},
	CodeRequestTimeout:     {"request_timeout", 408, ""},
	CodeBodyTooLarge:       {"body_too_large", 413, ""},
	CodeContentEncoding:    {"unsupported_content_encoding", 415, ""},
	CodeExpectation:        {"unsupported_expectation", 417, ""},
	CodeTooManyFailures:    {"too_many_failures", 429, ""},
	CodeConcurrencyLimit:   {"concurrency_limit", 429, ""},
	CodeBytesInFlight:      {"bytes_in_flight", 429, ""},
	CodeOverCapacity:       {"over_capacity", 429, ""},
	CodeRateLimit:          {"rate_limit_exceeded", 429, ""},
	CodeWaitingRoomFull:    {"waiting_room_full", 429, ""},
	CodeTooManyHeaders:     {"too_many_headers", 431, ""},
	CodeHeadersTooLarge:    {"headers_too_large", 431, ""},
	CodeInternal:           {"internal_error", 500, ""},
	CodeUpstream:           {"upstream_error", 502, TypeUpstream},
	CodeEngine:             {"engine_error", 502, ""},
	CodeNoEndpoint:         {"no_endpoint", 503, ""},
	CodeNoEligibleEndpoint: {"no_eligible_endpoint", 503, ""},
	CodePolicyError:        {"policy_error", 503, ""},
	CodeAuditUnavailable:   {"audit_unavailable", 503, ""},
	CodeModelNotStarted:    {"model_not_started", 503, ""},
	CodeShuttingDown:       {"shutting_down", 503, ""},
	CodeHTTPVersion:        {"http_version", 505, ""},
}

// row returns the row of c, that of CodeUnset for what is no Code.
func (c Code) row() int {
	if c < NumCodes {
		return int(c)
	}
	return int(CodeUnset)
}

// String returns the code as error bodies, metrics and logs have it, "" for
// CodeUnset.
func (c Code) String() string { return codes[c.row()].name }

// Status returns the HTTP status of a refusal with this code.
func (c Code) Status() int { return codes[c.row()].status }

// Refuse returns a refusal with a code, its status and a message for the client.
func Refuse(c Code, message string) *Error {
	return &Error{Status: c.Status(), Code: c, Message: message}
}

// RefuseParam is Refuse for a fault of one field of the request.
func RefuseParam(c Code, param, message string) *Error {
	return &Error{Status: c.Status(), Code: c, Param: param, Message: message}
}
