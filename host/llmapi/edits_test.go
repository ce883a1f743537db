package llmapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/dialect"
	"github.com/kvasir-router/kvasir/host/internal/jsonscan"
	"github.com/kvasir-router/kvasir/host/testdeps"
)

func apply(t testing.TB, body []byte, edits []Edit) string {
	t.Helper()
	at := 0
	for _, e := range edits {
		if e.Start < at || e.End < e.Start || e.End > len(body) {
			t.Fatalf("edits are not ordered and disjoint: %v", edits)
		}
		at = e.End
	}
	parts := AppendParts(nil, body, edits)
	for _, p := range parts {
		if len(p) == 0 {
			t.Fatal("empty part")
		}
	}
	out := bytes.Join(parts, nil)
	if len(out) != EditedLen(body, edits) {
		t.Fatalf("EditedLen: got %d, want %d", EditedLen(body, edits), len(out))
	}
	return string(out)
}

func edited(t testing.TB, op Operation, body string, rw Rewrite) string {
	t.Helper()
	var r Request
	if err := r.Scan(op, []byte(body)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	edits, err := r.AppendEdits(nil, &rw)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return apply(t, r.Body, edits)
}

func TestAppendEdits(t *testing.T) {
	f := func(body string, rw Rewrite, want string) {
		t.Helper()
		if got := edited(t, OpChat, body, rw); got != want {
			t.Errorf("%s: got  %s, want %s", body, got, want)
		}
	}
	f(`{"model":"a", "x":1}`, Rewrite{}, `{"model":"a", "x":1}`)
	f(`{"model":"a", "x":1}`, Rewrite{Model: "a"}, `{"model":"a", "x":1}`)
	f(`{ "model" : "a", "x":1}`, Rewrite{Model: `b"/ü`}, `{ "model" : "b\"/ü", "x":1}`)
	f(`{"model":null}`, Rewrite{Model: "b"}, `{"model":"b"}`)
	f(`{}`, Rewrite{Model: "b", Salt: "s", SetSalt: true, MaxTokens: 5}, `{"model":"b","cache_salt":"s","max_tokens":5}`)
	f(" { } ", Rewrite{Model: "b"}, " { \"model\":\"b\"} ")

	f(`{"cache_salt":"x","a":1}`, Rewrite{}, `{"a":1}`)
	f(`{"a":1,"cache_salt":"x"}`, Rewrite{}, `{"a":1}`)
	f(`{ "priority":1, "cache_salt":"x" , "rid":2 }`, Rewrite{}, `{  }`)
	f(`{"priority":1,"a":1, "rid":2,"bootstrap_host":3 , "b":2}`, Rewrite{}, `{"a":1 , "b":2}`)
	f(`{"priority":1}`, Rewrite{Model: "m"}, `{"model":"m"}`)
	f(`{"a":1,"cache_salt" : "x","b":2}`, Rewrite{Salt: "s", SetSalt: true}, `{"a":1,"cache_salt" : "s","b":2}`)
	f(`{"cache\u005fsalt":null}`, Rewrite{Salt: "s", SetSalt: true, Dialect: "sglang"}, `{"cache\u005fsalt":"s"}`)
	f(`{"cache_salt":"x"}`, Rewrite{Dialect: "llamacpp"}, `{}`)

	f(`{"stream":true}`, Rewrite{ForceUsage: true}, `{"stream":true,"stream_options":{"include_usage":true}}`)
	f(`{"stream":false}`, Rewrite{ForceUsage: true}, `{"stream":false}`)
	f(`{"stream":true,"stream_options":null}`, Rewrite{ForceUsage: true},
		`{"stream":true,"stream_options":{"include_usage":true}}`)
	f(`{"stream":true,"stream_options":{ }}`, Rewrite{ForceUsage: true},
		`{"stream":true,"stream_options":{ "include_usage":true}}`)
	f(`{"stream":true,"stream_options":{"include_usage": false}}`, Rewrite{ForceUsage: true},
		`{"stream":true,"stream_options":{"include_usage": true}}`)
	f(`{"stream":true,"stream_options":{"include_usage":true}}`, Rewrite{ForceUsage: true},
		`{"stream":true,"stream_options":{"include_usage":true}}`)
	f(`{"stream":true,"stream_options":{"continuous_usage_stats":true}}`, Rewrite{ForceUsage: true},
		`{"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`)
	f(`{"stream":true,"stream_options":{"x":1}}`, Rewrite{ForceUsage: true, UnknownFields: "drop"},
		`{"stream":true,"stream_options":{"include_usage":true}}`)
	f(`{"stream":true,"stream_options":{"x":1,"include_usage":null,"y":1}}`,
		Rewrite{ForceUsage: true, UnknownFields: "drop"}, `{"stream":true,"stream_options":{"include_usage":true}}`)
	f(`{"stream":true,"stream_options":{"x":1}}`, Rewrite{}, `{"stream":true,"stream_options":{"x":1}}`)

	f(`{"max_tokens":9}`, Rewrite{MaxTokens: 8}, `{"max_tokens":8}`)
	f(`{"max_tokens":8}`, Rewrite{MaxTokens: 8}, `{"max_tokens":8}`)
	f(`{"max_tokens":0}`, Rewrite{MaxTokens: 8}, `{"max_tokens":0}`)
	f(`{"max_tokens":0}`, Rewrite{MaxTokens: 8, Dialect: "llamacpp"}, `{"max_tokens":0}`)
	f(`{"max_tokens":0}`, Rewrite{MaxTokens: 8, Dialect: "sglang"}, `{"max_tokens":8}`)
	f(`{"max_tokens":0}`, Rewrite{MaxTokens: 8, Dialect: "ollama"}, `{"max_tokens":8}`)
	f(`{"max_tokens":0}`, Rewrite{MaxTokens: 8, Dialect: "openai"}, `{"max_tokens":8}`)
	f(`{"max_tokens":0}`, Rewrite{Dialect: "sglang"}, `{"max_tokens":0}`)
	f(`{"max_completion_tokens":0}`, Rewrite{MaxTokens: 8}, `{"max_completion_tokens":8}`)
	f(`{"max_tokens":null}`, Rewrite{MaxTokens: 8}, `{"max_tokens":8}`)
	f(`{"max_tokens":-1}`, Rewrite{MaxTokens: 8}, `{"max_tokens":8}`)
	f(`{"max_tokens":1e2,"max_completion_tokens":5}`, Rewrite{MaxTokens: 8}, `{"max_tokens":8,"max_completion_tokens":5}`)
	f(`{}`, Rewrite{MaxTokens: 8, Dialect: "openai"}, `{"max_completion_tokens":8}`)
	f(`{"n_predict":100}`, Rewrite{MaxTokens: 8}, `{"n_predict":100,"max_tokens":8}`)
	f(`{"n_predict":100}`, Rewrite{MaxTokens: 8, Dialect: "llamacpp"}, `{"n_predict":8}`)
	f(`{"max_completion_tokens":100}`, Rewrite{MaxTokens: 8, Dialect: "ollama"},
		`{"max_completion_tokens":100,"max_tokens":8}`)

	f(`{"foo":1,"top_k":2,"seed":3}`, Rewrite{}, `{"foo":1,"top_k":2,"seed":3}`)
	f(`{"foo":1,"top_k":2,"seed":3}`, Rewrite{UnknownFields: "drop"}, `{"top_k":2,"seed":3}`)
	f(`{"foo":1,"top_k":2,"seed":3}`, Rewrite{UnknownFields: "drop", Dialect: "openai"}, `{"seed":3}`)
	f(`{"chat_template_kwargs":{"chat_template":"x","enable_thinking":true,"t\u006fkenize":0}}`, Rewrite{},
		`{"chat_template_kwargs":{"enable_thinking":true}}`)
	f(`{"chat_template_kwargs":{"chat_template":"x"}}`, Rewrite{}, `{"chat_template_kwargs":{}}`)
	f(`{"chat_template_kwargs":{"Chat_Template":"x"}}`, Rewrite{}, `{"chat_template_kwargs":{"Chat_Template":"x"}}`)
}

// TestAppendEdits_operations: each API has its own names, and usage is requested
// where streams do not report it by themselves.
func TestAppendEdits_operations(t *testing.T) {
	rw := Rewrite{Model: "b", Salt: "s", SetSalt: true, ForceUsage: true, MaxTokens: 5}
	f := func(op Operation, body, want string) {
		t.Helper()
		if got := edited(t, op, body, rw); got != want {
			t.Errorf("%v %s: got  %s, want %s", op, body, got, want)
		}
	}
	f(OpCompletions, `{"prompt":"x","stream":true}`, `{"prompt":"x","stream":true,"model":"b","cache_salt":"s",`+
		`"stream_options":{"include_usage":true},"max_tokens":5}`)
	f(OpResponses, `{"model":"a","input":"x","stream":true}`,
		`{"model":"b","input":"x","stream":true,"cache_salt":"s","max_output_tokens":5}`)
	f(OpResponses, `{"max_output_tokens":9,"model":"b","cache_salt":"mine","session_id":"s"}`,
		`{"max_output_tokens":5,"model":"b","cache_salt":"s"}`)
	f(OpMessages, `{"model":"b","max_tokens":9,"messages":[],"stream":true}`,
		`{"model":"b","max_tokens":5,"messages":[],"stream":true,"cache_salt":"s"}`)
	f(OpCountTokens, `{"model":"a","messages":[],"cache_salt":"x"}`, `{"model":"b","messages":[]}`)
	f(OpTokenize, `{"model":"a","prompt":"x","cache_salt":"x"}`, `{"model":"b","prompt":"x"}`)
	var r Request
	for _, op := range []Operation{OpResponses, OpMessages} {
		if err := r.Scan(op, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{"sglang", "llamacpp", "openai"} {
			if _, err := r.AppendEdits(nil, &Rewrite{SetSalt: true, Salt: "s", Dialect: d}); !errors.Is(err, ErrNoSaltField) {
				t.Errorf("%v, %s: got %v", op, d, err)
			}
		}
	}
}

func TestAppendEdits_errors(t *testing.T) {
	f := func(body string, rw Rewrite, code, param string) {
		t.Helper()
		var r Request
		if err := r.Scan(OpChat, []byte(body)); err != nil {
			t.Fatal(err)
		}
		_, err := r.AppendEdits(nil, &rw)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Status != 400 || e.Code.String() != code || e.Param != param {
			t.Errorf("%s: got %v, want %s %s", body, err, code, param)
		}
	}
	f(`{"foo":1}`, Rewrite{UnknownFields: "refuse"}, "unknown_field", "")
	f(`{"top_k":1}`, Rewrite{UnknownFields: "refuse", Dialect: "openai"}, "unknown_field", "top_k")
	f(`{"stream_options":{"foo":1}}`, Rewrite{UnknownFields: "refuse"}, "unknown_field", "")
	f(`{"priority":1}`, Rewrite{InternalFields: "refuse"}, "unsupported_field", "priority")
	f(`{"bootstrap_room":1}`, Rewrite{InternalFields: "refuse"}, "unsupported_field", "bootstrap_room")
	f(`{"chat_template_kwargs":{"tokenize":1}}`, Rewrite{InternalFields: "refuse"}, "unsupported_field",
		"chat_template_kwargs.tokenize")

	var r Request
	if err := r.Scan(OpChat, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"llamacpp", "ollama", "openai", "surprise"} {
		if _, err := r.AppendEdits(nil, &Rewrite{SetSalt: true, Salt: "s", Dialect: d}); !errors.Is(err, ErrNoSaltField) {
			t.Errorf("%s: got %v", d, err)
		}
	}
}

// TestAppendEdits_strip holds the matrix field × spelling × operation × dialect.
func TestAppendEdits_strip(t *testing.T) {
	testdeps.Sequential(t)
	names := []string{"bootstrap_host", "bootstrap_port", "bootstrap_room", "disagg_prefill_dp_rank"}
	for _, f := range fields {
		if f.class == ClassInternal {
			names = append(names, f.name)
		}
	}
	for _, must := range []string{"cache_salt", "priority", "routed_dp_rank", "data_parallel_rank", "rid", "session_id",
		"lora_path",
		"kv_transfer_params", "ec_transfer_params", "vllm_xargs", "id_slot", "cache_prompt", "chat_template", "nvext",
		"extra_key"} {
		if _, class, _ := lookup(must); class != ClassInternal {
			t.Errorf("%s is not internal", must)
		}
	}
	for _, op := range []Operation{OpChat, OpCompletions, OpTokenize, OpResponses, OpMessages, OpCountTokens} {
		for _, dialect := range []string{"", "vllm", "sglang", "llamacpp", "ollama", "openai", "other"} {
			for _, unknown := range []string{"pass", "drop"} {
				for _, name := range names {
					stripOne(t, op, Rewrite{Dialect: dialect, UnknownFields: unknown}, name)
				}
			}
		}
	}
}

func stripOne(t *testing.T, op Operation, rw Rewrite, name string) {
	t.Helper()
	esc := fmt.Sprintf(`\u%04x%s\u%04X`, name[0], name[1:len(name)-1], name[len(name)-1])
	for _, key := range []string{name, esc} {
		for _, value := range []string{`"x"`, `{"a":[1,"]}"]}`, `null`} {
			for _, form := range []string{`{"model":"m",%s}`, `{%s,"model":"m"}`, `{%s}`, `{"a":1, %s , "model":"m"}`} {
				body := fmt.Sprintf(form, `"`+key+`":`+value)
				var m map[string]any
				if err := json.Unmarshal([]byte(edited(t, op, body, rw)), &m); err != nil {
					t.Fatalf("%s: %v", body, err)
				}
				if _, ok := m[name]; ok {
					t.Errorf("%v %q %s: %s passed", op, rw.Dialect, body, name)
				}
			}
		}
	}
	var r Request
	var err error
	for _, twice := range []string{`{"%[1]s":1,"%[1]s":2}`, `{"%[1]s":1,"%[2]s":2}`, `{"%[2]s":1,"model":"m","%[1]s":2}`} {
		body := fmt.Sprintf(twice, name, esc)
		if err = r.Scan(op, []byte(body)); err == nil { // a family member is not refused, all of it goes
			if out := edited(t, op, body, rw); strings.Contains(out, name) || strings.Contains(out, esc) {
				t.Errorf("%s: got %s", body, out)
			}
		}
	}
	upper := strings.ToUpper(name[:1]) + name[1:]
	if err = r.Scan(op, []byte(`{"`+upper+`":1}`)); err == nil {
		t.Errorf("%s taken", upper)
	}
	nested := `{"messages":[{"role":"user","` + name + `":"x"}],"prompt":"x"}`
	if rw.UnknownFields == "pass" {
		if got := edited(t, op, nested, rw); got != nested {
			t.Errorf("nested: got %s", got)
		}
	}
}

func decodeAny(t testing.TB, b []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return m
}

// expected makes the declared changes on the decoded body, by other means.
func expected(r *Request, m map[string]any, rw *Rewrite) map[string]any {
	for _, f := range fields {
		if f.class == ClassInternal {
			delete(m, f.name)
		}
	}
	for name := range m {
		if strings.HasPrefix(name, "bootstrap_") && name != "bootstrap_" || strings.HasPrefix(name, "disagg_") &&
			name != "disagg_" {
			delete(m, name)
		}
	}
	if kw, ok := m["chat_template_kwargs"].(map[string]any); ok {
		delete(kw, "chat_template")
		delete(kw, "tokenize")
	}
	m["model"] = rw.Model
	m["cache_salt"] = rw.Salt
	if r.Stream {
		so, _ := m["stream_options"].(map[string]any)
		if so == nil {
			so = map[string]any{}
		}
		so["include_usage"] = true
		m["stream_options"] = so
	}
	limited := false
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		v, ok := m[name]
		if !ok {
			continue
		}
		limited = true
		if n, ok := v.(json.Number); ok {
			if f, _ := n.Float64(); f > 0 && f <= float64(rw.MaxTokens) || n.String() == "0" && name == "max_tokens" {
				continue
			}
		}
		m[name] = json.Number(fmt.Sprint(rw.MaxTokens))
	}
	if !limited {
		m["max_tokens"] = json.Number(fmt.Sprint(rw.MaxTokens))
	}
	return m
}

func depthOf(b []byte) (deepest int) {
	depth, str := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case str && c == '\\':
			i++
		case c == '"':
			str = !str
		case str:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// FuzzScan compares with encoding/json: the same bodies are taken but for the
// stated refusals, and the edited body decodes to the declared changes.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{"a":[{"b":"\\\""},1.5e3,null],"model":{"x":[]}, "stream" : false }`, `{"mod\u0065l":"a","stream":true}`,
		`{"stream":true,"stream_options":{"x":1,"include_usage":false},"max_tokens":100,"rid":1}`,
		`{"priority":1,"chat_template_kwargs":{"chat_template":"x","y":2},"bootstrap_host":2}`,
		`{"x":1,"x":2,"nvext":{"a":1},"messages":[{"role":"user","content":"ü\ud83d\ude00"}]}`,
		"{\"x\":\"\xff\",\"max_completion_tokens\":1e3,\"Model\":1}", `{"a":01}`, `{"a":"` + "\x1f" + `"}`, `[]`, ` {} `,
		`{"\u212aey":1}`,
		`{"max_tokens":null,"cache_salt":"y","n":3,"user":"\ud800"}`,
		`{"messages":[{"content":[{"uuid":"a","uu\u0069d":[1]},{"uuid":null}],"uuid":"b"},[{"uuid":1}]],` +
			`"input":[{"content":[{"uuid":"c"}]}]}`,
		`{"prompt":[1, 2,03]}`, `{"prompt":[0,1 ,2,  3,-4,5.5,6]}`, `{"prompt":[1,2,]}`, `{"prompt":[[1,2],[3,"4"]]}`,
	} {
		f.Add([]byte(s))
	}
	rw := Rewrite{Model: "big \"model\"", Salt: "s", SetSalt: true, ForceUsage: true, MaxTokens: 50}
	var r Request
	f.Fuzz(func(t *testing.T, body []byte) {
		err := r.Scan(OpChat, body)
		object := json.Valid(body) && bytes.TrimLeft(body, " \t\r\n")[0] == '{'
		if err != nil {
			e, _ := errors.AsType[*Error](err)
			switch {
			case e.Code != CodeInvalidJSON, !object, depthOf(body) > jsonscan.MaxDepth:
				return
			}
			t.Fatalf("refused valid JSON: %v", err)
		}
		if !object {
			t.Fatal("accepted what encoding/json refuses")
		}
		edits, err := r.AppendEdits(nil, &rw)
		if err != nil {
			t.Fatal(err)
		}
		got := decodeAny(t, []byte(apply(t, body, edits)))
		if want := expected(&r, decodeAny(t, body), &rw); !reflect.DeepEqual(maskMedia(got), maskMedia(want)) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
		onlyAllowed(t, &r)
	})
}

// onlyAllowed checks that with unknown_fields: drop nothing outside of the
// allow-list is left and nothing inside of it is changed.
func onlyAllowed(t *testing.T, r *Request) {
	t.Helper()
	for _, d := range dialect.All() {
		edits, err := r.AppendEdits(nil, &Rewrite{Dialect: d.Name, UnknownFields: "drop"})
		if err != nil {
			t.Fatal(err)
		}
		got, before := decodeAny(t, []byte(apply(t, r.Body, edits))), decodeAny(t, r.Body)
		for name, v := range before {
			i, known := fieldByName[name]
			stays := known && fields[i].class != ClassInternal && fields[i].has(FieldsChat, d)
			w, there := got[name]
			if there != stays {
				t.Fatalf("%s: %q there: %v, want %v", d.Name, name, there, stays)
			}
			if stays && name != "stream_options" && name != "chat_template_kwargs" && !reflect.DeepEqual(v, w) {
				t.Fatalf("%s: %q became %v", d.Name, name, w)
			}
			delete(got, name)
		}
		if len(got) != 0 {
			t.Fatalf("%s: appeared: %v", d.Name, got)
		}
	}
}

// FuzzParseUsage compares with encoding/json on answers it takes.
func FuzzParseUsage(f *testing.F) {
	f.Add([]byte(`{"id":"x","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,` +
		`"prompt_tokens_details":{"cached_tokens":128}}}`))
	f.Add([]byte(`{"choices":[{"delta":{"content":"\"usage\""}}],"usage":null}`))
	f.Add([]byte(`{"type":"message_delta","usage":{"input_tokens":3,"output_tokens":2,"cache_read_input_tokens":64}}`))
	f.Add([]byte(`{"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":8},"output_tokens":2}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var u Usage
		if id := AnswerID(b); id != "" && !bytes.Contains(b, []byte(`"`+id+`"`)) {
			t.Fatalf("id %q", id)
		}
		if !ParseUsage(b, &u) || !json.Valid(b) {
			return
		}
		if !json.Valid(b[u.Span.Start:u.Span.End]) {
			t.Fatal("usage is no value")
		}
	})
}
