//go:build bench

package bench

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kvasir-router/kvasir/host/config"
	"github.com/kvasir-router/kvasir/host/llmapi"
	"github.com/kvasir-router/kvasir/host/rules"
)

var vocabulary = strings.Fields("the of and to in a is that for it as was with be by on not he his but at are this " +
	"have from or had an they which one you were all her she there would their we him been has when who will no more " +
	"if out so said what up its about than into them can only other time new some could these two may first then do " +
	"any like my now over such our man me even most made after also did many fore must through years where much your " +
	"way well down should because each just those people")

// prose returns text without escapes, as few real bodies are.
func prose(r *rand.Rand, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		b.WriteString(vocabulary[r.IntN(len(vocabulary))])
		b.WriteByte(' ')
	}
	return b.String()
}

// code returns text with quotes, tabs and line ends as source code has them.
func code(r *rand.Rand, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		w := func() string { return vocabulary[r.IntN(len(vocabulary))] }
		fmt.Fprintf(&b, "func %s%d(%s string) error {\n\tif %s != nil {\n\t\treturn fmt.Errorf(\"%s %s: %%w\", err)\n\t}\n"+
			"\treturn %s.%s(\"%s\")\n}\n\n", w(), r.IntN(1000), w(), w(), w(), w(), w(), w(), w())
	}
	return b.String()
}

// message is a message of a chat body, its content or its call of a tool.
type message struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"`
	Calls   []toolCall `json:"tool_calls,omitempty"`
	ID      string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// agent returns the messages of a coding agent: calls of tools and what they returned.
func agent(r *rand.Rand, bytes int) (out []message) {
	system := prose(r, 8000)
	out = append(out, message{Role: "system", Content: &system})
	for sum, k := len(system), 0; sum < bytes; k++ {
		task, file, id := prose(r, 300), code(r, 3000), fmt.Sprintf("call_%d", k)
		call := toolCall{ID: id, Type: "function"}
		call.Function.Name = "edit_file"
		arguments, err := json.Marshal(map[string]string{"path": "/src/main.go", "old": code(r, 400), "new": code(r, 500)})
		if err != nil {
			panic(err)
		}
		call.Function.Arguments = string(arguments)
		out = append(out, message{Role: "user", Content: &task}, message{Role: "assistant", Calls: []toolCall{call}},
			message{Role: "tool", Content: &file, ID: id})
		sum += len(task) + len(file) + len(arguments)
	}
	return out
}

// countsKey precedes, in a body, the prompt's tokens and how many of them an engine has
// computed that has answered a prompt with the same beginning: [tokens,cached].
const countsKey = `"bench_counts":`

// counter counts the tokens of prompts as the engine does. Safe for concurrent use.
type counter struct{ prompts *rules.Prompts }

func newCounter(t testing.TB) counter {
	t.Helper()
	p, err := rules.OpenPrompts(&config.Tokenizer{Dir: tokenizerDir(t), TimeZone: "UTC", Library: "auto"}, 256<<20)
	if err != nil {
		t.Fatal(err)
	}
	return counter{p}
}

// tokens returns the tokens of the prompt of a chat body.
func (c counter) tokens(body []byte) []uint32 {
	var r llmapi.Request
	err := r.Scan(llmapi.OpChat, body)
	if err != nil {
		panic(err)
	}
	ids, err := c.prompts.Chat().Tokens(&r, nil)
	if err != nil {
		panic(err)
	}
	return ids
}

// counted returns body with the counts that its answer reports. The first shared tokens
// are those of former requests.
func (c counter) counted(body []byte, shared int) []byte {
	n := len(c.tokens(body))
	cached := min(shared, n-1) / blockTokens * blockTokens
	return fmt.Appendf(body[:len(body)-1], ",%s[%d,%d]}", countsKey, n, cached)
}

// chat returns the body of a chat request.
func chat(stream bool, messages ...message) []byte {
	b, err := json.Marshal(map[string]any{"model": "m", "stream": stream, "max_tokens": 64, "messages": messages})
	if err != nil {
		panic(err)
	}
	return b
}

// user returns a message of the user.
func user(content string) message { return message{Role: "user", Content: &content} }
