package chat

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/llmapi"
)

// wordEncoder encodes each word as one token.
type wordEncoder struct{ bytes int }

func (e *wordEncoder) Encode(dst []uint32, text []byte) ([]uint32, error) {
	e.bytes += len(text)
	for range bytes.Fields(text) {
		dst = append(dst, 1)
	}
	return dst, nil
}

func TestAtLeast(t *testing.T) {
	f := func(op llmapi.Operation, body string, want int) {
		t.Helper()
		var r llmapi.Request
		if err := r.Scan(op, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if got := atLeast(new(wordEncoder), &r, 100); got != want {
			t.Errorf("%s: got %d, want %d", body, got, want)
		}
	}
	f(llmapi.OpChat, `{"model":"a b c","messages":[{"role":"user x","content":"a b"},{"content":[{"type":"text",`+
		`"text":"c d e","uuid":"u v"}]}]}`, 5)
	f(llmapi.OpChat, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:a b c"}},`+
		`{"type":"input_audio","input_audio":{"data":"x y"}},{"text":"f"}]}]}`, 1)
	f(llmapi.OpChat, `{"messages":[{"content":"a\u0000b","tool_calls":[{"function":{"arguments":"c d","name":"n"}}]}]}`, 4)
	f(llmapi.OpCompletions, `{"prompt":["a b","c"],"suffix":"x"}`, 3)
	f(llmapi.OpCompletions, `{"prompt":[[1,2],[3]]}`, 3)
	f(llmapi.OpResponses, `{"instructions":"a b","input":[{"content":[{"type":"input_text","text":"c"}]},`+
		`{"type":"function_call_output","output":"d e"}]}`, 5)
	f(llmapi.OpResponses, `{"input":"a b"}`, 2)
	f(llmapi.OpMessages, `{"system":[{"type":"text","text":"a"}],"messages":[{"content":[{"type":"tool_result",`+
		`"content":[{"text":"b"}]}]}]}`, 2)
	f(llmapi.OpChat, `{"messages":7}`, 1)
	f(llmapi.OpChat, `{}`, 0)

	// A text that is far too long costs no more than one that is slightly too long.
	var r llmapi.Request
	if err := r.Scan(llmapi.OpChat, []byte(`{"messages":[{"content":"`+strings.Repeat("word ", 1<<20)+`"},{"content":"`+
		strings.Repeat("ü ", 1<<18)+`"}]}`)); err != nil {
		t.Fatal(err)
	}
	e := new(wordEncoder)
	if n := atLeast(e, &r, 100); n <= 100 || e.bytes > countPiece {
		t.Errorf("got %d, encoded %d bytes", n, e.bytes)
	}
	if n := atLeast(e, &r, 1<<30); n < 1<<20+1<<18-400 || n > 1<<20+1<<18 {
		t.Errorf("got %d", n)
	}
}
