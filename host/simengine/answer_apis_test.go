package simengine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// apiEvent is one event of a stream with names.
type apiEvent struct {
	name string
	data map[string]any
}

func apiEvents(t *testing.T, body string) (events []apiEvent) {
	t.Helper()
	for e := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(e, "\ndata: ")
		name, named := strings.CutPrefix(name, "event: ")
		var m map[string]any
		if err := json.Unmarshal([]byte(data), &m); !ok || !named || err != nil || m["type"] != name {
			t.Fatalf("event %q: %v", e, err)
		}
		events = append(events, apiEvent{name, m})
	}
	return events
}

func names(events []apiEvent) (out []string) {
	for _, e := range events {
		if len(out) == 0 || out[len(out)-1] != e.name {
			out = append(out, e.name)
		}
	}
	return out
}

const helloItems = `{"model":"demo","input":[{"role":"user","content":"you are aaa bba cca dda eea"}],` +
	`"max_output_tokens":12,"ignore_eos":true,"tools":[{"type":"function","name":"f"}]}`

// TestResponses: the events of a stream follow vLLM's, number by number, and end
// with the answer that comes whole without a stream.
func TestResponses(t *testing.T) {
	r := run(t, nil)
	prompt, err := r.toy.ChatTokens([]byte(helloItems), responsesPath)
	if err != nil {
		t.Fatal(err)
	}
	status, out := r.post(responsesPath, helloItems)
	var whole response
	if err := json.Unmarshal([]byte(out), &whole); err != nil || status != 200 {
		t.Fatalf("%d %v %s", status, err, out)
	}
	u := whole.Usage
	if !strings.HasPrefix(out, `{"id":"resp_`) || whole.Status != "incomplete" || u.InputTokens != len(prompt) ||
		u.OutputTokens != 12 || u.InputDetails.CachedTokens != 0 {
		t.Fatalf("%s", out)
	}
	_, out = r.post(responsesPath, with(helloItems, `"stream":true`))
	events := apiEvents(t, out)
	want := []string{"response.created", "response.in_progress", "response.output_item.added",
		"response.content_part.added", "response.output_text.delta",
		"response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"}
	if got := names(events); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var text string
	for i, e := range events {
		if e.data["sequence_number"] != float64(i) {
			t.Errorf("event %d has number %v", i, e.data["sequence_number"])
		}
		if d, ok := e.data["delta"].(string); ok {
			text += d
		}
	}
	last := events[len(events)-1].data["response"].(map[string]any)
	usage := last["usage"].(map[string]any)
	if cached := usage["input_tokens_details"].(map[string]any)["cached_tokens"]; cached != float64((len(prompt)-1)/4*4) {
		t.Errorf("%v cached of %d", cached, len(prompt))
	}
	if content := whole.Output[0]["content"].([]any)[0].(map[string]any)["text"]; content != text || text == "" {
		t.Errorf("%q, streamed %q", content, text)
	}
}

// TestMessages_answers: the same of Anthropic's API, which reports the tokens that
// were read from the cache apart.
func TestMessages_answers(t *testing.T) {
	r := run(t, nil)
	prompt, err := r.toy.ChatTokens([]byte(hello), messagesPath)
	if err != nil {
		t.Fatal(err)
	}
	status, out := r.post(messagesPath, hello)
	want := fmt.Sprintf(`"stop_reason":"max_tokens","usage":{"input_tokens":%d,"output_tokens":12,`+
		`"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`, len(prompt))
	if status != 200 || !strings.HasPrefix(out, `{"id":"chatcmpl-`) || !strings.HasSuffix(out, want) {
		t.Errorf("%d %s", status, out)
	}
	_, out = r.post(messagesPath, with(hello, `"stream":true`))
	events := apiEvents(t, out)
	if got := names(events); !slices.Equal(got, []string{"message_start", "content_block_start", "content_block_delta",
		"content_block_stop", "message_delta", "message_stop"}) {
		t.Errorf("%q", got)
	}
	cached := (len(prompt) - 1) / 4 * 4
	usage := events[len(events)-2].data["usage"].(map[string]any)
	if usage["input_tokens"] != float64(len(prompt)-cached) || usage["cache_read_input_tokens"] != float64(cached) ||
		usage["output_tokens"] != 12.0 {
		t.Errorf("%v of %d", usage, len(prompt))
	}
	if _, out = r.post(countPath,
		hello); out != fmt.Sprintf(`{"context_management":{"original_input_tokens":%[1]d},"input_tokens":%[1]d}`,
		len(prompt)) {
		t.Errorf("%s", out)
	}
}

// TestAPIs_salts: each API honours the salt.
func TestAPIs_salts(t *testing.T) {
	r := run(t, nil)
	for path, body := range map[string]string{responsesPath: helloItems, messagesPath: hello, chatPath: hello} {
		for salt, want := range map[string]bool{path + "a": true, path + "b": false} {
			for range 2 {
				if status, out := r.post(path, with(body, `"cache_salt":"`+salt+`"`)); status != 200 {
					t.Fatalf("%d %s", status, out)
				}
				if !want {
					break
				}
			}
			got := r.records()
			if cached := got[len(got)-1].CachedTokens; (cached > 0) != want {
				t.Errorf("%s, %s: %d cached", path, salt, cached)
			}
		}
	}
}

func TestAPIs_refusals(t *testing.T) {
	r := run(t, nil)
	for _, tc := range []struct {
		path, body string
		status     int
		want       string
	}{
		{responsesPath, `{"input":"x","previous_response_id":"resp_9"}`, 404,
			`{"error":{"message":"Response with id 'resp_9' not found."`},
		{responsesPath, `{}`, 400, `"error":{"message":`},
		{messagesPath, `{"messages":[]}`, 400, `{"error":{"message":`},
		{messagesPath, `{"model":"nope","messages":[{"role":"user","content":"x"}],"max_tokens":3}`, 404,
			`{"error":{"message":"The model`},
		{countPath, `{"model":"nope"}`, 404, `"type":"error"`},
	} {
		status, out := r.post(tc.path, tc.body)
		if status != tc.status || !strings.Contains(out, tc.want) && !strings.Contains(out,
			`"type":"NotFoundError"},"type":"error"`) {
			t.Errorf("%s %s: %d %s", tc.path, tc.body, status, out)
		}
	}
	r.faultsSet(`{"die":-1,"die_after_events":4}`)
	for path, body := range map[string]string{responsesPath: helloItems, messagesPath: hello} {
		c, br := r.raw(postBytes(path, with(body, `"stream":true`)))
		var got strings.Builder
		if _, err := br.WriteTo(&got); err != nil || strings.Count(got.String(), "event: ") != 4 {
			t.Errorf("%s: %v, %q", path, err, got.String())
		}
		c.Close()
	}
}
