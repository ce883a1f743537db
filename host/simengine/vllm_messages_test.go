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
