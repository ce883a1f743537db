package simengine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kvasir-router/kvasir/host/testdeps"
	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

func demoModel(t *testing.T) *ModelFiles {
	t.Helper()
	m, err := LoadModel(demo.Files())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// text is the prompt of a body, from its tokens.
func (m *ModelFiles) text(t *testing.T, body string) string {
	t.Helper()
	ids, err := m.ChatTokens([]byte(body), chatPath)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	var b strings.Builder
	for _, id := range ids {
		b.Write(m.Token(id))
	}
	return b.String()
}

// TestChatTokens compares prompts with what vLLM makes of the messages.
func TestChatTokens(t *testing.T) {
	m := demoModel(t)
	f := func(messages, want string) {
		t.Helper()
		if got := m.text(t, `{"messages":[`+messages+`]}`); got != want {
			t.Errorf("%s:\ngot  %q\nwant %q", messages, got, want)
		}
	}
	const ask = "<|im_start|>assistant\n"
	f(`{"role":"user","content":"hi"}`, "<|im_start|>user\nhi<|im_end|>\n"+ask)
	f(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"},"c"]}`,
		"<|im_start|>user\na\nb\nc<|im_end|>\n"+ask)
	f(`{"role":"assistant","content":null}`, ask+"<|im_end|>\n"+ask)
	f(`{"role":"user"}`, "<|im_start|>user\n<|im_end|>\n"+ask)
	f(`{"role":"system","content":"x-anthropic-billing-header: 1\nrules"},{"role":"user","content":"hi"}`,
		"<|im_start|>system\nrules<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"+ask)
	call := func(arguments, want string) {
		t.Helper()
		f(`{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"1","type":"function",`+
			`"function":{"name":"f"`+arguments+`}}]}`,
			"<|im_start|>user\nhi<|im_end|>\n"+ask+
				"<tool_call>\n{\"name\": \"f\", \"arguments\": "+want+"}\n</tool_call><|im_end|>\n"+ask)
	}
	call(`,"arguments":"{\"a\":  1}"`, `{"a": 1}`)
	call(`,"arguments":"{\"a\":"`, `{}`)
	call(`,"arguments":"[1]"`, `{}`)
	call(`,"arguments":""`, `{}`)
	f(`{"role":"user","content":"hi"},{"role":"assistant","content":"yo","tool_calls":[]},{"role":"user","content":"x"}`,
		"<|im_start|>user\nhi<|im_end|>\n"+ask+"yo<|im_end|>\n<|im_start|>user\nx<|im_end|>\n"+ask)
	got := m.text(t, `{"messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false}`)
	if strings.HasSuffix(got, ask) {
		t.Errorf("asked for no generation prompt: %q", got)
	}
	got = m.text(t, `{"messages":[{"role":"user","content":"hi"}],"tools":[{"function":{"parameters":{"b":1,"a":2},`+
		`"extra":1,"name":"f"},"type":"function"}]}`)
	const want = `{"type": "function", "function": {"name": "f", "description": null, "parameters": {"b": 1, "a": 2}}}`
	if !strings.Contains(got, want) {
		t.Errorf("tools in %q", got)
	}
}

func TestChatTokens_refused(t *testing.T) {
	m := demoModel(t)
	for _, body := range []string{`[]`, `{`, `{"messages":1}`, `{"messages":[1]}`, `{"messages":[{"content":"x"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}`,
		`{"messages":[{"role":"user","content":1}]}`, `{"messages":[{"role":"user","content":null}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":{}}}]}]}`,
		`{"messages":[{"role":"assistant","tool_calls":[{"type":"custom","function":{"name":"f"}}]}]}`,
		`{"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function"}]}`} {
		if ids, err := m.ChatTokens([]byte(body), chatPath); err == nil {
			t.Errorf("%s: %d tokens", body, len(ids))
		}
	}
}

// TestNormalMessages_parts: templates that loop over content see parts.
func TestNormalMessages_parts(t *testing.T) {
	files := fstest.MapFS{}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		b, err := demo.Files().(interface{ ReadFile(string) ([]byte, error) }).ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: b}
	}
	files["chat_template.jinja"] = &fstest.MapFile{Data: []byte(
		`{%- for m in messages %}{{ m.role }}={%- if m.content is string %}{{ m.content }}{% else %}{% for p in ` +
			`m['content'] %}[{{ p.type }}:{{ p.text }}]{% endfor %}{% endif %};{%- endfor %}`)}
	m, err := LoadModel(files)
	if err != nil {
		t.Fatal(err)
	}
	got := m.text(t, `{"messages":[{"role":"user","content":"a"},{"role":"user"},{"role":"tool",`+
		`"content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}]}`)
	if want := "user=[text:a];user=;tool=b\nc;"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDemo_answers: a generated answer, sent back as text, is the tokens that
// were generated, so a conversation is found in the cache up to them.
func TestDemo_answers(t *testing.T) {
	m := demoModel(t)
	r := run(t, func(c *Config) { c.Prompter, c.Vocabulary, c.EOS = m, m, m.EOS() })
	l := r.lex
	if len(l.bare) < 50 || len(l.spaced) < 200 || l.eos == 0 {
		t.Fatalf("%d words to begin with, %d to go on", len(l.bare), len(l.spaced))
	}
	type msg struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	for _, system := range []string{"You are terse.", "Ты краток. 日本語 too."} {
		messages := []msg{{"system", system}, {"user", "Tell me of 12 things."}}
		var seen []uint32 // prompt and answer of the turn before
		for turn := range 5 {
			body := mustJSON(map[string]any{"messages": messages})
			prompt, err := m.ChatTokens(body, chatPath)
			if err != nil {
				t.Fatal(err)
			}
			if len(seen) > len(prompt) || !slices.Equal(prompt[:len(seen)], seen) {
				t.Fatalf("turn %d: the answer has other tokens as a text", turn)
			}
			c := r.mustPost("/v1/chat/completions", string(body))
			// The end token was sampled, not computed: a block that ends with
			// it is not there.
			if want := (len(seen) - 1) / 4 * 4; turn > 0 && c.Usage.Details.CachedTokens != want {
				t.Fatalf("turn %d: %d cached, want %d", turn, c.Usage.Details.CachedTokens, want)
			}
			answer := c.Choices[0].Message.Content
			ids, _ := l.answer(slices.Clone(prompt), prompt, false, answerLimits{mean: 64, maximum: 1000})
			seen = ids
			if len(seen)-len(prompt) != c.Usage.CompletionTokens || *c.Choices[0].FinishReason != "stop" {
				t.Fatalf("%+v", c.Usage)
			}
			messages = append(messages, msg{"assistant", answer}, msg{"user", fmt.Sprint("And ", turn, "?")})
		}
	}
	text := r.mustPost("/v1/completions", `{"prompt":"Once upon a time","max_tokens":20,"ignore_eos":true}`)
	p, _ := m.TextTokens("Once upon a time")
	whole, _ := m.TextTokens("Once upon a time" + *text.Choices[0].Text)
	if want, _ := l.answer(slices.Clone(p), p, true, answerLimits{mean: 64, maximum: 20,
		noEnding: true}); !slices.Equal(whole, want) {
		t.Error("a continued text has other tokens")
	}
}

// TestFamilies: with real tokenizers, too, an answer has as a text the tokens it
// was made of, after any prompt.
func TestFamilies(t *testing.T) {
	for _, family := range []string{"qwen3", "llama3_1"} {
		m, err := LoadModel(os.DirFS(testdeps.Need(t, "tokenizers", family)))
		if err != nil {
			t.Fatalf("run make deps (%v)", err)
		}
		l, err := newLexicon(m, m.EOS())
		if err != nil {
			t.Fatal(err)
		}
		if len(l.spaced) != lexiconWords || m.EOS() == 0 {
			t.Errorf("%s: %d words, end token %d", family, len(l.spaced), m.EOS())
		}
		for i, prompt := range []string{"Once upon", "Once ", "one\n", "x = 12", "日本", "!", "tab\t", "don'"} {
			ids, err := m.TextTokens(prompt)
			if err != nil {
				t.Fatal(err)
			}
			all, _ := l.answer(slices.Clone(ids), ids, true, answerLimits{mean: 64, maximum: 50 + i, noEnding: true})
			text := []byte(prompt)
			for _, id := range all[len(ids):] {
				text = append(text, m.Token(id)...)
			}
			if again, err := m.TextTokens(string(text)); err != nil || !slices.Equal(again, all) {
				t.Errorf("%s: %q has other tokens than were generated", family, text)
			}
		}
		body := `{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}]}`
		prompt, err := m.ChatTokens([]byte(body), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		all, _ := l.answer(slices.Clone(prompt), prompt, false, answerLimits{mean: 64, maximum: 80})
		var answer []byte
		for _, id := range all[len(prompt):] {
			if id != l.eos {
				answer = append(answer, m.Token(id)...)
			}
		}
		next := strings.Replace(body, `]}`,
			fmt.Sprintf(`,{"role":"assistant","content":%q},{"role":"user","content":"go on"}]}`, answer), 1)
		again, err := m.ChatTokens([]byte(next), chatPath)
		if err != nil {
			t.Fatal(err)
		}
		// Qwen3's template drops nothing of this conversation; both repeat it.
		if n := len(all) - 1; len(again) < n || !slices.Equal(again[:n], all[:n]) {
			t.Errorf("%s: the next turn does not begin with this one", family)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	m, err := LoadModel(demo.Files())
	if err != nil {
		b.Fatal(err)
	}
	body := mustJSON(map[string]any{"messages": []map[string]string{{"role": "user",
		"content": strings.Repeat("the quick brown fox. ", 4000)}}})
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := m.ChatTokens(body, chatPath); err != nil {
			b.Fatal(err)
		}
	}
}
