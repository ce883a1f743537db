package chat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/tokenizer"
	"github.com/kvasir-router/kvasir/host/tokenizer/chat"
	"github.com/kvasir-router/kvasir/host/tokenizer/demo"
)

// bosEncoder is the demo tokenizer with its own BOS and EOS.
type bosEncoder struct {
	tokenizer.Encoder
	prefix, suffix []uint32
}

func (e bosEncoder) Affixes() (prefix, suffix []uint32) { return e.prefix, e.suffix }
func (e bosEncoder) Cut(text []byte) int {
	return e.Encoder.(interface{ Cut([]byte) int }).Cut(text)
}
func (e bosEncoder) Starts(text []byte, f func(int)) {
	e.Encoder.(interface{ Starts([]byte, func(int)) }).Starts(text, f)
}

// TestBlocks_completions reads every form of prompt.
func TestBlocks_completions(t *testing.T) {
	enc, err := demo.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	m := demoModel(t, func(c *chat.Config) {
		c.Encoder, c.Files = bosEncoder{enc, []uint32{1, 2, 3}, []uint32{9}}, fstest.MapFS{}
	})
	ids := func(s string) []uint32 {
		x, err := enc.Encode(nil, []byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	around := func(s string) []uint32 { return append(append([]uint32{1, 2, 3}, ids(s)...), 9) }
	long := strings.Repeat("one two three\nfour <|im_start|>five ", 900)
	for body, want := range map[string][]uint32{
		`{"prompt":"hello world"}`:                               around("hello world"),
		`{"prompt":["hello world"]}`:                             around("hello world"),
		`{"prompt":"hello","add_special_tokens":false}`:          ids("hello"),
		`{"prompt":"hello","add_special_tokens":null}`:           around("hello"),
		`{"prompt":[5, 6,7]}`:                                    {5, 6, 7},
		`{"prompt":[ [5,6] ]}`:                                   {5, 6},
		fmt.Sprintf(`{"prompt":%q}`, long):                       around(long),
		fmt.Sprintf(`{"prompt":%q}`, long+"and more\nof it"):     around(long + "and more\nof it"),
		fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("ab", 9000)): around(strings.Repeat("ab", 9000)),
		`{"prompt":["a","b"]}`:                                   nil,
		`{"prompt":[[1],[2]]}`:                                   nil,
		`{"prompt":[]}`:                                          nil,
		`{"prompt":""}`:                                          nil,
		`{"prompt":null}`:                                        nil,
		`{}`:                                                     nil,
		`{"prompt":"a","suffix":"b"}`:                            nil,
		`{"prompt":"a","truncate_prompt_tokens":5}`:              nil,
		`{"prompt":"a","prompt_embeds":"x"}`:                     nil,
		`{"prompt":[-1]}`:                                        nil,
		`{"prompt":[1.5]}`:                                       nil,
		`{"prompt":["\ud800"]}`:                                  nil,
	} {
		q := &tokenizer.Query{Sizes: []int{16, 2}}
		var p tokenizer.Prompt
		for range 2 {
			r := new(llmapi.Request)
			if r.Scan(llmapi.OpCompletions, []byte(body)) != nil {
				continue // rejected by the scan
			}
			if err := m.Blocks(r, q, &p); err != nil {
				t.Fatal(err)
			}
			got, err := m.Tokens(r, nil)
			if want == nil {
				if p.Exact || p.Reason == "" || err == nil {
					t.Errorf("%.60s: exact, want not", body)
				}
				continue
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%.60s: %d tokens, %v, want %d: %v…", body, len(got), err, len(want), got[:min(8, len(got))])
			}
			w, _ := wantPrompt(m, "demo", r, q)
			if d := same(&p, &w); d != "" {
				t.Errorf("%.60s: %s", body, d)
			}
		}
	}
}

// TestBlocks_completionsShare reuses the tokens of a prompt with the same beginning.
func TestBlocks_completionsShare(t *testing.T) {
	m := demoModel(t, nil)
	text := strings.Repeat("one two three\nfour five, six ", 2000)
	var p tokenizer.Prompt
	q := &tokenizer.Query{Sizes: []int{16}}
	ask(t, m, llmapi.OpCompletions, fmt.Appendf(nil, `{"prompt":%q,"add_special_tokens":false}`, text), q, &p)
	before := m.Stats()
	if err := m.Blocks(scan(t, llmapi.OpCompletions,
		fmt.Appendf(nil, `{"prompt":%q,"add_special_tokens":false}`, text+"and so on")), q, &p); err != nil {
		t.Fatal(err)
	}
	if n := m.Stats().EncodedBytes - before.EncodedBytes; n > 10_000 {
		t.Errorf("%d bytes encoded again", n)
	}
}

// TestPrompt_fields renders prompts according to the fields of a body.
func TestPrompt_fields(t *testing.T) {
	src := `{{ bos_token }}{% for m in messages %}[{{ m.role }}|{{ m.content | trim }}]{% endfor %}` +
		`{{ tools | length if tools else 'no tools' }} {{ documents | length if documents else 'no documents' }} {{ ` +
		`add_generation_prompt }} {{ enable_thinking }} {{ reasoning_effort }} {{ x }} {{ strftime_now('%H:%M') }}`
	files := fstest.MapFS{"tokenizer_config.json": {Data: []byte(`{"bos_token":{"content":"<s>"},"eos_token":null}`)}}
	set := func(c *chat.Config) {
		c.Template, c.Files, c.TimeZone = src, files, time.FixedZone("", 2*3600)
	}
	m := demoModel(t, set)
	hi := `"messages":[{"role":"user","content":"hi"}]`
	for body, want := range map[string]string{
		`{` + hi + `}`: "<s>[user|hi]no tools no documents True    14:00",
		`{` + hi + `,"add_generation_prompt":false}`: "<s>[user|hi]no tools no documents False    14:00",
		`{` + hi + `,"reasoning_effort":"low"}`:      "<s>[user|hi]no tools no documents True True low  14:00",
		`{` + hi + `,"reasoning_effort":"none"}`:     "<s>[user|hi]no tools no documents True False none  14:00",
		`{` + hi + `,"reasoning_effort":"low","chat_template_kwargs":{"enable_thinking":null}}`: "<s>[user|hi]" +
			"no tools no documents True  low  14:00",
		`{` + hi + `,"reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"}}`: "<s>[user|hi]" +
			"no tools no documents True True low  14:00",
		`{` + hi + `,"chat_template_kwargs":{"x":"auto","enable_thinking":1.50}}`: "<s>[user|hi]" +
			"no tools no documents True 1.5   14:00",
		`{` + hi + `,"chat_template_kwargs":{"add_generation_prompt":false,"x":[1,"é"]}}`: "<s>[user|hi]" +
			"no tools no documents True   [1, 'é'] 14:00",
		`{` + hi + `,"chat_template_kwargs":{"bos_token":"B"}}`: "B[user|hi]no tools no documents True    14:00",
		`{` + hi + `,"documents":[{"title":"a","text":"b"}]}`:   "<s>[user|hi]no tools 1 True    14:00",
		`{` + hi + `,"tools":[]}`:                               "<s>[user|hi]no tools no documents True    14:00",
		`{` + hi + `,"tools":null,"documents":null,"chat_template_kwargs":null}`: "<s>[user|hi]" +
			"no tools no documents True    14:00",
		`{` + hi + `,"tools":[{"function":{"name":"f"}}],"tool_choice":"none"}`: "<s>[user|hi]1 no documents True    14:00",
		`{` + hi + `,"chat_template":"{{ x }}"}`: "<s>[user|hi]" +
			"no tools no documents True    14:00",
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":" so "}],` +
			`"add_generation_prompt":false,"continue_final_message":true}`: "<s>[user|q][assistant|so",
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"so"}],` +
			`"add_generation_prompt":false,"continue_final_message":true}`: "<s>[user|q][assistant|so",
		`{` + hi + `,"continue_final_message":true}`: "",
		`{"messages":[]}`:   "",
		`{"messages":null}`: "",
		`{` + hi + `,"chat_template_kwargs":{"messages":[]}}`:                                     "",
		`{` + hi + `,"chat_template_kwargs":[1]}`:                                                 "",
		`{` + hi + `,"documents":["a"]}`:                                                          "",
		`{` + hi + `,"tools":"f"}`:                                                                "",
		`{` + hi + `,"truncate_prompt_tokens":-1}`:                                                "",
		`{` + hi + `,"add_generation_prompt":1}`:                                                  "",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]}`: "",
	} {
		r := new(llmapi.Request)
		if r.Scan(llmapi.OpChat, []byte(body)) != nil {
			if want != "" {
				t.Errorf("%s: rejected by the scan", body)
			}
			continue
		}
		got, err := m.Prompt(r)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", body, got, err, want)
		}
		var p tokenizer.Prompt
		if err := m.Blocks(r, &tokenizer.Query{Sizes: []int{16}}, &p); err != nil || p.Exact != (want != "") ||
			(p.Reason == "") != p.Exact {
			t.Errorf("%s: %v, exact %v, reason %q", body, err, p.Exact, p.Reason)
		}
	}
}

// TestPrompt_continueParts continues the last text of a list of parts.
func TestPrompt_continueParts(t *testing.T) {
	m := demoModel(t, func(c *chat.Config) {
		c.Template = `{% for m in messages %}[{% for c in m.content %}{{ c.text }};{% endfor %}]{% endfor %}`
	})
	r := scan(t, llmapi.OpChat, []byte(`{"messages":[{"role":"assistant","content":[{"type":"text","text":"a"},`+
		`{"type":"text","text":"b "}]}],"add_generation_prompt":false,"continue_final_message":true}`))
	if got, err := m.Prompt(r); got != "[a;b " || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPrepare_unfinished checks that a response that continues its last item has
// the prompt of a chat that continues its last message.
func TestPrepare_unfinished(t *testing.T) {
	m := demoModel(t, func(c *chat.Config) {
		c.Template = `{% for m in messages %}[{{ m.role }}|{{ m.content }}]{% endfor %}{% if add_generation_prompt ` +
			`%}[{% endif %}`
	})
	chatBody := `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"half a "}],` +
		`"add_generation_prompt":false,"continue_final_message":true}`
	want, err := m.Prompt(scan(t, llmapi.OpChat, []byte(chatBody)))
	if err != nil || want != "[user|hi][assistant|half a " {
		t.Fatalf("%q, %v", want, err)
	}
	for _, last := range []string{
		`{"type":"message","role":"assistant","status":"incomplete","content":[{"type":"output_text","text":"half a "}]}`,
		`{"type":"message","role":"assistant","status":"in_progress","content":"half a "}`,
	} {
		got, err := m.Prompt(scan(t, llmapi.OpResponses, []byte(`{"input":[{"role":"user","content":"hi"},`+last+`]}`)))
		if got != want || err != nil {
			t.Errorf("%s: %q, %v", last, got, err)
		}
	}
	done := `{"input":[{"role":"user","content":"hi"},{"type":"message","role":"assistant","status":"completed",` +
		`"content":[{"type":"output_text","text":"x"}]}]}`
	if got, err := m.Prompt(scan(t, llmapi.OpResponses, []byte(done))); got != "[user|hi][assistant|x][" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestPrepare_responses covers members outside input, and content that only the engine knows.
func TestPrepare_responses(t *testing.T) {
	enc, err := demo.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	m := demoModel(t, func(c *chat.Config) {
		c.Template = `{{ messages[0].content }}`
		c.Encoder, c.Files = bosEncoder{enc, []uint32{1, 2}, nil}, fstest.MapFS{}
	})
	ids, err := enc.Encode([]uint32{1, 2}, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	for body, exact := range map[string]bool{
		`{"input":"hello"}`: true,
		`{"input":[{"role":"user","content":"hello"}],"truncation":"disabled","previous_response_id":null}`: true,
		`{"input":"x","instructions":"hello"}`:                    true,
		`{"input":"hello","truncation":"auto"}`:                   false,
		`{"input":"hello","previous_response_id":"resp_1"}`:       false,
		`{"input":"hello","instructions":["x"]}`:                  false,
		`{"input":"hello","previous_input_messages":[]}`:          false,
		`{"input":["hello"]}`:                                     false,
		`{"input":7}`:                                             false,
		`{"input":"hello","reasoning":7}`:                         false,
		`{"input":"hello","reasoning":{"effort":7}}`:              false,
		`{"input":"hello","chat_template_kwargs":{"messages":1}}`: false,
	} {
		r := scan(t, llmapi.OpResponses, []byte(body))
		got, err := m.Tokens(r, nil)
		if (err == nil) != exact || exact && !slices.Equal(got, ids) {
			t.Errorf("%s: %v, %v, want %v with the special tokens", body, got, err, ids)
		}
		var p tokenizer.Prompt
		if err := m.Blocks(r, &tokenizer.Query{Sizes: []int{16}}, &p); err != nil || p.Exact != exact ||
			p.Exact != (p.Reason == "") {
			t.Errorf("%s: exact %v, %q", body, p.Exact, p.Reason)
		}
	}
}

// TestPrepare_thinking checks that the effort for disabled thinking depends on the
// template's handling of "none".
func TestPrepare_thinking(t *testing.T) {
	for template, want := range map[string]string{
		`{{ messages[0].content }}|{{ reasoning_effort }}|{{ enable_thinking }}`: "hi|none|" +
			"False",
		`{{ messages[0].content }}|{{ enable_thinking }}`:                                                         "hi|False",
		`{{ messages[0].content }}{% set e = reasoning_effort if reasoning_effort == "low" else "max" %}|{{ e }}`: "hi|low",
		`{% if reasoning_effort == "none" %}{{ raise_exception("no") }}{% endif %}{{ reasoning_effort }}`:         "low",
	} {
		m := demoModel(t, func(c *chat.Config) { c.Template = template })
		got, err := m.Prompt(scan(t, llmapi.OpMessages,
			[]byte(`{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,"thinking":{"type":"disabled"}}`)))
		if got != want || err != nil {
			t.Errorf("%s: %q, %v", template, got, err)
		}
	}
}

// TestNew_inexact checks that a model reports why its prompts cannot be exact.
func TestNew_inexact(t *testing.T) {
	for want, set := range map[string]func(*chat.Config){
		"the model has no chat template": func(c *chat.Config) { c.Files = fstest.MapFS{} },
		"the chat template is not supported: tag \"include\" is not supported": func(c *chat.Config) {
			c.Template = "{% include 'x' %}"
		},
		"engines render gpt_oss by code of their own": func(c *chat.Config) {
			c.Files = fstest.MapFS{"config.json": {Data: []byte(`{"model_type":"gpt_oss"}`)}}
		},
	} {
		m := demoModel(t, set)
		var p tokenizer.Prompt
		if err := m.Blocks(scan(t, llmapi.OpChat, []byte(`{"messages":[{"role":"user","content":"x"}]}`)),
			&tokenizer.Query{Sizes: []int{16}}, &p); err != nil {
			t.Fatal(err)
		}
		if s := m.Stats(); p.Exact || p.Reason != want || s.Exact || s.Reason != want || s.Approximate != 1 {
			t.Errorf("reason %q and %q, want %q", p.Reason, s.Reason, want)
		}
	}
	if _, err := chat.New(chat.Config{ContentFormat: "x", BudgetBytes: -1}); err == nil ||
		strings.Count(err.Error(), "\n") != 3 {
		t.Errorf("%v, want four errors", err)
	}
}

// TestNew_templates chooses among templates as transformers does.
func TestNew_templates(t *testing.T) {
	config := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	named := config(`{"chat_template":[{"name":"default","template":"plain"},{"name":"tool_use","template":"tools"}]}`)
	for name, c := range map[string]struct {
		files       fstest.MapFS
		plain, tool string
	}{
		"text":  {fstest.MapFS{"tokenizer_config.json": config(`{"chat_template":"one"}`)}, "one", "one"},
		"named": {fstest.MapFS{"tokenizer_config.json": named}, "plain", "tools"},
		"file":  {fstest.MapFS{"tokenizer_config.json": named, "chat_template.jinja": config("file")}, "file", "file"},
		"json":  {fstest.MapFS{"chat_template.json": config(`{"chat_template":"j"}`)}, "j", "j"},
		"files": {fstest.MapFS{"chat_template.jinja": config("file"),
			"additional_chat_templates/tool_use.jinja": config("more")}, "file", "more"},
	} {
		m := demoModel(t, func(x *chat.Config) { x.Files = c.files })
		plain, err1 := m.Prompt(scan(t, llmapi.OpChat, []byte(`{"messages":[{"role":"user","content":"x"}]}`)))
		tool, err2 := m.Prompt(scan(t, llmapi.OpChat,
			[]byte(`{"messages":[{"role":"user","content":"x"}],"tools":[{"function":{"name":"f"}}]}`)))
		if plain != c.plain || tool != c.tool || err1 != nil || err2 != nil {
			t.Errorf("%s: %q %v, %q %v", name, plain, err1, tool, err2)
		}
	}
}

// TestIdentity identifies tokenizers by content.
func TestIdentity(t *testing.T) {
	a, err := chat.Identity(demo.Files())
	if err != nil || !strings.HasPrefix(a, "sha256:") {
		t.Errorf("%q, %v", a, err)
	}
	b, err := chat.Identity(fstest.MapFS{"tokenizer.json": {Data: []byte("{}")}})
	if err != nil || a == b {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := chat.Identity(fstest.MapFS{}); err == nil {
		t.Error("a folder without files has an identity")
	}
}
