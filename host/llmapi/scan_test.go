package llmapi

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestScan_fields(t *testing.T) {
	var r Request
	body := []byte(` {"model":"qw\u0065n/Ü","messages":[{"role":"user","content":"a\"b"}], "stream" : true,
 "stream_options":{"include_usage":true},"max_tokens":10,"max_completion_tokens":20,"n":2,"user":"u",
 "prompt_logprobs":0} `)
	if err := r.Scan(OpChat, body); err != nil {
		t.Fatal(err)
	}
	if r.Model != "qwen/Ü" || !r.Stream || !r.IncludeUsage || r.MaxTokens != 20 || r.N != 2 || r.User != "u" ||
		!r.PromptLogprobs || !r.NoReuse() {
		t.Errorf("got %+v", r)
	}
	if v, ok := r.Value("messages"); !ok || string(v) != `[{"role":"user","content":"a\"b"}]` {
		t.Errorf("messages: got %q %v", v, ok)
	}
	if _, ok := r.Value("prompt"); ok {
		t.Error("prompt found")
	}
	if err := r.Scan(OpCompletions, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if r.Model != "" || r.Stream || r.MaxTokens != 0 || r.N != 1 || len(r.Members) != 0 ||
		r.NoReuse() {
		t.Errorf("left over: %+v", r)
	}
}

func TestScan_errors(t *testing.T) {
	f := func(body, code, param, at string) {
		t.Helper()
		var r Request
		err := r.Scan(OpChat, []byte(body))
		e, ok := errors.AsType[*Error](err)
		if !ok {
			t.Errorf("%.80q: got %v", body, err)
			return
		}
		if e.Status != 400 || e.Code.String() != code || e.Param != param ||
			!strings.Contains(strings.Replace(e.Message, ": expected", ".", 1), at) {
			t.Errorf("%.80q: got %+v, want %s %s %s", body, *e, code, param, at)
		}
	}
	f(``, "invalid_json", "", "empty")
	f(`[]`, "invalid_json", "", "byte 0.")
	f("\ufeff{}", "invalid_json", "", "byte 0.")
	f(`{"a":1,}`, "invalid_json", "", "byte 7.")
	f(`{"a" 1}`, "invalid_json", "", "byte 5.")
	f(`{"a":}`, "invalid_json", "", "byte 5.")
	f(`{"a":[1,]}`, "invalid_json", "", "byte 8.")
	f(`{"a":[1}}`, "invalid_json", "", "byte 7.")
	f(`{"a":01}`, "invalid_json", "", "byte 6.")
	f(`{"a":1.}`, "invalid_json", "", "byte 5.")
	f(`{"a":NaN}`, "invalid_json", "", "byte 5.")
	f(`{"a":nul}`, "invalid_json", "", "byte 5.")
	f(`{"a":"\q"}`, "invalid_json", "", "byte 6.")
	f(`{"a":"\u12g4"}`, "invalid_json", "", "byte 6.")
	f("{\"a\":\"long enough for a word\x01\"}", "invalid_json", "", "byte 28.")
	f(`{"a":"unfinished`, "invalid_json", "", "byte 16.")
	f(`{"a":{"b":[{"c":`, "invalid_json", "", "byte 16.")
	f(`{} x`, "invalid_json", "", "byte 3.")
	f(`{"a":`+strings.Repeat("[", 600)+strings.Repeat("]", 600)+`}`, "invalid_json", "", "too deep")
	f(`{"a":`+strings.Repeat("[", 3000000), "invalid_json", "", "too deep")
	f(`{`+strings.Repeat(`"a":1,`, MaxMembers)+`"a":1}`, "too_many_fields", "", "512")
	f(`{"model":"a","model":"b"}`, "duplicate_key", "model", "byte 13.")
	f(`{"model":"a","mod\u0065l":"b"}`, "duplicate_key", "model", "byte 13.")
	f(`{"cache_salt":"a","cache_salt":"b"}`, "duplicate_key", "cache_salt", "byte 18.")
	f(`{"Model":"a"}`, "invalid_key", "model", "byte 1.")
	f(`{"\u004dodel":"a"}`, "invalid_key", "model", "byte 1.")
	f("{\"meſſages\":[]}", "invalid_key", "messages", "byte 1.")
	f(`{"me\u017fsages":[]}`, "invalid_key", "messages", "byte 1.")
	f("{\"max_to\u212aens\":1}", "invalid_key", "max_tokens", "byte 1.")
	f(`{"BOOTSTRAP_host":1}`, "invalid_key", "an internal field", "byte 1.")
	f(`{"model":7}`, "invalid_type", "model", "byte 9.")
	f(`{"model":"\ud800"}`, "invalid_type", "model", "byte 9.")
	f("{\"model\":\"\xff\"}", "invalid_type", "model", "byte 9.")
	f(`{"stream":"true"}`, "invalid_type", "stream", "byte 10.")
	f(`{"max_tokens":"9"}`, "invalid_type", "max_tokens", "byte 14.")
	f(`{"max_tokens":1.5}`, "invalid_type", "max_tokens", "byte 14.")
	f(`{"max_tokens":1e999}`, "invalid_type", "max_tokens", "byte 14.")
	f(`{"stream_options":true}`, "invalid_type", "stream_options", "byte 18.")
	f(`{"stream_options":{"include_usage":1}}`, "invalid_type", "stream_options.include_usage", "byte 35.")
	f(`{"stream_options":{"include_usage":true,"include_usag\u0065":false}}`, "duplicate_key",
		"stream_options.include_usage", "byte 40.")
	f(`{"stream_options":{"Include_usage":true}}`, "invalid_key", "stream_options.include_usage", "byte 19.")
}

func TestScan_takes(t *testing.T) {
	for _, body := range []string{
		`{"x":1,"x":2}`, `{"metadata":{"model":"x"},"model":"a"}`, `{"user":"c:\\\\","model":"a"}`,
		"{\"x\":\"\xff\xfe\"}", `{"x":1e999,"y":-0.0E+1}`, `{"x":"\ud800"}`, `{"\ud800":1}`, `{"":1}`,
		"\t\r\n {\"a\" : { } , \"b\":[ ]}\n",
		`{"max_tokens":16.0}`, `{"max_tokens":-1}`,
		`{"max_tokens":null,"stream":null,"model":null,"stream_options":null,"n":null}`,
		`{"a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + `}`,
	} {
		var r Request
		if err := r.Scan(OpChat, []byte(body)); err != nil {
			t.Errorf("%.60s: %v", body, err)
		}
		if !json.Valid([]byte(body)) {
			t.Errorf("%.60s: case is not JSON", body)
		}
	}
}

func TestRoute(t *testing.T) {
	f := func(method, path string, op Operation, known bool, allow string) {
		t.Helper()
		o, k, a := Route([]byte(method), []byte(path))
		if o != op || k != known || a != allow {
			t.Errorf("%s %s: got %v %v %q", method, path, o, k, a)
		}
	}
	f("POST", "/v1/chat/completions", OpChat, true, "")
	f("POST", "/v1/chat/completions?x=1", OpChat, true, "")
	f("POST", "/v1/completions", OpCompletions, true, "")
	f("POST", "/tokenize", OpTokenize, true, "")
	f("POST", "/v1/responses", OpResponses, true, "")
	f("POST", "/v1/messages?beta=true", OpMessages, true, "")
	f("POST", "/v1/messages/count_tokens", OpCountTokens, true, "")
	f("GET", "/v1/messages", OpNone, true, "POST")
	f("GET", "/v1/models", OpModels, true, "")
	f("GET", "/v1/models/Qwen/Qwen3-8B", OpModels, true, "")
	f("GET", "/v1/chat/completions", OpNone, true, "POST")
	f("POST", "/v1/models", OpNone, true, "GET")
	f("DELETE", "/v1/models/x", OpNone, true, "GET")
	for _, p := range []string{"/", "", "/v1/models/", "/v1/modelsx", "/v1/Completions", "/v1/completions/",
		"/v1//completions", "/v1/chat/../completions", "/v1/responses/resp_1", "/v1/responses/resp_1/cancel",
		"/v1/messages/batches", "/v1/messages/", "/metrics", "/v1/load_lora_adapter", "/reset_prefix_cache"} {
		f("POST", p, OpNone, false, "")
	}
	for op := range OpCountTokens + 1 {
		if p := op.Path(); p != "" {
			f("POST", p, op, true, "")
			if !strings.Contains(Served(), p) {
				t.Errorf("%s is not named", p)
			}
		}
	}
	for path, want := range map[string]bool{"/v1/messages": true, "/v1/messages?x": true, "/v1/messages/batches": true,
		"/v1/messagesx": false, "/v1/models": false} {
		if (FamilyOf([]byte(path)) == FamilyAnthropic) != want {
			t.Errorf("FamilyOf(%s): Anthropic's is %v", path, !want)
		}
	}
	if got := string(ModelID([]byte("/v1/models/a/b?c"))); got != "a/b" {
		t.Errorf("got %q", got)
	}
}

func TestScan_responses(t *testing.T) {
	var r Request
	body := []byte(`{"model":"m","input":"x","max_output_tokens":9,"previous_response_id":"resp_\u0031","store":false,` +
		`"stream":true,"prompt":{"id":"p"},"background":false,"conversation":null}`)
	if err := r.Scan(OpResponses, body); err != nil {
		t.Fatal(err)
	}
	if r.MaxTokens != 9 || r.PreviousResponse != "resp_1" || !r.NoStore || !r.Stream {
		t.Errorf("got %+v", r)
	}
	f := func(op Operation, body, param string) {
		t.Helper()
		e, ok := errors.AsType[*Error](r.Scan(op, []byte(body)))
		if !ok || e.Status != 400 || e.Param != param || r.PreviousResponse != "" || r.NoStore {
			t.Errorf("%s: got %v", body, e)
		}
	}
	f(OpResponses, `{"background":true}`, "background")
	f(OpResponses, `{"conversation":"conv_1"}`, "conversation")
	f(OpResponses, `{"previous_response_id":7}`, "previous_response_id")
	f(OpMessages, `{"container":{"id":"c"}}`, "container")
	if err := r.Scan(OpChat, []byte(`{"background":true,"store":"yes","container":1}`)); err != nil {
		t.Errorf("chat: %v", err)
	}
}
