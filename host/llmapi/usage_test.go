package llmapi

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestParseUsage(t *testing.T) {
	body := `{"id":"x","choices":[ ],"usage":{"prompt_tokens":170,"total_tokens":172,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":128}}}`
	b := []byte(body)
	var u Usage
	if !ParseUsage(b, &u) {
		t.Fatal("not found")
	}
	if u.PromptTokens != 170 || u.CompletionTokens != 2 || u.CachedTokens != 128 || !u.HasCached || !u.ChoicesEmpty || u.ChoicesAbsent {
		t.Errorf("got %+v", u)
	}
	if got := body[u.CachedDigits.Start:u.CachedDigits.End]; got != "128" {
		t.Errorf("digits: got %q", got)
	}
	u.MaskCached(b)
	if !ParseUsage(b, &u) || u.CachedTokens != 0 || !u.HasCached || len(b) != len(body) || !json.Valid(b) {
		t.Errorf("masked: %s", b)
	}

	f := func(answer string, ok bool, want Usage) {
		t.Helper()
		var u Usage
		got := ParseUsage([]byte(answer), &u)
		u.Span, u.CachedDigits = Span{}, Span{}
		if got != ok || ok && !reflect.DeepEqual(u, want) {
			t.Errorf("%s: got %v %+v", answer, got, u)
		}
	}
	f(`{"choices":[{"delta":{"content":"\"usage\":{}"}}]}`, false, Usage{})
	f(`{"choices":[{"usage":{"prompt_tokens":1}}],"usage":null}`, false, Usage{})
	f(`{"choices":[{}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, true, Usage{PromptTokens: 1, CompletionTokens: 1})
	f(`{"usage":{"prompt_tokens":1,"prompt_tokens_details":null}}`, true, Usage{PromptTokens: 1, ChoicesAbsent: true})
	f(`{"usage":{"prompt_tokens_details":{"cached_tokens":null}}}`, true, Usage{ChoicesAbsent: true})
	f(`{"usage":{"prompt_tokens_details":{"cached_tokens":0}}}`, true, Usage{HasCached: true, ChoicesAbsent: true})
	f(`[DONE]`, false, Usage{})
	f(`{"usage":{"prompt_tokens":1}`, false, Usage{})
}

func TestAppendJSON(t *testing.T) {
	e := Error{Status: 429, Code: "rate", Message: "a \"b\"\n\x01 ü \xff"}
	var got map[string]map[string]any
	if err := json.Unmarshal(e.AppendJSON(nil), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"message": "a \"b\"\n\x01 ü \ufffd", "type": "rate_limit_error", "param": nil, "code": "rate"}
	if !reflect.DeepEqual(got["error"], want) {
		t.Errorf("got %v, want %v", got["error"], want)
	}
	for status, kind := range map[int]string{400: TypeInvalidRequest, 401: TypeAuthentication, 403: TypePermission, 404: TypeNotFound, 503: TypeServer} {
		if got := (&Error{Status: status}).kind(); got != kind {
			t.Errorf("%d: got %s, want %s", status, got, kind)
		}
	}
}

func TestAppendModels(t *testing.T) {
	got := string(AppendModels(nil, []Model{{ID: "Qwen/Q\"3", Created: 7, MaxModelLen: 4096}, {ID: "b", OwnedBy: "me", Root: "a"}}))
	want := `{"object":"list","data":[{"id":"Qwen/Q\"3","object":"model","created":7,"owned_by":"kvasir","max_model_len":4096},` +
		`{"id":"b","object":"model","created":0,"owned_by":"me","root":"a"}]}`
	if got != want {
		t.Errorf("got %s", got)
	}
	if got := string(AppendModels(nil, nil)); got != `{"object":"list","data":[]}` {
		t.Errorf("got %s", got)
	}
}
