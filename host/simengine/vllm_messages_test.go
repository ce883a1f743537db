package simengine

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/kvasir-router/kvasir/host/tokenizer/jinja"
)

// TestMessages_vllm compares with what vLLM's own functions made of the
// same messages and tools (gen_vllm.py beside the data).
func TestMessages_vllm(t *testing.T) {
	raw, err := os.ReadFile("../tokenizer/chat/testdata/vllm_messages.json")
	if err != nil {
		t.Fatal(err)
	}
	type sample struct {
		Name, Format    string
		Chat, Developer bool
		In, Out         json.RawMessage
	}
	var data struct{ Messages, Tools []sample }
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	check := func(s *sample, normal func(jinja.Value) (jinja.Value, error)) {
		t.Helper()
		in, err := jinja.DecodeJSON(s.In, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := normal(in)
		if refused := bytes.HasPrefix(s.Out, []byte(`"refused`)); refused || err != nil {
			if (err != nil) != refused {
				t.Errorf("%s (%s): error %v, want %s", s.Name, s.Format, err, s.Out)
			}
			return
		}
		want, err := jinja.DecodeJSON(s.Out, nil)
		if err != nil {
			t.Fatal(err)
		}
		if g, w := toJSON(t, got), toJSON(t, want); !bytes.Equal(g, w) {
			t.Errorf("%s (%s):\ngot  %s\nwant %s", s.Name, s.Format, g, w)
		}
	}
	for i := range data.Messages {
		s := &data.Messages[i]
		check(s, messageForm{parts: s.Format == "openai", developer: s.Developer, rename: s.Chat}.messages)
	}
	for i := range data.Tools {
		check(&data.Tools[i], normalTools)
	}
	if len(data.Messages) < 50 || len(data.Tools) < 3 {
		t.Errorf("only %d messages and %d tools", len(data.Messages), len(data.Tools))
	}
}

func toJSON(t *testing.T, v jinja.Value) []byte {
	t.Helper()
	tpl, err := jinja.Compile("{{ v | tojson }}", jinja.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out jinja.Output
	if err := tpl.Render(map[string]jinja.Value{"v": v}, time.Now(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Append(nil)
}

// TestAPIs_vllm compares with what vLLM's own code made of bodies of the
// responses and of Anthropic's API (gen_vllm_apis.py beside the data).
func TestAPIs_vllm(t *testing.T) {
	raw, err := os.ReadFile("../tokenizer/chat/testdata/vllm_apis.json")
	if err != nil {
		t.Fatal(err)
	}
	var data []struct {
		Name, API, Format string
		Merge, Developer  bool
		In, Out           json.RawMessage
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	// The simulated engine has no media, no clock in ids, no tools that change.
	unlike := map[string]bool{"image": true, "result image": true, "output image": true, "result list of assistant": true,
		"use without id": true, "addition": true, "tools namespace": true}
	compared := 0
	for _, s := range data {
		in, err := jinja.DecodeJSON(s.In, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := convert(in.Dict(), s.API, s.Format == "openai", s.Merge, s.Developer || s.API == "messages")
		if refused := s.Out[0] == '"'; refused || err != nil || unlike[s.Name] {
			if (err != nil) != refused && !unlike[s.Name] {
				t.Errorf("%s (%s): error %v, want %s", s.Name, s.Format, err, s.Out)
			}
			continue
		}
		want, err := jinja.DecodeJSON(s.Out, nil)
		if err != nil {
			t.Fatal(err)
		}
		compared++
		if g, w := toJSON(t, got), toJSON(t, want); !bytes.Equal(g, w) {
			t.Errorf("%s (%s, merge %v):\ngot  %s\nwant %s", s.Name, s.Format, s.Merge, g, w)
		}
	}
	if compared < 185 {
		t.Errorf("only %d bodies", compared)
	}
}

func convert(body *jinja.Dict, api string, parts, merge, developer bool) (jinja.Value, error) {
	c, err := anthropicChat(body, merge, "none")
	if api == "responses" {
		c, err = responsesChat(body)
	}
	if err != nil {
		return jinja.None, err
	}
	messages, err := messageForm{parts: parts, developer: developer, converted: true}.messages(member(c, "messages"))
	if err != nil {
		return messages, err
	}
	tools, err := normalTools(member(c, "tools"))
	out := object("messages", messages, "tools", tools, "effort", member(c, "reasoning_effort"))
	if api == "responses" {
		out.Dict().Set("continue", member(c, "continue_final_message"))
	}
	return out, err
}
