package llmapi

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestParseUsage(t *testing.T) {
	body := `{"id":"x","choices":[ ],"usage":{"prompt_tokens":170,"total_tokens":172,"completion_tokens":2,` +
		`"prompt_tokens_details":{"cached_tokens":128}}}`
	b := []byte(body)
	var u Usage
	if !ParseUsage(b, &u) {
		t.Fatal("not found")
	}
	if got := body[u.Span.Start:u.Span.End]; got[0] != '{' || got != body[len(body)-len(got)-1:len(body)-1] {
		t.Errorf("span: got %s", got)
	}
	if u.PromptTokens != 170 || u.CompletionTokens != 2 || u.CachedTokens != 128 || !u.HasCached || !u.ChoicesEmpty {
		t.Errorf("got %+v", u)
	}
	f := func(answer string, ok bool, want Usage) {
		t.Helper()
		var u Usage
		got := ParseUsage([]byte(answer), &u)
		u.Span = Span{}
		if got != ok || ok && !reflect.DeepEqual(u, want) {
			t.Errorf("%s: got %v %+v", answer, got, u)
		}
	}
	f(`{"choices":[{"delta":{"content":"\"usage\":{}"}}]}`, false, Usage{})
	f(`{"choices":[{"usage":{"prompt_tokens":1}}],"usage":null}`, false, Usage{})
	f(`{"choices":[{}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, true,
		Usage{PromptTokens: 1, CompletionTokens: 1, HasPrompt: true, Counts: true})
	f(`{"usage":{"prompt_tokens":1,"prompt_tokens_details":null}}`, true,
		Usage{PromptTokens: 1, HasPrompt: true, Counts: true})
	f(`{"usage":{"prompt_tokens_details":{"cached_tokens":null}}}`, true, Usage{})
	f(`{"usage":{"prompt_tokens_details":{"cached_tokens":0}}}`, true,
		Usage{HasCached: true, Counts: true})
	f(`[DONE]`, false, Usage{})
	// Responses.
	f(`{"usage":{"input_tokens":170,"input_tokens_details":{"cached_tokens":128,"cached_tokens_per_turn":[128]},`+
		`"output_tokens":2,"total_tokens":172}}`, true,
		Usage{PromptTokens: 170, CompletionTokens: 2, CachedTokens: 128, HasPrompt: true, Counts: true, HasCached: true})
	// Anthropic: input_tokens is what was neither read from the cache nor put there by this request.
	f(`{"usage":{"input_tokens":42,"cache_read_input_tokens":128,"output_tokens":2}}`, true,
		Usage{PromptTokens: 170, CompletionTokens: 2, CachedTokens: 128, HasPrompt: true, Counts: true, HasCached: true})
	f(`{"usage":{"cache_creation_input_tokens":10,"cache_read_input_tokens":0,"input_tokens":5,"output_tokens":1}}`, true,
		Usage{PromptTokens: 15, CompletionTokens: 1, HasPrompt: true, Counts: true, HasCached: true})
	f(`{"usage":{"output_tokens":7}}`, true, Usage{CompletionTokens: 7, Counts: true})
	f(`{"usage":{"type":"object","properties":{}}}`, true, Usage{})
	f(`{"usage":{"prompt_tokens":1}`, false, Usage{})
}

func TestUsage_merge(t *testing.T) {
	start, end := Usage{}, Usage{}
	if !ParseUsage([]byte(`{"usage":{"input_tokens":42,"cache_read_input_tokens":128,"output_tokens":1}}`), &start) ||
		!ParseUsage([]byte(`{"usage":{"output_tokens":9}}`), &end) {
		t.Fatal("not found")
	}
	end.Merge(&start)
	if end.PromptTokens != 170 || end.CachedTokens != 128 || !end.HasCached || end.CompletionTokens != 9 {
		t.Errorf("got %+v", end)
	}
	whole := Usage{PromptTokens: 5, HasPrompt: true, Counts: true, CompletionTokens: 3}
	if whole.Merge(&start); whole.PromptTokens != 5 || whole.HasCached {
		t.Errorf("got %+v", whole)
	}
}

func TestAnswerID(t *testing.T) {
	for in, want := range map[string]string{
		`{"id":"resp_1","created_at":1}`:                                         "resp_1",
		"event: response.created\ndata: {\"response\":{\"id\": \"resp_2\",\"obj": "resp_2",
		`{"object":"id","id" : "resp_3"`:                                         "resp_3",
		`{"id":"resp_`:                                                           "",
		`{"id`:                                                                   "",
		`{"id":7,"x":{"id":"b"}}`:                                                "b",
		`{"id":"a\"b"}`:                                                          "",
		`{"id":""}`:                                                              "",
		"":                                                                       "",
	} {
		if got := AnswerID([]byte(in)); got != want {
			t.Errorf("%s: got %q", in, got)
		}
	}
}

func TestAppendAnthropic(t *testing.T) {
	e := Error{Status: 429, Code: CodeRateLimit, Message: "a \"b\""}
	if got, want := string(e.AppendAnthropic(nil, "r1")),
		`{"type":"error","error":{"type":"rate_limit_error","message":"a \"b\""},"request_id":"r1"}`; got != want {
		t.Errorf("got %s", got)
	}
	for status, kind := range map[int]string{400: "invalid_request_error", 401: "authentication_error",
		403: "permission_error", 404: "not_found_error",
		405: "invalid_request_error", 408: "timeout_error", 413: "request_too_large", 500: "api_error", 502: "api_error",
		503: "overloaded_error", 504: "timeout_error"} {
		if got := (&Error{Status: status}).anthropicKind(); got != kind {
			t.Errorf("%d: got %s, want %s", status, got, kind)
		}
	}
}

func TestAppendEvent(t *testing.T) {
	e := Error{Status: 502, Code: CodeUpstream, CodeText: "upstream_died", Message: "m"}
	f := func(op Operation, want string) {
		t.Helper()
		if got := string(e.AppendEvent(nil, op, 7, "")); got != want {
			t.Errorf("%v: got %q", op, got)
		}
	}
	f(OpChat, "data: "+string(e.AppendJSON(nil))+"\n\n")
	f(OpResponses, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":7,\"code\":\"upstream_died\","+
		"\"message\":\"m\",\"param\":null}\n\n")
	f(OpMessages, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"m\"}}\n\n")
}

func TestAppendJSON(t *testing.T) {
	e := Error{Status: 429, CodeText: "rate", Message: "a \"b\"\n\x01 ü \xff"}
	var got map[string]map[string]any
	if err := json.Unmarshal(e.AppendJSON(nil), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"message": "a \"b\"\n\x01 ü \ufffd", "type": "rate_limit_error", "param": nil, "code": "rate"}
	if !reflect.DeepEqual(got["error"], want) {
		t.Errorf("got %v, want %v", got["error"], want)
	}
	for status, kind := range map[int]string{400: TypeInvalidRequest, 401: TypeAuthentication, 403: TypePermission,
		404: TypeNotFound, 503: TypeServer} {
		if got := (&Error{Status: status}).kind(); got != kind {
			t.Errorf("%d: got %s, want %s", status, got, kind)
		}
	}
}

func TestAppendModels(t *testing.T) {
	got := string(AppendModels(nil, []Model{{ID: "Qwen/Q\"3", Created: 7, MaxModelLen: 4096},
		{ID: "b", Root: "a"}}))
	want := `{"object":"list","data":[{"id":"Qwen/Q\"3","object":"model","created":7,"owned_by":"kvasir",` +
		`"max_model_len":4096},` +
		`{"id":"b","object":"model","created":0,"owned_by":"kvasir","root":"a"}]}`
	if got != want {
		t.Errorf("got %s", got)
	}
	if got := string(AppendModels(nil, nil)); got != `{"object":"list","data":[]}` {
		t.Errorf("got %s", got)
	}
}
