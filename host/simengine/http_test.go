package simengine

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const hello = `{"model":"demo","messages":[{"role":"system","content":"you are aaa bba cca dda eea"},{"role":"user",` +
	`"content":"hello"}],"max_tokens":12,"ignore_eos":true}`

// with adds members to a JSON object.
func with(body, members string) string { return strings.TrimSuffix(body, "}") + "," + members + "}" }

func TestChat_whole(t *testing.T) {
	r := run(t, nil)
	prompt, err := r.toy.ChatTokens([]byte(hello), chatPath)
	if err != nil {
		t.Fatal(err)
	}
	c := r.mustPost("/v1/chat/completions", hello)
	if c.Object != "chat.completion" || c.Model != "demo" || !strings.HasPrefix(c.ID, "chatcmpl-") || len(c.Choices) != 1 {
		t.Fatalf("%+v", c)
	}
	ch := c.Choices[0]
	if ch.Message == nil || ch.Message.Role != "assistant" || *ch.FinishReason != "length" {
		t.Fatalf("%+v", ch)
	}
	if n := len(strings.Fields(ch.Message.Content)); n != 12 {
		t.Fatalf("answer %q of %d words", ch.Message.Content, n)
	}
	u := c.Usage
	if u.PromptTokens != len(prompt) || u.CompletionTokens != 12 || u.TotalTokens != len(prompt)+12 ||
		u.Details.CachedTokens != 0 {
		t.Fatalf("usage %+v", u)
	}
	again := r.mustPost("/v1/chat/completions", hello)
	if got, want := again.Usage.Details.CachedTokens, (len(prompt)-1)/4*4; got != want {
		t.Fatalf("again: %d cached, want %d", got, want)
	}
	if again.Choices[0].Message.Content != ch.Message.Content {
		t.Fatal("the answer is not deterministic")
	}
}

// TestChat_turns checks that an answer sent back is found in the cache.
func TestChat_turns(t *testing.T) {
	r := run(t, nil)
	type msg struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	messages := []msg{{"user", "tell me"}}
	for turn := range 6 {
		body, _ := json.Marshal(map[string]any{"messages": messages})
		c := r.mustPost("/v1/chat/completions", string(body))
		if turn > 0 {
			// Everything up to the last answer's computed tokens was seen.
			before, err := r.toy.ChatTokens(fmt.Appendf(nil, `{"messages":%s}`, mustJSON(messages[:len(messages)-2])), chatPath)
			if err != nil {
				t.Fatal(err)
			}
			words := len(strings.Fields(messages[len(messages)-2].Content))
			if got, want := c.Usage.Details.CachedTokens, (len(before)+words-1)/4*4; got != want {
				t.Fatalf("turn %d: %d cached, want %d", turn, got, want)
			}
		}
		messages = append(messages, msg{"assistant", c.Choices[0].Message.Content}, msg{"user", fmt.Sprint("go on ", turn)})
	}
}

func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func TestChat_stream(t *testing.T) {
	r := run(t, nil)
	want := r.mustPost("/v1/chat/completions", hello)
	res, err := http.Post(r.url+"/v1/chat/completions", "application/json; charset=utf-8",
		strings.NewReader(with(hello, `"stream":true,"stream_options":{"include_usage":true}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Fatalf("content type %q", got)
	}
	events := sse(t, res.Body)
	if len(events) != 1+12+1+1 || events[len(events)-1] != "[DONE]" {
		t.Fatalf("%d events, last %s", len(events), events[len(events)-1])
	}
	var text strings.Builder
	for i, raw := range events[:len(events)-1] {
		var c completion
		if err := json.Unmarshal([]byte(raw), &c); err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 13:
			if c.Choices == nil || len(c.Choices) != 0 || c.Usage == nil || c.Usage.CompletionTokens != 12 ||
				c.Usage.Details.CachedTokens == 0 {
				t.Fatalf("usage event %s", raw)
			}
			continue
		case c.Usage != nil || len(c.Choices) != 1 || c.Object != "chat.completion.chunk":
			t.Fatalf("event %s", raw)
		case i == 0 && c.Choices[0].Delta.Role != "assistant":
			t.Fatalf("first event %s", raw)
		case (i == 12) != (c.Choices[0].FinishReason != nil):
			t.Fatalf("event %d: %s", i, raw)
		}
		text.WriteString(c.Choices[0].Delta.Content)
	}
	if text.String() != want.Choices[0].Message.Content {
		t.Fatalf("streamed %q, want %q", text.String(), want.Choices[0].Message.Content)
	}
}

// TestStream_continuousUsage puts the account so far into every event.
func TestStream_continuousUsage(t *testing.T) {
	r := run(t, nil)
	_, out := r.post("/v1/chat/completions", with(hello,
		`"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`))
	events := sse(t, strings.NewReader(out))
	for i, raw := range events[1 : len(events)-2] {
		var c completion
		if err := json.Unmarshal([]byte(raw), &c); err != nil {
			t.Fatal(err)
		}
		if c.Usage == nil || c.Usage.CompletionTokens != i+1 {
			t.Fatalf("event %d: %s", i, raw)
		}
	}
}

func TestCompletions(t *testing.T) {
	r := run(t, nil)
	text := r.mustPost("/v1/completions", `{"prompt":"once upon a time","max_tokens":5}`)
	ids, _ := r.toy.TextTokens("once upon a time")
	same := r.mustPost("/v1/completions", string(mustJSON(map[string]any{"prompt": ids, "max_tokens": 5})))
	if *text.Choices[0].Text != *same.Choices[0].Text || same.Usage.Details.CachedTokens != (len(ids)-1)/4*4 {
		t.Fatalf("text %+v, ids %+v", text.Usage, same.Usage)
	}
	if !strings.HasPrefix(*text.Choices[0].Text, " ") || text.Object != "text_completion" || !strings.HasPrefix(text.ID,
		"cmpl-") {
		t.Fatalf("%+v", text)
	}
	two := r.mustPost("/v1/completions", string(mustJSON(map[string]any{"prompt": []any{ids, ids[:9]}, "max_tokens": 5})))
	if len(two.Choices) != 2 || two.Choices[1].Index != 1 || two.Usage.PromptTokens != len(ids)+9 ||
		two.Usage.Details.CachedTokens != (len(ids)-1)/4*4+8 || two.Usage.CompletionTokens != 10 {
		t.Fatalf("%+v", two.Usage)
	}
	list := r.mustPost("/v1/completions", `{"prompt":["once upon a time"],"max_tokens":5}`)
	if *list.Choices[0].Text != *text.Choices[0].Text {
		t.Fatal("a list of one text is another prompt")
	}
	// The continuation of a text is found in the cache.
	next := r.mustPost("/v1/completions",
		string(mustJSON(map[string]any{"prompt": "once upon a time" + *text.Choices[0].Text + " x", "max_tokens": 1})))
	if got, want := next.Usage.Details.CachedTokens, (len(ids)+5-1)/4*4; got != want {
		t.Fatalf("continuation: %d cached, want %d", got, want)
	}
	status, out := r.post("/v1/completions", `{"prompt":"once upon a time","max_tokens":3,"stream":true}`)
	if events := sse(t, strings.NewReader(out)); status != 200 || len(events) != 4 || events[3] != "[DONE]" {
		t.Fatalf("%d %s", status, out)
	}
}

// TestReuse_off: what asks for logprobs of the prompt reads no cache.
func TestReuse_off(t *testing.T) {
	r := run(t, nil)
	r.mustPost("/v1/chat/completions", hello)
	if c := r.mustPost("/v1/chat/completions", with(hello, `"prompt_logprobs":1`)); c.Usage.Details.CachedTokens != 0 {
		t.Fatalf("%+v", c.Usage.Details)
	}
}

// TestNamespaces: salts and adapters do not share blocks.
func TestNamespaces(t *testing.T) {
	r := run(t, func(c *Config) { c.Adapters = []string{"tuned"} })
	for _, body := range []string{hello, with(hello, `"cache_salt":"one"`), with(hello, `"cache_salt":"two"`),
		strings.Replace(hello, `"demo"`, `"tuned"`, 1), with(strings.Replace(hello, `"demo"`, `"tuned"`, 1),
			`"cache_salt":"one"`)} {
		if c := r.mustPost("/v1/chat/completions", body); c.Usage.Details.CachedTokens != 0 {
			t.Errorf("first of %s: %+v", body, c.Usage.Details)
		}
		if c := r.mustPost("/v1/chat/completions", body); c.Usage.Details.CachedTokens == 0 {
			t.Errorf("second of %s: nothing cached", body)
		}
	}
}

func TestErrors(t *testing.T) {
	r := run(t, func(c *Config) { c.MaxModelLen = 64 })
	f := func(method, path, body string, status int, kind, message string) {
		t.Helper()
		got, out := r.do(method, path, body)
		var e struct {
			Error struct {
				Message, Type string
				Code          int
			}
		}
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Errorf("%s %s: %d %s", method, path, got, out)
			return
		}
		if got != status || e.Error.Code != status || e.Error.Type != kind || !strings.Contains(e.Error.Message, message) {
			t.Errorf("%s %s %s: %d %s", method, path, body, got, out)
		}
	}
	chat := "/v1/chat/completions"
	f("POST", chat, strings.Replace(hello, "demo", "other", 1), 404, "NotFoundError", "The model `other` does not exist.")
	f("POST", chat, `{"messages":`, 400, "Bad Request", "json_invalid")
	f("POST", chat, `[1]`, 400, "Bad Request", "")
	f("POST", chat, `null`, 400, "Bad Request", "")
	f("POST", chat, `{}`, 400, "Bad Request", "messages")
	f("POST", chat, `{"messages":3}`, 400, "BadRequestError", "messages")
	f("POST", chat, with(hello, `"stream":"yes"`), 400, "Bad Request", "stream")
	f("POST", chat, with(hello, `"max_tokens":0`), 400, "BadRequestError", "max_tokens")
	f("POST", chat, with(hello, `"max_tokens":63`), 400, "BadRequestError", "maximum context length is 64 tokens")
	f("POST", chat, strings.Replace(hello, "hello", strings.Repeat("x", 64), 1), 400, "BadRequestError",
		"exceeds this limit")
	f("POST", chat, with(hello, `"n":2`), 400, "BadRequestError", "")
	f("POST", chat, with(hello, `"cache_salt":""`), 400, "BadRequestError", "cache_salt")
	f("POST", chat, with(hello, `"stream_options":{"include_usage":true}`), 400, "BadRequestError", "Stream options")
	f("POST", "/v1/completions", `{"max_tokens":1}`, 400, "BadRequestError", "prompt")
	f("POST", "/v1/completions", `{"prompt":[]}`, 400, "BadRequestError", "prompt")
	f("POST", "/v1/completions", `{"prompt":""}`, 400, "BadRequestError", "prompt")
	f("POST", "/v1/completions", `{"prompt":[1,"a"]}`, 400, "BadRequestError", "prompt")
	f("POST", "/v1/completions", `{"prompt":[99999999]}`, 400, "BadRequestError", "out of vocabulary")
	f("POST", "/tokenize", `{}`, 400, "Bad Request", "prompt")
	f("POST", "/v1/embeddings", `{}`, 404, "Not Found", "")
	f("GET", chat, "", 405, "Method Not Allowed", "")
	f("DELETE", "/v1/models", "", 405, "Method Not Allowed", "")
	// The last of duplicate members wins; a name in other case is another one.
	r.mustPost(chat, with(strings.Replace(hello, "demo", "other", 1), `"model":"demo"`))
	r.mustPost(chat, with(hello, `"Model":"other"`))
}

func TestTokenize(t *testing.T) {
	r := run(t, nil)
	f := func(body string, want []uint32) {
		t.Helper()
		status, out := r.post("/tokenize", body)
		var got struct {
			Count  int
			Max    int `json:"max_model_len"`
			Tokens []uint32
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || status != 200 {
			t.Fatalf("%d %s", status, out)
		}
		if !slices.Equal(got.Tokens, want) || got.Count != len(want) || got.Max != 32768 {
			t.Errorf("%s: %s", body, out)
		}
	}
	chat, _ := r.toy.ChatTokens([]byte(hello), chatPath)
	f(hello, chat)
	text, _ := r.toy.TextTokens("a text")
	f(`{"prompt":"a text"}`, text)
	f(`{"prompt":"a text","add_special_tokens":false}`, text)
	f(`{"prompt":""}`, []uint32{})
}

func TestSideRoutes(t *testing.T) {
	r := run(t, func(c *Config) { c.Adapters = []string{"tuned"}; c.MaxModelLen = 4096 })
	f := func(path string, want ...string) {
		t.Helper()
		status, out := r.do("GET", path, "")
		if status != 200 {
			t.Errorf("%s: %d", path, status)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %s in %s", path, w, out)
			}
		}
	}
	f("/health")
	f("/version", `"version":"0.32.0"`)
	f("/v1/models", `"id":"demo"`, `"max_model_len":4096`, `"id":"tuned"`, `"parent":"demo"`)
	f("/kv_event_sources", `"endpoint":"tcp://`+r.pub+`"`, `"replay_endpoint":"tcp://`+r.replay+`"`, `"topic":"kv"`)
	f("/sim/cache", `"blocks":0`, `"block_tokens":4`)
	r.mustPost("/v1/chat/completions", hello)
	r.mustPost("/v1/chat/completions", hello)
	prompt, _ := r.toy.ChatTokens([]byte(hello), chatPath)
	hits := float64((len(prompt) - 1) / 4 * 4)
	for name, want := range map[string]float64{
		`vllm:prefix_cache_queries_total{engine="0",model_name="demo"}`:                        float64(2 * len(prompt)),
		`vllm:prefix_cache_hits_total{`:                                                        hits,
		`vllm:request_success_total{engine="0",model_name="demo",finished_reason="length"}`:    2,
		`vllm:num_requests_running{`:                                                           0,
		`vllm:num_requests_waiting{`:                                                           0,
		`vllm:kv_cache_usage_perc{`:                                                            0,
		`vllm:generation_tokens_total{`:                                                        24,
		`vllm:cache_config_info{engine="0",model_name="demo",block_size="4",enable_prefix_cac`: 1,
	} {
		if got := r.metric(name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if r.metric("process_start_time_seconds") < 1e9 {
		t.Error("no start time")
	}
	f("/sim/cache?hashes=1", `"hashes":[`)
}

func TestReset(t *testing.T) {
	r := run(t, nil)
	r.mustPost("/v1/chat/completions", hello)
	if status, _ := r.post("/reset_prefix_cache", ""); status != 200 {
		t.Fatal(status)
	}
	if c := r.mustPost("/v1/chat/completions", hello); c.Usage.Details.CachedTokens != 0 {
		t.Fatal("still cached")
	}
}

// TestRequests: what was received is kept byte for byte.
func TestRequests(t *testing.T) {
	r := run(t, nil)
	head := "POST /v1/chat/completions?x=1 HTTP/1.1\r\nhost: a\r\nX-Request-Id: my-id\r\nX-ODD:  two  spaces \r\n" +
		"Content-Type: application/json\r\n"
	whole := head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(hello))
	_, br := r.raw(whole + hello)
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	chunked := head + "Transfer-Encoding: chunked\r\n\r\n"
	body := fmt.Sprintf("%x\r\n%s\r\n%x;ext=1\r\n%s\r\n0\r\nTrailer: 1\r\n\r\n", 10, hello[:10], len(hello)-10, hello[10:])
	_, br = r.raw(chunked + body)
	if res, err = http.ReadResponse(br, nil); err != nil || res.StatusCode != 200 {
		t.Fatal(err, res)
	}
	io.Copy(io.Discard, res.Body)
	var recs []record
	until(t, "both requests ended", func() bool {
		recs = r.records()
		return len(recs) == 2 && recs[0].EndMS != nil && recs[1].EndMS != nil
	})
	for i, want := range []string{whole, chunked} {
		rec := recs[i]
		if string(rec.Head) != want || string(rec.Body) != hello || rec.ID != "my-id" || rec.Path != "/v1/chat/completions" {
			t.Errorf("record %d: %q", i, rec.Head)
		}
		if rec.Aborted || rec.FirstByteMS == nil || *rec.FirstByteMS < rec.ReceivedMS || *rec.EndMS < *rec.FirstByteMS ||
			rec.PromptTokens == 0 {
			t.Errorf("record %d: %+v", i, rec)
		}
	}
	if recs[1].CachedTokens == 0 {
		t.Error("no cached tokens recorded")
	}
	r.do("DELETE", "/sim/requests", "")
	if n := len(r.records()); n != 0 {
		t.Errorf("%d records after clearing", n)
	}
}

func TestRequests_bounded(t *testing.T) {
	r := run(t, func(c *Config) { c.KeepRequests = 3; c.KeepBytes = 2000 })
	for range 5 {
		r.post("/v1/chat/completions", `{"messages":3}`)
	}
	if n := len(r.records()); n != 3 {
		t.Errorf("%d records kept of 3", n)
	}
	r.post("/v1/chat/completions", `{"messages":"`+strings.Repeat("x", 1800)+`"}`)
	if n := len(r.records()); n > 1 {
		t.Errorf("%d records kept in 2000 bytes", n)
	}
}

// TestConnection: keep-alive, pipelining, 100-continue and what is refused.
func TestConnection(t *testing.T) {
	r := run(t, func(c *Config) { c.MaxBodyBytes = 1000 })
	one := postBytes("/v1/chat/completions", hello)
	_, br := r.raw(one + one + "\r\nGET /health HTTP/1.1\r\nhost: x\r\n\r\n" +
		"POST /v1/chat/completions HTTP/1.1\r\nexpect: 100-continue\r\nconnection: close\r\n" +
		"content-type: application/json\r\n" +
		fmt.Sprintf("content-length: %d\r\n\r\n%s", len(hello), hello))
	for i := range 5 {
		res, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(i, err)
		}
		if want := map[bool]int{true: 100, false: 200}[i == 3]; res.StatusCode != want {
			t.Fatalf("answer %d: %s", i, res.Status)
		}
		io.Copy(io.Discard, res.Body)
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Fatalf("after close: %v", err)
	}
	f := func(head string, status int) {
		t.Helper()
		_, br := r.raw(head)
		res, err := http.ReadResponse(br, nil)
		if err != nil || res.StatusCode != status {
			t.Errorf("%q: %v %v", head, res, err)
			return
		}
		io.Copy(io.Discard, res.Body)
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%q: connection stays open", head)
		}
	}
	f("GARBAGE\r\n\r\n", 400)
	f("POST http://x/ HTTP/1.1\r\n\r\n", 400)
	f("POST /tokenize HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", 400)
	f("POST /tokenize HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400)
	f("POST /tokenize HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400)
	f("POST /tokenize HTTP/1.1\r\ncontent-length: 1001\r\n\r\n", 413)
	f("POST /tokenize HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", 501)
	f("GET /health HTTP/1.1\r\nx: "+strings.Repeat("y", maxHeadBytes)+"\r\n\r\n", 431)
	f("GET /health HTTP/1.0\r\n\r\n", 200)
}
