package llmapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const benchTail = `,"model":"llama-3.1-8b-instruct","max_tokens":512,"temperature":0.7,"top_p":0.95,"stream":true,` +
	`"stream_options":{"include_usage":true},"user":"user-1234","n":1}`

// benchBodies are request shapes that occur, by name.
func benchBodies() map[string][]byte {
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, again and again; no one knows why it does so. ",
		6000)
	code := strings.Repeat("func main() {\n\tfmt.Println(\"hello, \\\"world\\\"\")\n\tif err != nil {\n"+
		"\t\treturn fmt.Errorf(\"x: %w\", err)\n\t}\n}\n", 4000)
	one := func(s string) []byte {
		return []byte(`{"messages":[{"role":"user","content":` + s + `}]` + benchTail)
	}
	var agent, ids strings.Builder
	agent.WriteString(`{"messages":[{"role":"system","content":"x"}`)
	for i := 0; agent.Len() < 398000; i += 3 {
		fmt.Fprintf(&agent, `,{"role":"user","content":%s},{"role":"assistant","content":null,`+
			`"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"read_file","arguments":%s}}]},{"role":"tool",`+
			`"tool_call_id":"call_%d","content":%s}`,
			quote(prose[i*37:i*37+1500]), i, quote(`{"path":"/src/main.go","query":"a \"quoted\" thing"}`), i,
			quote(code[i*11:i*11+1200]))
	}
	agent.WriteString("]" + benchTail)
	ids.WriteString(`{"prompt":[0`)
	for i := 1; ids.Len() < 398000; i++ {
		fmt.Fprintf(&ids, ", %d", i*7919%128256)
	}
	ids.WriteString("]" + benchTail)
	return map[string][]byte{
		"1KB": one(quote(prose[:800])), "400KB-prose": one(quote(prose[:399000])), "400KB-code": one(quote(code[:320000])),
		"400KB-agent": []byte(agent.String()), "400KB-cjk": one(`"` + strings.Repeat("敏捷的棕色狐狸跳过了懒狗，没有人知道它为什么要这样做。", 5000) +
			`"`),
		"400KB-ids": []byte(ids.String()),
	}
}

func TestScan_allocs(t *testing.T) {
	var r Request
	var edits []Edit
	var parts [][]byte
	rw := Rewrite{Model: "m", Salt: "s", SetSalt: true, ForceUsage: true, MaxTokens: 7}
	bodies := benchBodies()
	bodies["escaped"] = []byte(`{"mod\u0065l":"\u00e4b","str\u0065am":true,"rid":1,"stream_options":{"x\u0020":1},` +
		`"chat_template_kwargs":{"tokenize":1}}`)
	for name, body := range bodies {
		got := testing.AllocsPerRun(10, func() {
			if err := r.Scan(OpChat, body); err != nil {
				t.Fatal(err)
			}
			var err error
			if edits, err = r.AppendEdits(edits[:0], &rw); err != nil {
				t.Fatal(err)
			}
			parts = AppendParts(parts[:0], body, edits)
		})
		if got != 0 {
			t.Errorf("%s: got %v allocations, want 0", name, got)
		}
	}
	answer := []byte(`{"choices":[],"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":8}}}`)
	var u Usage
	if got := testing.AllocsPerRun(10, func() { ParseUsage(answer, &u) }); got != 0 {
		t.Errorf("ParseUsage: got %v allocations, want 0", got)
	}
}

func BenchmarkScan(b *testing.B) {
	bodies := benchBodies()
	for _, name := range []string{"1KB", "400KB-prose", "400KB-code", "400KB-agent", "400KB-cjk", "400KB-ids"} {
		body := bodies[name]
		b.Run("body="+name, func(b *testing.B) {
			var r Request
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Scan(OpChat, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendEdits(b *testing.B) {
	body := benchBodies()["1KB"]
	var r Request
	if err := r.Scan(OpChat, body); err != nil {
		b.Fatal(err)
	}
	rw := Rewrite{Model: "m", Salt: "0123456789abcdef0123456789abcdef0123456789a", SetSalt: true, ForceUsage: true}
	var edits []Edit
	b.ReportAllocs()
	for b.Loop() {
		r.edit = r.edit[:0]
		edits, _ = r.AppendEdits(edits[:0], &rw)
	}
}

func BenchmarkParseUsage(b *testing.B) {
	event := []byte(`{"id":"chatcmpl-123","object":"chat.completion.chunk","created":1,"model":"m",` +
		`"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`)
	last := bytes.Replace(event, []byte(`"choices"`),
		[]byte(`"usage":{"prompt_tokens":10,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":8}},"choices"`), 1)
	for name, e := range map[string][]byte{"without": event, "with": last} {
		b.Run("usage="+name, func(b *testing.B) {
			var u Usage
			b.ReportAllocs()
			for b.Loop() {
				ParseUsage(e, &u)
			}
		})
	}
}
