package model

import (
	"slices"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

func open(t *testing.T) *Model {
	t.Helper()
	m, err := Open(demo.Files())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func text(m *Model, ids []uint32) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(m.Token(id))
	}
	return b.String()
}

func TestChatTokens(t *testing.T) {
	m := open(t)
	for _, tc := range []struct{ body, want string }{
		{`{"messages":[{"role":"user","content":"Hi"}]}`, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
		{`{"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"add_generation_prompt":false}`,
			"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na\nb<|im_end|>\n"},
		{`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"x","function":{"name":"f","arguments":"{\"b\":1, \"a\":2}"}}]}]}`,
			"<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": 2}}\n</tool_call><|im_end|>\n<|im_start|>assistant\n"},
	} {
		ids, err := m.ChatTokens([]byte(tc.body))
		if err != nil {
			t.Errorf("%s: %v", tc.body, err)
			continue
		}
		if got := text(m, ids); got != tc.want {
			t.Errorf("%s:\ngot  %q\nwant %q", tc.body, got, tc.want)
		}
		start, ok := m.ID("<|im_start|>")
		if !ok || !slices.Contains(ids, start) {
			t.Errorf("%s: the special token is not one token", tc.body)
		}
	}
}

func TestChatTokens_bad(t *testing.T) {
	m := open(t)
	for _, body := range []string{`[]`, `{`, `{"messages":3}`, `{"messages":[3]}`} {
		if ids, err := m.ChatTokens([]byte(body)); err == nil {
			t.Errorf("%s: %d tokens and no error", body, len(ids))
		}
	}
}

func TestOpen_eos(t *testing.T) {
	m := open(t)
	if m.EOS() == 0 {
		t.Error("the demo model has no end-of-text token")
	}
	ids, err := m.TextTokens("one two")
	if err != nil || text(m, ids) != "one two" {
		t.Errorf("TextTokens = %q, %v", text(m, ids), err)
	}
}
